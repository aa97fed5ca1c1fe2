"""Classes as averages: nearest centroid, robust averages, prototypes in an embedding."""

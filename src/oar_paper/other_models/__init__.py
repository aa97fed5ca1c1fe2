"""Figure 2 for models other than nearest centroid."""

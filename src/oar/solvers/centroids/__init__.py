"""Nearest centroid: exact, by gradients, and by the paper's heuristic."""

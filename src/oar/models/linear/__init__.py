"""Models with linear outputs and a convex loss."""

"""Side effects of a plan."""

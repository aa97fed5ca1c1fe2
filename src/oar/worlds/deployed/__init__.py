"""The deployed model as actors see it."""

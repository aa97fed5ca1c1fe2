"""Golden problems: answers recorded once, with which later versions are compared."""

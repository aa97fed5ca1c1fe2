"""The organiser's report."""

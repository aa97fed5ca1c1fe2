"""What ships with the package, and loaders for what does not."""

"""Plans and results over several rounds."""

"""A plan as a folder of files."""

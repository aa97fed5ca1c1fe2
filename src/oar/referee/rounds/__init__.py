"""The audit of plans over several rounds."""

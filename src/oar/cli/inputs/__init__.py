"""From options and files to people and problems."""

"""Inputs of the command: options and files are read as people and problems."""

"""Transformers before the last step of a pipeline, refitted and differentiated with it."""

"""The batch-norm footnote."""

"""The paper's experiments, end to end."""

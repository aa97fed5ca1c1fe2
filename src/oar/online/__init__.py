"""WHAT HAPPENS OVER TIME: batches that arrive, the operator's update rule, and what is asked of both."""

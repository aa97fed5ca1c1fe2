"""Planning over several rounds of retraining."""

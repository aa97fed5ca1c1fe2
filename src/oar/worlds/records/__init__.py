"""What is written down of a round."""

"""What a plan does to others."""

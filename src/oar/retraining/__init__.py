"""What people hand in (`contribution`), what a refit makes of it, and what that means for who asks (`retraining`)."""

"""What tells one study from another."""

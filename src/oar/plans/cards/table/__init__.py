"""Cards of tables."""

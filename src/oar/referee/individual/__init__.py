"""The audit of advice to one person, and what it would accept."""

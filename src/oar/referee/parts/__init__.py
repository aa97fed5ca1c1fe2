"""The audit of plans for people who are not in memory."""

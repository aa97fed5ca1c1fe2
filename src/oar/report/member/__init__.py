"""The member's page."""

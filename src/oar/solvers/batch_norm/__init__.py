"""Collective recourse through test-time batch norm."""

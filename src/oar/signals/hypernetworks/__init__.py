"""The hypernetwork signal: refits are learned, and what was learned is differentiated."""

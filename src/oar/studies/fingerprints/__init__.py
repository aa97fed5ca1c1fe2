"""Fingerprints, which tell one study from another."""

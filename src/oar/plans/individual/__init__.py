"""Advice to one person, with the certificate that nothing is cheaper."""

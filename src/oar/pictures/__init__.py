"""Figures and markup: arrays and texts in, figures and markup out.

Nothing here knows a problem or a plan, so that results may show themselves and reports may use the same hand.
"""

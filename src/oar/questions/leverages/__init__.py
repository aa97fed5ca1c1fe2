"""Leverage: the fall of the goal loss per unit of move, and what a defence is worth."""

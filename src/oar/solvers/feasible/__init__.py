"""Feasible sets of everyone's moves: project, respond, certify."""

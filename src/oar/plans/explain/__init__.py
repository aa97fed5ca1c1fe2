"""Explanations of results: effort, side effects, how independent the audit was."""

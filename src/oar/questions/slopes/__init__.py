"""Slopes of the goal loss: of labels and leaving, by true trainings of a black box, and over people in parts."""

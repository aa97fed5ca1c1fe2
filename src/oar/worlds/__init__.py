"""WORLDS: an arriving population, an operator who keeps retraining, a collective, and everybody else."""

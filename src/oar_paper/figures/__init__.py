"""The figures of the experiments, and the data that they show: the same data give the same bytes."""

"""A fixed network whose batch statistics are recomputed at test time."""

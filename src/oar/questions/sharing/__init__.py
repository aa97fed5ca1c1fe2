"""Ways to share out what a plan achieves: along a path, by slopes, or by refits without some who act."""

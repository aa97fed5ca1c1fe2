"""The leaderboard: one problem, everyone who could solve it, one referee. `python -m benchmarks.leaderboard --help`."""

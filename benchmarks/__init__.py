"""How fast, against what: ratios of times measured side by side in one run. `python -m benchmarks`."""

"""The sets that moves stay in: p-balls, and regions of a table measured in cost."""

"""People of a world: where they come from, their labels, who is drawn."""

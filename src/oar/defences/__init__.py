"""HOW OPERATORS DEFEND THEMSELVES: what they do to data, model or calendar before they retrain."""

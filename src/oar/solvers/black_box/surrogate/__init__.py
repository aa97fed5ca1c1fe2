"""Plans for a black box by surrogates."""

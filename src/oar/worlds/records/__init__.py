"""Records of a round."""

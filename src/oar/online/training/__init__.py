"""A model bound to the people of a round."""

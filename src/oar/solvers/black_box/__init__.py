"""Planning for models that are only trained and asked."""

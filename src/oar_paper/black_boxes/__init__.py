"""The study of models that are only trained and asked."""

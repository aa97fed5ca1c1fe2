"""Tables as they come in: schemas, coordinates, missing values, files."""

"""Stories over many rounds: a school district, credit, batch norm at test time."""

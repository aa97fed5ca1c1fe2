"""Cards of plans in which labels change or members leave: a rule that each evaluates alone."""

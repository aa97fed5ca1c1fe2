"""Figure 2: goal loss against the budget and against participation, for one pair of classes and for all."""

"""Models around models: scalers, ensembles, moves in units of cost."""

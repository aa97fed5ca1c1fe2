"""Every limit checked again: moves, changes of a table, labels, leavers, side effects."""

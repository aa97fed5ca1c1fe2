"""The referee's proofs about all feasible plans, computed again from the data and the audit's own refits.

A solver proposes; what it takes for optimal or impossible is its own affair. Here every theorem that applies to the
problem is evaluated again, without the solvers, for everything that an audit would accept. At most a solver's
multipliers are used, which prove something or do not. What nothing here proves is called found.

Shared with the solvers are facts below both: lengths in a norm, the boxes of a tree's leaves, a network's halves around
its batch norm, and what rows weigh under gradient steps and fine-tuning. Tests hold these to brute force.
"""

"""Who bears how much of a plan: effort by person and column."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oar.plans import Plan

Array = NDArray[np.float64]


def costs_by_column(plan: Plan) -> tuple[tuple[str, ...], Array]:
    """Return columns' names, and what everyone's move costs in each (n, m): of a table in cost, else in its units."""
    problem, people = plan.problem, plan.problem.people
    moves = np.asarray(plan.moves(), dtype=np.float64)
    if people.encoding is None:
        names = people.names or tuple(f"feature {number}" for number in range(people.dimensions))
        return names, np.abs(moves)
    names, costs = people.encoding.schema.names, np.zeros((people.size, len(people.encoding.schema)))
    if problem.moves:
        measured = problem.measured(False)
        spent = measured.wide(moves[:, measured.columns] * measured.costs)
        for number, name in enumerate(names):
            costs[:, number] = problem.allowance.norm.length(spent[:, people.encoding.places[name]])
    return names, costs


def efforts(plan: Plan) -> Array:
    """Return the size of everyone's move (n,), in the norm of the budgets; what the audit adds up."""
    return plan.problem.allowance.norm.length(costs_by_column(plan)[1])

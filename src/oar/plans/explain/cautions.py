"""What a result warns of: an estimator that stopped short of its minimum, and moves that leave the range of the data.

Plans for scikit-learn's estimators are made for the exact minimum, and an estimator stops before it: lbfgs at a largest
slope of `tol`. With a penalty λ that leaves parameters within ‖slope‖/λ of the minimum, and a goal loss that is off by
about ∇L·H⁻¹·slope, which can be small or large. It is measured rather than bounded: the same estimator is trained once
more on the same data, with the smallest tol that means something. If that is what the solver expects, the difference is
the estimator's own, and the solver reasoned about the right model.

Where nobody is, a model's word is worth little, and so is advice.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from oar.estimators.cores.stopped_training import TrainedCore
from oar.estimators.rows import last_step, unfitted
from oar.estimators.twin import Twin, output_loss
from oar.people.wording import counted, shown
from oar.plans.moves.changes_table import columns_of
from oar.plans.plan import Plan
from oar.plans.refits import Refits

Array = NDArray[np.float64]
TOL, STEPS = 1e-12, 100_000
EXACT = "newton-cholesky"  # which of LogisticRegression's solvers comes nearest to the minimum
MUCH = 0.25  # of a column's range, past its least or largest value
MOST_NAMED = 3


def settled_loss(plan: Plan) -> float:
    """Return the goal loss if the plan's estimator went on to its minimum; NaN where that is not known."""
    problem, model = plan.problem, plan.problem.model
    if not isinstance(model, Twin) or isinstance(model.core, TrainedCore) or problem.undecided:
        return np.nan
    refits = Refits(plan)
    people = refits.planned.handed_in(problem.people, problem.regresses)
    original = _going_on(model).original(people, refits.features + refits.moves)
    outputs = original.outputs(refits.retraining.points(refits.planned, plan.query_move))
    losses = [output_loss(model.core.loss, row, wish.target) for row, wish in zip(outputs, problem.wishes, strict=True)]
    reached = [wish.reached(row) for row, wish in zip(outputs, problem.wishes, strict=True)]
    return float(problem.combined(np.array(losses), np.array(reached))[0])


def _going_on(model: Twin) -> Twin:
    """Return the twin of the same estimator with a tighter tolerance, and as many steps as that takes."""
    estimator = unfitted(model.estimator)
    last = last_step(estimator)
    settings = last.get_params(deep=False)
    wanted: dict[str, float | str] = {"tol": TOL, "max_iter": STEPS}
    if settings.get("solver") in ("lbfgs", "newton-cg", "sag", "saga") and type(last).__name__ == "LogisticRegression":
        wanted["solver"] = EXACT
    last.set_params(**{name: value for name, value in wanted.items() if name in settings})
    return replace(model, estimator=estimator)


def beyond_range(plan: Plan) -> tuple[str, ...]:
    """Return one warning if moves leave the range of the data by much, or below 0 where nobody is; nothing otherwise.

    Columns are plain features, numbers and whole numbers: levels and flags cannot leave their values. Of people in
    parts nothing is said.
    """
    people = plan.problem.people
    if people.streamed:
        return ()
    before, moves = np.asarray(people.features, dtype=np.float64), np.asarray(plan.moves(), dtype=np.float64)
    columns, found = columns_of(people), []
    for name in (column.name for column in columns.schema if column.kind in ("number", "integer")):
        place = columns.places[name].start
        moved = moves[:, place] != 0
        if moved.any():
            least, most = float(before[:, place].min()), float(before[:, place].max())
            after = before[moved, place] + moves[moved, place]
            said = _said(after, least, most)
            if said:
                found.append(f"{shown(name)} goes to {said} (observed: {least:g} to {most:g})")
    if not found:
        return ()
    more = f", and so do {counted(len(found) - MOST_NAMED, 'other', 'others')}" if len(found) > MOST_NAMED else ""
    return (
        f"Moves leave the range of the data by much: {', '.join(found[:MOST_NAMED])}{more}; limits keep them within it "
        "(oar.Limits.observed).",
    )


def _said(after: Array, least: float, most: float) -> str:
    """Return the value that is farthest out, if any is by much."""
    room = MUCH * (most - least)
    low, high = float(after.min()), float(after.max())
    negative = least >= 0 and low < 0 and low < -1e-9 * most
    if not negative and low >= least - room and high <= most + room:
        return ""
    return f"{low:g}" if negative or least - low > high - most else f"{high:g}"

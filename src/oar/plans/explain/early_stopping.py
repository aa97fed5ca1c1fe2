"""The minimum that an estimator stopped short of: what its own tolerance makes of a goal loss.

Plans for scikit-learn's estimators are made for the exact minimum, and an estimator stops before it: lbfgs at a largest
slope of `tol`. With a penalty λ that leaves parameters within ‖slope‖/λ of the minimum, and a goal loss that is off by
about ∇L·H⁻¹·slope, which can be small or large. It is measured rather than bounded: the same estimator is trained once
more on the same data, with the smallest tol that means something. If that is what the solver expects, the difference is
the estimator's own, and the solver reasoned about the right model.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from oar.estimators.cores.stopped_training import TrainedCore
from oar.estimators.rows import last_step, unfitted
from oar.estimators.twin import Twin, output_loss
from oar.plans.plan import Plan
from oar.plans.refits import Refits

TOL, STEPS = 1e-12, 100_000
EXACT = "newton-cholesky"  # which of LogisticRegression's solvers comes nearest to the minimum


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

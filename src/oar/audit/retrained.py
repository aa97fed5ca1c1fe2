"""The audit of models that are trained: retrain on the moved data, and judge the query there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.audit.contributions import Contributions
from oar.audit.limits import limits_of
from oar.audit.witnesses import Testimony, testify
from oar.models import Differentiable
from oar.plans import Audit, Plan
from oar.problem import Problem

Array = NDArray[np.float64]

# A refit to 1e-10 leaves outputs uncertain in about the ninth digit; leads smaller than that are ties.
TIE = 1e-9


def audit_retrained(plan: Plan) -> Audit:
    """Refit before and after the plan's moves, and report what the query gets."""
    problem = plan.problem
    people, model = problem.people, problem.model
    assert isinstance(model, Differentiable)
    limits, changed = limits_of(problem), Contributions(plan)
    before, after = np.empty((2, people.size, people.dimensions))
    for chunk in people.chunks():
        moves = limits.check(chunk, plan.of_chunk(chunk))
        before[chunk.start : chunk.stop] = chunk.features
        after[chunk.start : chunk.stop] = chunk.features + moves
    point, own = problem.query_features, limits.check_query(plan.query_move)
    old = testify(model, people, before, point, problem.goal_target)
    new = testify(model, changed.after, after, point + own, problem.goal_target)
    violations = (*limits.violations, *changed.violations)
    old_prediction, old_lead, _ = _judge(problem, old)
    prediction, lead, tie = _judge(problem, new)
    return Audit(
        loss_before=old.loss if old.converged else np.nan,
        loss=new.loss if new.converged else np.nan,
        prediction_before=old_prediction,
        prediction=prediction,
        margin=lead,
        tie=tie,
        success_before=old_lead > tie,
        success=lead > tie and not violations,
        movers=limits.movers,
        effort=limits.effort,
        violations=violations,
        witness=new.witness,
        residual=new.residual,
        converged=old.converged and new.converged,
        relabelled=changed.relabelled,
        leavers=changed.leavers,
    )


def _judge(problem: Problem, testimony: Testimony) -> tuple[Any, float, float]:
    """Return the prediction, how far it is on the goal's side, and how little of that is a tie."""
    outputs = testimony.outputs
    if not testimony.converged:
        return None, np.nan, np.nan  # no number is better than one that means nothing
    if problem.regresses:
        value = float(outputs[0]) if outputs.size == 1 else outputs
        room = float(problem.query.within or 0.0) - float(np.abs(outputs - problem.goal_target).max())
        return value, room, -np.finfo(float).eps  # at the edge of the range is inside it
    logits = np.array([0.0, outputs[0]]) if outputs.size == 1 else outputs
    tie = TIE * (1 + float(np.abs(logits).max()))
    others = np.delete(logits, problem.goal)
    lead = float(logits[problem.goal] - others.max())
    nearest = problem.goal
    if not lead > tie:
        nearest = int(np.argmax(np.where(np.arange(logits.size) == problem.goal, -np.inf, logits)))
    return problem.people.classes[nearest], lead, tie

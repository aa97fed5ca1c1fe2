"""The audit of models that are trained: retrain on the moved data, and judge the query there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oar.models import Differentiable
from oar.plans import Audit, Plan
from oar.problem import Problem
from oar.referee.limits.contributions import Contributions
from oar.referee.limits.moves import limits_of
from oar.referee.limits.side_effects import Predict, broken_by
from oar.referee.verdicts import UNKNOWN, AuditSummary, Verdict, judged
from oar.referee.witnesses.refits import WitnessRefit, refit
from oar.referee.witnesses.unmoved import unmoved_refit

Array = NDArray[np.float64]


def audit_retrained(plan: Plan) -> tuple[Audit, WitnessRefit]:
    """Refit before and after the plan's moves; return what the query gets, and the refit to unmoved people."""
    problem = plan.problem
    people, model = problem.people, problem.model
    assert isinstance(model, Differentiable)
    limits, changed = limits_of(problem), Contributions(plan)
    before, after = np.empty((2, people.size, people.dimensions))
    for chunk in people.chunks():
        moves = limits.check(chunk, plan.of_chunk(chunk))
        before[chunk.start : chunk.stop] = chunk.features
        after[chunk.start : chunk.stop] = chunk.features + moves
    own, asked = limits.check_query(plan.query_move), problem.asked
    moved = asked.points + own if asked.members is None else after[asked.members]
    old, new = unmoved_refit(model, people, before), refit(model, changed.after, after)
    violations = (
        *limits.violations,
        *changed.violations,
        *broken_by(plan, _predict(problem, old), _predict(problem, new)),
    )
    witness = new.testify(moved[0], problem.goal_target)
    told = AuditSummary(problem, heard(problem, old, asked.points), heard(problem, new, moved))
    found = Audit(
        **told.reported(not violations),
        movers=limits.movers,
        effort=limits.effort,
        violations=violations,
        witness=witness.witness,
        residual=witness.residual,
        converged=old.testify(asked.points[0], problem.goal_target).converged and witness.converged,
        relabelled=changed.relabelled,
        leavers=changed.leavers,
        independence=witness.independence,
    )
    return found, old


def _predict(problem: Problem, fitted: WitnessRefit) -> Predict:
    """Return predictions of many people: class codes, or values."""

    def predict(rows: Array) -> NDArray:
        outputs = fitted.outputs(rows)
        if problem.regresses:
            return outputs
        return outputs.argmax(axis=1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0).astype(np.intp)

    return predict


def heard(problem: Problem, fitted: WitnessRefit, points: Array) -> list[Verdict]:
    """Ask a refitted model about everybody who asks."""
    heard = []
    for wish, point in zip(problem.wishes, points, strict=True):
        told = fitted.testify(point, wish.target)
        if not told.converged:
            heard.append(UNKNOWN)
            continue

        def loss_at(target: Array, point: Array = point) -> float:
            return fitted.testify(point, target).loss

        heard.append(judged(problem, wish, told.outputs, loss_at))
    return heard

"""The witness of models that are trained: retrain on the moved data, and judge the query there."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from oar.models import Differentiable
from oar.plans import Plan
from oar.problem import Problem
from oar.referee.contributions import Contributions
from oar.referee.verdicts import UNKNOWN, JudgedModel, Retrial, Verdict, judged
from oar.referee.witnesses.refits import WitnessRefit, refit, unmoved_refit

Array = NDArray[np.float64]


def by_training(plan: Plan) -> Retrial:
    """Refit before and after the plan's moves."""
    problem, handed_in = plan.problem, Contributions(plan)
    people, model = problem.people, problem.model
    assert isinstance(model, Differentiable)
    before, after = handed_in.rows()
    moved = handed_in.points(after)
    old, new = unmoved_refit(model, people, before), refit(model, handed_in.after, after)
    pair = refitted_model(problem, old, problem.asked.points), refitted_model(problem, new, moved)
    return Retrial(handed_in, [pair], moved, old)


def refitted_model(problem: Problem, fitted: WitnessRefit, points: Array) -> JudgedModel:
    """Return a witness's refit as the referee asks it; the first of the points says how well it was fitted."""
    said = fitted.testify(points[0], problem.wishes[0].target)
    return JudgedModel(
        partial(heard, problem, fitted),
        partial(_predict, problem, fitted),
        said.witness,
        said.residual,
        said.converged,
        said.independence,
    )


def _predict(problem: Problem, fitted: WitnessRefit, rows: Array) -> NDArray:
    """Return predictions of many people: class codes, or values."""
    outputs = fitted.outputs(rows)
    if problem.regresses:
        return outputs
    return outputs.argmax(axis=1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0).astype(np.intp)


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

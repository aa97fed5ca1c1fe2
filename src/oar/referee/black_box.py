"""The witness of black boxes: their own training on the moved data, as often as a rate of success takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from oar.estimators.black_box import BlackBox, Box, Rate
from oar.goals import ClassWish
from oar.plans import Plan
from oar.plans.result import Independence
from oar.problem import Problem
from oar.referee.contributions import Array, Contributions
from oar.referee.verdicts import (
    ENTROPY,
    SQUARED,
    AuditSummary,
    Heard,
    JudgedModel,
    Retrial,
    Said,
    Verdict,
    judged,
    loss_of_kind,
)
from oar.retraining.black_box import AUDIT, BlackBoxTraining


def by_its_own_training(plan: Plan) -> Retrial:
    """Train a black box before and after the plan's moves.

    Random training is repeated, with seeds that no plan was made with: losses are means over refits, predictions those
    of most, and it is a success where the goal is reached in enough of them for the interval of their share.
    """
    problem, people, handed_in = plan.problem, plan.problem.people, Contributions(plan)
    box = problem.model
    assert isinstance(box, BlackBox)
    asking = BlackBoxTraining(problem, AUDIT)
    before, after = handed_in.rows()
    moved = handed_in.points(after)
    same = handed_in.after is people and np.array_equal(before, after)
    number = box.refits if asking.is_random() else 1
    witness = f"{box.name}, trained by its own fit" + (f" {number} times" if number > 1 else "")

    def judging(box: Box) -> JudgedModel:
        return JudgedModel(partial(_heard, asking, box), box.predictions, witness, independence=Independence.REPEATED)

    def pair(old: Box, draw: int) -> tuple[JudgedModel, JudgedModel]:
        return judging(old), judging(old if same else asking.trained(handed_in.after, after, draw))

    if number > 1:  # one after the other, so that only two are kept at a time
        pairs = (pair(asking.trained(people, before, draw), draw) for draw in range(number))
        return SeveralTrainings(handed_in, pairs, moved, None)
    unmoved = asking.trained(people, before, 0)
    return Retrial(handed_in, [pair(unmoved, 0)], moved, unmoved)


class SeveralTrainings(Retrial):
    """Random trainings without a plan and with it, seed by seed."""

    def together(self, problem: Problem, olds: Heard, news: Heard, each: list[Said], kept: bool) -> Said:
        """Put many refits together: means of numbers, most frequent predictions, and rates."""
        box = problem.model
        assert isinstance(box, BlackBox)
        reached = ("success_before", "success")
        rates = {name: Rate(sum(one[name] for one in each), len(each), box.confidence) for name in reached}
        old, new = ([_mean(list(one)) for one in zip(*heard, strict=True)] for heard in (olds, news))
        told = AuditSummary(problem, old, new).reported(kept)
        told |= {name: float(np.mean([one[name] for one in each])) for name in ("loss_before", "loss")}
        told |= {name: rate.interval[0] >= box.at_least for name, rate in rates.items()}
        return told | {"rate_before": rates["success_before"], "rate": rates["success"]}


def _mean(heard: list[Verdict]) -> Verdict:
    """Return what most refits say of one query, with means of their numbers."""
    predictions = [one.prediction for one in heard]
    if isinstance(predictions[0], float):
        most: Any = float(np.mean(predictions))
    elif isinstance(predictions[0], np.ndarray):
        most = np.mean(predictions, axis=0)
    else:
        most = max(predictions, key=predictions.count)
    known = [one.probability for one in heard if one.probability is not None]
    loss, lead, tie, slack = (
        float(np.mean([getattr(one, name) for one in heard])) for name in ("loss", "lead", "tie", "slack")
    )
    return Verdict(most, loss, lead, tie, float(np.mean(known)) if known else None, slack)


def _heard(asking: BlackBoxTraining, box: Box, points: Array) -> list[Verdict]:
    """Ask one trained box about everybody who asks."""
    problem = asking.problem
    said = box.says(points)
    if said.labels_alone:
        losses, reached = asking.answers(box, points)
        names = [problem.people.classes[code] for code in said.outputs]
        return [
            Verdict(name, float(loss), 1.0 if there else -float(loss), 0.0, None)
            for name, loss, there in zip(names, losses, reached, strict=True)
        ]
    return _told(problem, box, points, problem.wishes, said)


def heard_at(problem: Problem, box: Box, points: Array) -> list[Verdict]:
    """Ask one trained box what the only one who asks would be told at each of many points (m, d)."""
    return _told(problem, box, points, problem.wishes * len(points), box.says(points))


def _told(problem: Problem, box: Box, points: Array, wishes: Sequence[Any], said: Any) -> list[Verdict]:
    """Judge what a box has said at points, of which each has a wish."""
    told = [judged_outputs(problem, wish, row) for wish, row in zip(wishes, said.outputs, strict=True)]
    if not box.decides:
        return told
    codes = box.predictions(points)
    return [_decided(problem, wish, one, code) for wish, one, code in zip(wishes, told, codes, strict=True)]


def _decided(problem: Problem, wish: Any, told: Verdict, code: Any) -> Verdict:
    """Return what is said with the prediction that the box itself makes, which need not be the most probable class.

    Being predicted is what counts, but a tie of probabilities is no success.
    """
    told = replace(told, prediction=problem.people.classes[code])
    if wish.probability is not None or abs(told.lead) <= told.tie:
        return told
    return replace(told, lead=abs(told.lead) if code in wish.codes else -abs(told.lead))


def judged_outputs(problem: Problem, wish: Any, outputs: Array) -> Verdict:
    """Judge log-probabilities (k,) or values (o,) that a box gives."""
    kind = ENTROPY if isinstance(wish, ClassWish) else SQUARED
    return judged(problem, wish, outputs, partial(loss_of_kind, kind, outputs))

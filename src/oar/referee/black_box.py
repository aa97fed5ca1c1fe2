"""The audit of black boxes: their own training on the moved data, as often as it takes to say how often it succeeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.estimators.black_box.box import BlackBox, Box
from oar.estimators.black_box.success_rate import Rate
from oar.goals import ClassWish
from oar.plans import Audit, Plan
from oar.problem import Problem
from oar.referee.limits.contributions import Contributions
from oar.referee.limits.moves import limits_of
from oar.referee.limits.side_effects import broken_by
from oar.referee.verdicts import AuditSummary, Verdict, judged
from oar.retraining.black_box import AUDIT, BlackBoxTraining

Array = NDArray[np.float64]


def audit_outside(plan: Plan) -> tuple[Audit, Box | None]:
    """Train before and after the plan's moves; return what the query gets, and the box of unmoved people if it is one.

    Random training is repeated, with seeds that no plan was made with: losses are means over refits, predictions those
    of most, and it is a success where the goal is reached in enough of them for the interval of their share.
    """
    problem, people = plan.problem, plan.problem.people
    box = problem.model
    assert isinstance(box, BlackBox)
    limits, changed, asking = limits_of(problem), Contributions(plan), BlackBoxTraining(problem, AUDIT)
    before, after = np.empty((2, people.size, people.dimensions))
    for chunk in people.chunks():
        moves = limits.check(chunk, plan.of_chunk(chunk))
        before[chunk.start : chunk.stop] = chunk.features
        after[chunk.start : chunk.stop] = chunk.features + moves
    own, asked = limits.check_query(plan.query_move), problem.asked
    moved = asked.points + own if asked.members is None else after[asked.members]
    same = changed.after is people and np.array_equal(before, after)
    number = box.refits if asking.is_random() else 1
    olds, news, first = [], [], None
    violations: list[str] = [*limits.violations, *changed.violations]
    for draw in range(number):
        old = asking.trained(people, before, draw)
        first = old if first is None else first
        new = old if same else asking.trained(changed.after, after, draw)
        olds.append(_heard(asking, old, asked.points))
        news.append(_heard(asking, new, moved))
        if problem.kept is not None:
            violations += [one for one in broken_by(plan, old.predictions, new.predictions) if one not in violations]
    each = [AuditSummary(problem, olds[draw], news[draw]).reported(not violations) for draw in range(number)]
    told = each[0] if number == 1 else _together(problem, box, olds, news, each)
    found = Audit(
        **told,
        movers=limits.movers,
        effort=limits.effort,
        violations=tuple(violations),
        witness=f"{box.name}, trained by its own fit" + (f" {number} times" if number > 1 else ""),
        residual=0.0,
        relabelled=changed.relabelled,
        leavers=changed.leavers,
    )
    return found, first if number == 1 else None


def _together(
    problem: Problem, box: BlackBox, olds: list[list[Verdict]], news: list[list[Verdict]], each: list[dict[str, Any]]
) -> dict[str, Any]:
    """Put many refits together: means of numbers, most frequent predictions, and rates."""
    rates = {
        name: Rate(sum(one[name] for one in each), len(each), box.confidence) for name in ("success_before", "success")
    }
    old, new = ([_mean(list(one)) for one in zip(*heard, strict=True)] for heard in (olds, news))
    told = AuditSummary(problem, old, new).reported(True)
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
    if said.codes is not None:
        losses, reached = asking.answers(box, points)
        names = [problem.people.classes[code] for code in said.codes]
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
    outputs = said.values if said.logits is None else said.logits
    assert outputs is not None
    told = [judged_outputs(problem, wish, row) for wish, row in zip(wishes, outputs, strict=True)]
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

    def loss_at(target: Array) -> float:
        if isinstance(wish, ClassWish):
            return float(np.logaddexp.reduce(outputs) - target @ outputs)
        return 0.5 * float(((outputs - target) ** 2).sum())

    return judged(problem, wish, outputs, loss_at)

"""The audit of a plan over rounds: every limit measured again, and all rounds replayed without and with the moves.

Every round's retraining is done once more, from scratch, by somebody who had no part in the planning. Full and window
refits are done by scikit-learn where it has the model, and for nearest centroid by averages of rows; exponential means
of centroids by a plain loop over people. For rules that take gradient steps there is nobody else to ask: the rule
itself is run on trainings that are bound afresh to the data as handed in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import OptionError
from oar.models import Centroids, Differentiable
from oar.online import ExponentialMeans, FullRefit, OnlineProblem, Rollout, Window
from oar.online.bound_training import update_of
from oar.online.stream import HISTORY, Stream
from oar.plans import LeverPlan, Plan
from oar.plans.result import Independence, QueryOutcome, RoundOutcome
from oar.plans.rounds.result import OnlineAudit, OnlineResult
from oar.referee.centroids import heard as heard_by_centroids
from oar.referee.centroids import nearest
from oar.referee.contributions import LIMIT_SLACK, Array, Contributions, Offences
from oar.referee.verdicts import Heard, JudgedModel, Retrial, Said
from oar.referee.witnesses.refits import of_training, refit, refitted_model

AVERAGES = "class averages of the rows as handed in (numpy)"


@dataclass(frozen=True, eq=False)
class Replays(Retrial):
    """All rounds without a plan and with it, a pair for each."""

    pairs: Sequence[tuple[JudgedModel, JudgedModel]]
    acts: Sequence[tuple[int, float]] = ()  # how many members of each round move, and the sum of their moves' norms

    audit = OnlineAudit
    result = OnlineResult

    def counts_for_others(self, new: JudgedModel) -> bool:
        """Report whether this is the last round's model, for which side effects are limited."""
        return new is self.pairs[-1][1]

    def together(self, problem: Any, olds: Heard, news: Heard, each: list[Said], kept: bool) -> Said:
        """Put the rounds together that the goal is for, and list them all."""
        acts = [{"movers": movers, "effort": effort} for movers, effort in self.acts]
        rounds = tuple(RoundOutcome(number=t, **(told | acts[t])) for t, told in enumerate(each))
        replays = [one for pair in zip(*self.pairs, strict=True) for one in pair]
        counted = rounds[-1:] if problem.goal_for == "last" else rounds
        queries = zip(*(one.queries for one in counted), strict=True)
        return {
            **_over(counted),
            "queries": tuple(replace(several[-1], **_over(several)) for several in queries),
            "rounds": rounds,
            "goal_for": problem.goal_for,
            "movers": sum(one.movers for one in rounds),
            "effort": sum(one.effort for one in rounds),
            "witness": " and ".join(dict.fromkeys(new.witness for _, new in self.pairs)),
            "residual": max(one.residual for one in replays),
            "converged": all(one.converged for one in replays),
            "independence": Independence.weakest([one.independence for one in replays]),
        }


def by_rounds(plan: Plan) -> Retrial:
    """Replay all rounds before and after the plan's moves."""
    problem = plan.problem
    assert isinstance(problem, OnlineProblem)
    if isinstance(plan, LeverPlan):
        raise OptionError(
            "labels, leavers: over rounds members move and do nothing else, got other labels or leavers; leave them "
            "out, or audit one round of it as an oar.Problem."
        )
    handed_in = Contributions(plan, partial(_called, problem.stream))
    each = [(moves, handed_in.lengths(chunk, moves)) for chunk, moves in handed_in.chunks()]
    moves, lengths = np.vstack([one for one, _ in each]), np.concatenate([one for _, one in each])
    moved = handed_in.points(np.asarray(problem.people.features, dtype=np.float64) + moves)
    rows = [problem.stream.rows(number) for number in range(problem.rounds)]
    before = replay(problem, np.zeros_like(moves))
    return Replays(
        handed_in,
        list(zip(before, replay(problem, moves), strict=True)),
        moved,
        None,
        (*_shared(problem, lengths), *_history(problem, moves)),
        [(int(np.count_nonzero(lengths[some])), float(lengths[some].sum())) for some in rows],
    )


def _over(several: Sequence[RoundOutcome] | Sequence[QueryOutcome]) -> dict[str, Any]:
    """Return what several rounds come to: mean losses, least margins, success in all, the last prediction."""
    return {
        "loss_before": float(np.mean([one.loss_before for one in several])),
        "loss": float(np.mean([one.loss for one in several])),
        "prediction_before": several[-1].prediction_before,
        "prediction": several[-1].prediction,
        "margin": min(one.margin for one in several),
        "tie": max(abs(one.tie) for one in several),
        "success_before": all(one.success_before for one in several),
        "success": all(one.success for one in several),
    }


def _called(stream: Stream, row: int) -> str:
    """Return whose row it is, and of when, in words."""
    if stream.when[row] == HISTORY:
        return f"row {row} of the history"
    names = stream.people.index if stream.who is None else stream.who
    return f"person {row if names is None else names[row]} in round {stream.when[row]}"


def _shared(problem: OnlineProblem, lengths: Array) -> tuple[str, ...]:
    """Return in words who spends more than it may on the lengths (n,) of all its rounds, where budgets are shared."""
    who = problem.stream.who
    if problem.shared is False or who is None:
        return ()
    allowed = problem.allowance.everyones(who.size)
    if problem.shared is not True:
        allowed = np.where(allowed > 0, problem.shared, 0.0)
    names = np.unique(who[lengths > 0])
    spent = np.array([lengths[who == name].sum() for name in names])
    most = np.array([allowed[who == name].max() for name in names])
    return Offences.of(
        ~(spent <= most * (1 + LIMIT_SLACK)),
        lambda one: f"person {names[one]} moves by {spent[one]:.6g} over all rounds, limit {most[one]:.6g}",
    ).told


def _history(problem: OnlineProblem, moves: Array) -> tuple[str, ...]:
    """Return in words who moves that was there before the first round."""
    moving = (problem.stream.when == HISTORY) & moves.any(axis=1)
    return Offences.of(moving, lambda row: f"row {row} moves, which is of the history and cannot act").told


Rows = NDArray[np.intp]


def replay(problem: OnlineProblem, moves: Array) -> Iterator[JudgedModel]:
    """Yield the model of each round, had everyone moved by `moves` (n, d)."""
    rule, model = problem.rule, problem.model
    kind: Any = type(rule)  # a user's own that is derived from one of these may do anything else
    refits = kind in (FullRefit, Window) and not getattr(rule, "warm", False)
    if model.plain_means and (refits or kind is ExponentialMeans):
        yield from _centroids(problem, moves)
    elif refits:
        yield from _refits(problem, moves)
    else:
        yield from _by_the_rule(problem, moves)


def _centroids(problem: OnlineProblem, moves: Array) -> Iterator[JudgedModel]:
    """Average rows class by class, in every round afresh or as a running mean."""
    people = problem.stream.people
    features, codes = np.asarray(people.features, dtype=np.float64), people.codes(0, people.size)
    scales = np.array([np.abs(features[codes == code]).max(initial=0.0) for code in range(len(people.classes))])
    for _, centroids in averaged_by_round(problem, features + moves):
        heard = partial(heard_by_centroids, problem, centroids, scales)
        yield JudgedModel(heard, nearest(centroids), AVERAGES)


def averaged_by_round(problem: OnlineProblem, features: Array, weighed: bool = False) -> Iterator[tuple[Array, Array]]:
    """Yield in every round what rows weigh in their class's centroid, and the centroids (k, d) of these features.

    They are of the rows that the rule reads, afresh or as a running mean, of which a class that a batch lacks keeps its
    centroid. Weights (n,) are empty unless it is asked what rows are `weighed` by.
    """
    stream, rule = problem.stream, problem.rule
    people = stream.people
    codes, heavy = people.codes(0, people.size), people.row_weights

    def average(rows: Rows, weights: Array, centroids: Array) -> tuple[Array, Array]:
        weights, centroids = weights.copy(), centroids.copy()
        for code in range(len(centroids)):
            mine = rows[(codes[rows] == code) & (heavy[rows] > 0)]
            if mine.size:
                centroids[code] = np.average(features[mine], axis=0, weights=heavy[mine])
            if mine.size and weighed:
                weights[codes == code] = 0.0
                weights[mine] = heavy[mine] / heavy[mine].sum()
        return weights, centroids

    weights, centroids = np.zeros(people.size if weighed else 0), np.zeros((len(people.classes), people.dimensions))
    rate = 1.0  # of what is new, until there is something
    mixed = rule.rate if isinstance(rule, ExponentialMeans) else 1.0
    if isinstance(rule, ExponentialMeans) and problem.start is not None:
        start = problem.start.positions if isinstance(problem.start, Centroids) else problem.start
        rate, centroids = mixed, np.array(start, dtype=np.float64).reshape(centroids.shape)
    elif isinstance(rule, ExponentialMeans) and (stream.when == HISTORY).any():
        rate, (weights, centroids) = mixed, average(stream.rows(HISTORY), weights, centroids)
    for number in range(stream.rounds):
        newest = average(stream.read_by(rule.reads, number), weights, centroids)
        weights, centroids = (
            new if rate == 1 else old + rate * (new - old)
            for old, new in zip((weights, centroids), newest, strict=True)
        )
        rate = mixed
        yield weights, centroids


def _refits(problem: OnlineProblem, moves: Array) -> Iterator[JudgedModel]:
    """Refit from scratch in every round, to those whom the rule reads."""
    assert isinstance(problem.model, Differentiable)
    stream = problem.stream
    for number in range(stream.rounds):
        rows = stream.read_by(problem.rule.reads, number)
        features = np.asarray(stream.people.features[rows], dtype=np.float64) + moves[rows]
        yield refitted_model(problem, refit(problem.model, stream.people.some(rows), features))


def _by_the_rule(problem: OnlineProblem, moves: Array) -> Iterator[JudgedModel]:
    """Run the rule again, on trainings that nobody has used before."""
    stream, rule, model = problem.stream, problem.rule, problem.model
    before = Rollout(problem).first
    for number in range(stream.rounds):
        rows = stream.read_by(rule.reads, number)
        newest = stream.when[rows] == number
        update = update_of(model, stream.people.some(rows), newest, number, before, moves[rows])
        before = np.array(rule.update(update), dtype=np.float64)  # a copy, which no rule writes to
        fitted = of_training(update.training, before, f"{rule.name} itself, on the data as handed in")
        sound = bool(np.isfinite(before).all())
        yield replace(refitted_model(problem, fitted), converged=sound, independence=Independence.REPEATED)

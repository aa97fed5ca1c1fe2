"""Verdicts: the outcome of a refit for the query and for everybody else, implemented separately from the solvers.

A query gets its goal if a class that will do leads all others by more than a tie; if those that will do are together
as probable as they must be; or if the predicted value is in the range. Whether a plan leaves others alone as it must
(`oar.Keep`) is seen by predicting everyone again, before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from oar.goals import ClassWish, ValueWish, Wish
from oar.goals.keep import SideEffects
from oar.plans import LeverPlan, Plan
from oar.plans.proof import Proof
from oar.plans.result import Audit, Independence, QueryOutcome, Result
from oar.problem import Problem
from oar.referee.contributions import Array, Contributions, MoveSums

Predict = Callable[[Array], NDArray[Any]]
"""From features (m, d) to class codes (m,), or values (m, o)."""

# A refit to 1e-10 leaves outputs uncertain in about the ninth digit; leads smaller than that are ties.
TIE = 1e-9
UNIT = 2.0**-52  # twice the rounding of one operation
SURELY = 1 - 1e-9  # times a tie, a lead is surely one
SQUARED, HINGE, ENTROPY = "squared", "squared-hinge", "cross-entropy"  # kinds of loss


@dataclass(frozen=True)
class Verdict:
    """One query under one model: prediction, loss, how far on the goal's side, and how little of that is a tie.

    `slack` is how little short of the goal counts as there: of a probability or a range that is reached at its edge.
    """

    prediction: Any
    loss: float
    lead: float
    tie: float
    probability: float | None
    slack: float = 0.0

    @property
    def reached(self) -> bool:
        """Whether it gets its goal, and not by a tie."""
        return self.lead > self.tie - self.slack


UNKNOWN = Verdict(None, np.nan, np.nan, np.nan, None)  # no number is better than one that means nothing


def judged(problem: Problem, wish: Wish, outputs: Array, loss_at: Callable[[Array], float]) -> Verdict:
    """Judge outputs (o,) of a model that is trained; `loss_at` gives its loss for a target (o,)."""
    if isinstance(wish, ValueWish):
        return _value(problem, wish, outputs, loss_at)
    logits = np.array([0.0, outputs[0]]) if outputs.size == 1 else outputs
    if len(wish.codes) == 1:
        losses = np.zeros(logits.size)
        losses[wish.codes[0]] = loss_at(wish.target)
    else:
        losses = np.array([loss_at(target) for target in wish.every])
    return of_logits(problem, wish, logits, losses, np.full(logits.size, TIE * (1 + float(np.abs(logits).max()))))


def of_logits(problem: Problem, wish: ClassWish, logits: Array, losses: Array, ties: Array) -> Verdict:
    """Judge logits (k,), with every class's loss (k,), and how little (k,) of a lead over each is a tie.

    Of several classes that will do, the loss is that of the best among those that will not; with a target probability
    it is that of their sum.
    """
    good, others = list(wish.codes), list(wish.rivals)
    leads = logits[good].max() - logits[others]
    clear = bool((leads - ties[others] > 0).all())  # false also where a logit is not a number
    nearest = good[int(np.argmax(logits[good]))] if clear else others[int(np.argmax(logits[others]))]
    lead, tie = float(leads.min()), float(ties.max())
    if clear and not lead > tie:  # each rival has a tie of its own, and that decides
        tie = float(ties[others][int(np.argmin(leads))])
    with np.errstate(invalid="ignore"):
        loss = float(losses[good[0]])
        if len(good) > 1 and wish.probability is not None:
            loss = -float(np.logaddexp.reduce(-losses[good]))
        elif len(good) > 1:
            loss = min(float(np.logaddexp.reduce([0.0, *(losses[each] - losses[others])])) for each in good)
        probability = float(np.exp(np.logaddexp.reduce(logits[good]) - np.logaddexp.reduce(logits)))
    slack = 0.0
    if wish.probability is not None:
        # A probability that is uncertain in its ninth digit is as good as reached at the digit itself.
        lead, tie, slack = probability - wish.probability, 0.0, TIE * wish.probability
    return Verdict(problem.people.classes[nearest], loss, lead, tie, probability, slack)


def _value(problem: Problem, wish: ValueWish, outputs: Array, loss_at: Callable[[Array], float]) -> Verdict:
    value = float(outputs[0]) if outputs.size == 1 else outputs
    loss = loss_at(np.clip(outputs, wish.nearest, wish.farthest))
    if problem.plain:
        room, size = problem.within - float(np.abs(outputs - wish.target).max()), 1.0
    else:
        room = float(np.minimum(outputs - wish.low, wish.high - outputs).min())
        size = 1.0 + float(np.abs(outputs).max())
    return Verdict(value, loss, room, 0.0, None, np.finfo(float).eps * size)  # at the edge of the range is inside it


def improbable(bound: float, probability: float) -> bool:
    """Report whether no loss of at least `bound` makes the goal as probable as an audit lets pass."""
    return bool(bound > -np.log(probability) + 2e-9 + 8 * UNIT)


def proved(problem: Problem, bound: float, lost: Any, by: str) -> Proof:
    """Return a proof by a bound, which decides where a probability is wanted; otherwise the goal may be `lost`."""
    probability = problem.query.probability
    return Proof(bound, bool(lost) if probability is None else improbable(bound, probability), by)


@dataclass(frozen=True, eq=False)
class JudgedModel:
    """A model that a witness has refitted from scratch."""

    verdicts: Callable[[Array], list[Verdict]]  # from the places (q, d) of those who ask to what each of them gets
    predict: Predict
    witness: str  # the implementation that refitted
    residual: float = 0.0  # the norm of the training gradient that it left, where the witness tells
    converged: bool = True  # whether it came to an end
    independence: Independence = Independence.IMPLEMENTATION  # how little it shares with the solver


Said = dict[str, Any]
"""Parts of an audit, by name."""
Heard = list[list[Verdict]]
"""Of each of several refits, what all who ask are told."""


@dataclass(frozen=True, eq=False)
class Retrial:
    """A witness's retrial of a plan: the model refitted without it and with it."""

    measured: Contributions | MoveSums  # what was handed in
    pairs: Iterable[tuple[JudgedModel, JudgedModel]]  # before and after; where training is random, for each seed
    moved: Array  # where those who ask are (q, d) after the plan
    unmoved: Any  # the referee's own refit to unmoved people, on which proofs are built; None where it proves nothing
    more: tuple[str, ...] = ()  # violations that are not of members' moves

    audit: ClassVar[type[Audit]] = Audit
    result: ClassVar[type[Result]] = Result

    def counts_for_others(self, new: JudgedModel) -> bool:
        """Report whether limits on side effects are for this model."""
        return True

    def together(self, problem: Problem, olds: Heard, news: Heard, each: list[Said], kept: bool) -> Said:
        """Return the parts of an audit that several refits say together, from what each pair of them says."""
        return each[0]


@dataclass(frozen=True)
class AuditSummary:
    """All who ask, before and after: what the audit reports of them."""

    problem: Problem
    before: Sequence[Verdict]
    after: Sequence[Verdict]

    def reported(self, kept: bool) -> dict[str, Any]:
        """Return the parts of an `oar.results.Audit` about the queries; nothing succeeds unless limits are `kept`."""
        told = tuple(
            QueryOutcome(
                old.prediction, new.prediction, old.loss, new.loss, new.lead, new.tie,
                old.reached, new.reached and kept, old.probability, new.probability,
            )
            for old, new in zip(self.before, self.after, strict=True)
        )  # fmt: skip
        one, last = told[0], min(told, key=lambda each: each.margin if each.margin == each.margin else -np.inf)
        several = self.problem.several
        return {
            "loss_before": self._loss(self.before),
            "loss": self._loss(self.after),
            "prediction_before": tuple(each.prediction_before for each in told) if several else one.prediction_before,
            "prediction": tuple(each.prediction for each in told) if several else one.prediction,
            "margin": last.margin,
            "tie": last.tie,
            "success_before": self._enough([each.reached for each in self.before]),
            "success": kept and self._enough([each.reached for each in self.after]),
            "queries": told,
        }

    def _enough(self, reached: list[bool]) -> bool:
        return bool(np.mean(reached) >= self.problem.enough - np.finfo(float).eps)

    def _loss(self, each: Sequence[Verdict]) -> float:
        losses = np.array([one.loss for one in each])
        if self.problem.query.several == "worst":
            return float(losses.max())
        if self.problem.query.several == "share" and np.isfinite(losses).all():
            return 1.0 - float(np.mean([one.reached for one in each]))
        return float(losses.mean())


def broken_by(plan: Plan, old: Predict, new: Predict) -> list[str]:
    """Return which limits on side effects a plan breaks, in words."""
    problem, people = plan.problem, plan.problem.people
    if problem.kept is None:
        return []
    before, after = (_told(predict, people.rows) for predict in (old, new))
    seen = _seen(plan, before, after, new)
    scored = problem.kept.scored
    if scored is None:
        rows, weights = people.target_rows(problem.regresses), people.row_weights
    else:
        rows, weights, before, after = scored.rows, scored.weights, old(scored.features), new(scored.features)
    return problem.kept.broken(seen, *(_score(told, rows, weights) for told in (before, after)))


def _seen(plan: Plan, before: NDArray[Any], after: NDArray[Any], new: Predict) -> SideEffects:
    """Return who stays and who acts, and who has or loses what is asked for; those who ask do not count."""
    problem, rows = plan.problem, _acts(plan)
    asks = np.isin(np.arange(len(rows)), problem.asked.among)
    acts, asks = (_all_rows(problem, some) for some in (rows, asks))
    others = ~asks & problem.last_rows
    if problem.regresses:
        return SideEffects(others & ~acts, others & acts, *np.zeros((3, len(acts)), dtype=bool))
    there = after
    assert problem.kept is not None
    if problem.kept.limits.lost is not None and acts.any():
        moved = problem.people.rows + plan.problem.people.rows_moved(plan)
        there = np.where(acts, _told(new, moved), after)
    wanted = {code for wish in problem.wishes for code in wish.codes}  # type: ignore[union-attr]
    had, has = (np.array([code in wanted for code in codes], dtype=bool) for codes in (before, there))
    return SideEffects(others & ~acts, others & acts, before != after, had, has)


def _all_rows(problem: Problem, some: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return all rows (n,) of the persons who have some of these; over rounds a person may have several."""
    found = np.zeros(int(problem.persons.max(initial=-1)) + 1, dtype=bool)
    found[problem.persons[some]] = True
    return found[problem.persons]


def _acts(plan: Plan) -> NDArray[np.bool_]:
    """Return who changes anything."""
    acts = plan.problem.people.rows_moved(plan).any(axis=1)
    if isinstance(plan, LeverPlan):
        before = plan.problem.people.target_rows(plan.problem.regresses)
        acts = acts | (plan.targets != before).any(axis=1) | plan.away
    return np.asarray(acts)


def _told(predict: Predict, rows: Any) -> NDArray[Any]:
    """Return predictions for people (m, d), or for people in parts, of whom there is no array."""
    each = getattr(rows, "each", lambda function: function(rows))
    return np.asarray(each(predict))


def _score(told: NDArray[Any], rows: Array, weights: Array) -> float:
    """Return a weighted accuracy, or a mean squared error with its sign turned."""
    if told.ndim == 1:
        return float(weights @ (told == rows.argmax(axis=1)) / weights.sum())
    return -float(weights @ ((told - rows) ** 2).mean(axis=1) / weights.sum())


def loss_of_kind(kind: str, outputs: Array, target: Array) -> float:
    """Return the loss of this kind: squares, squared hinges, or a cross-entropy."""
    if kind == SQUARED:
        return 0.5 * float(np.sum((outputs - target) ** 2))
    if kind == HINGE:
        return float(sum(max(0.0, 1 - (2 * t - 1) * z) ** 2 for z, t in zip(outputs, target, strict=True)))
    logits = outputs if outputs.size > 1 else np.array([0.0, *outputs])
    return float(np.logaddexp.reduce(logits) - target @ outputs)


def slopes_of_kind(kind: str, outputs: Array, target: Array) -> Array:
    """Return the gradient (o,) of that loss in the outputs."""
    if kind == SQUARED:
        return outputs - target
    if kind == HINGE:
        signs = 2 * target - 1
        return np.asarray(-2 * signs * np.maximum(1 - signs * outputs, 0.0))
    logits = outputs if outputs.size > 1 else np.array([0.0, *outputs])
    shares = np.exp(logits - np.logaddexp.reduce(logits))
    return np.asarray(shares[-outputs.size :] - target)

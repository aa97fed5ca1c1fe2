"""WHAT IS ASKED OVER TIME: a query with a goal for the last round or for every round, put to a stream and a rule."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oar.actions import Perturb
from oar.actions.limits.limit import FREE, Limit, Limits
from oar.actions.participation import Best, members, participation_mask
from oar.actions.sets.cost_region import spreads_of
from oar.checks import choose, is_flag, is_number, with_near_names
from oar.errors import DataError, OptionError
from oar.estimators.black_box import BlackBox
from oar.estimators.cores.centroid import CentroidTwin
from oar.estimators.recognise import is_estimator
from oar.estimators.twin import Twin
from oar.goals.keep import Anchors, Keep
from oar.goals.wishes import Aggregate
from oar.models import TestTimeBatchNorm
from oar.online.bound_training import bind, flat_form, shares_units
from oar.online.rules.protocol import Rule
from oar.online.rules.refits import check_every_class, check_weights
from oar.online.stream import HISTORY, Stream
from oar.people import Population
from oar.problem import Problem, Query
from oar.typing import ActionLike, ModelLike

GOAL_FOR = ("last", "every")
INSTEAD = {  # models of ours that are estimators of scikit-learn's
    "LogisticRegression": "oar.SoftmaxRegression(l2=1 / (C * n))",
    "RidgeClassifier": "oar.SoftmaxRegression(l2=…)",
    "Ridge": "oar.models.Ridge(l2=alpha / n)",
    "LinearRegression": "oar.models.Ridge(l2=0)",
    "LinearSVC": "oar.models.LinearSVM(l2=1 / (C * n), penalise_intercept=True)",
    "GaussianNB": "oar.models.GaussianNaiveBayes(var_smoothing=…)",
    "NearestCentroid": "oar.NearestCentroid()",
    "MLPClassifier": "oar.models.MLP(…)",
    "MLPRegressor": "oar.models.MLP(…)",
}


@with_near_names
@dataclass(frozen=True, eq=False, init=False, repr=False)
class OnlineProblem(Problem):
    """A problem over rounds: a stream, a model, a rule, a query and an action; checked when it is made.

    It is an `oar.Problem` of all rounds' people. Nothing is fitted to them all at once: functions for a single refit of
    everybody refuse it (`only_one_refit`, `training`).

    Args:
        stream: who arrives when.
        model: what the operator trains.
        rule: how the model is updated when a batch arrives.
        query: the query subject and the goal. `oar.Members` are people of the stream: those of an early batch may be
            queries.
        action: an oar.Perturb for everyone of every round, or a list of T of them, one for each round.
        goal_for: "last": the goal is for the model after the last round; "every": for that after each.
        shared: False: everyone may use its budget in every round in which it is there; True: budgets are for all
            rounds together, Σ_t ‖δ_it‖ ≤ ε_i for each person of `stream.who`. A number: so much for all rounds
            together, Σ_t ‖δ_it‖ ≤ shared, and no more than its budget in each; for people who differ one number for
            each row of the stream, the same for all rows of a person.
        start: θ before the first round, in any form; None for that of a fit to the stream's history, or, without a
            history, the model's own start. It is only the start of refits, not their result.
        keep: limits on side effects, an `oar.Keep`, for the model after the last round; everybody counts once, by the
            last of its rows.

    Attributes:
        people: everyone of all rounds, history included.
        action: what they may do, as one oar.Perturb: budgets for each row, and history takes no part.
    """

    over_rounds: ClassVar[bool] = True

    people: Population = field(init=False)
    keep: Keep | None
    stream: Stream
    rule: Rule
    goal_for: str
    shared: Any
    start: Any

    def __init__(
        self,
        stream: Stream,
        model: ModelLike,
        rule: Rule,
        query: Query,
        action: ActionLike,
        goal_for: str = "last",
        shared: bool | ArrayLike = False,
        start: ArrayLike | None = None,
        keep: Keep | None = None,
    ) -> None:
        given = {"stream": stream, "model": model, "rule": rule, "query": query, "action": action}
        more = {"goal_for": goal_for, "shared": shared, "start": start, "keep": keep}
        for name, value in {**given, **more}.items():
            object.__setattr__(self, name, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Refuse what does not fit together, naming the argument."""
        if isinstance(self.rule, type):
            raise DataError(f"rule: must be a rule, got the class {self.rule.__name__}; call it with its settings.")
        for part in ("name", "reads", "update", "pull_back"):
            if not hasattr(self.rule, part):
                raise OptionError(
                    f"rule: must be one of oar.online's or have name, reads, update and pull_back, got {self.rule!r}, "
                    f"which has no {part}."
                )
        choose("goal_for", self.goal_for, GOAL_FOR)
        object.__setattr__(self, "shared", _as_shared(self.shared, self.stream.people.size))
        check_retrained(self.model)
        # Of a class that nobody has it is the rule that says whether it can go on.
        object.__setattr__(self, "people", self.stream.people.lacking_classes())
        object.__setattr__(self, "action", everyones_action(self.stream, self.action))
        super().__post_init__()
        self._check_rule()
        if self.start is not None:
            read = self.stream.people.some(self.stream.read_by(self.rule.reads, 0))
            flat_form(bind(self.model, read), self.start, "start")
        if self.has_totals:
            self._check_shared()

    def _check_rule(self) -> None:
        """Refuse a rule that cannot work with this stream and model."""
        reads, batches = self.rule.reads, self.stream.batches
        if reads and reads > batches:
            raise OptionError(
                f"rule: {self.rule.name} reads the newest {reads} batches, but the stream has only {batches}"
                f"{', history included' if batches > self.stream.rounds else ''}; give a shorter window, or use "
                "FullRefit."
            )
        check_weights(reads, self.stream)
        if self.remembers and not shares_units(self.model):
            raise OptionError(
                f"model: {self.rule.name} carries θ from round to round, which a scaler that is refitted makes "
                f"meaningless, got {self.model!r}; standardise the features once, or use FullRefit or Window."
            )
        if self.start is None and self.has_history and self.remembers:
            check_every_class(self.rule.name, None, self.stream, self.model, [HISTORY])
        getattr(self.rule, "check", lambda *_: None)(self.stream, self.model, self.started)

    def _check_shared(self) -> None:
        """Refuse to share budgets where nobody is there twice, or where a person's totals differ."""
        who = self.stream.who
        if who is None:
            raise OptionError(
                "shared: needs to know who is the same person, got a stream without `who`; give who=True (the same "
                "people in every batch) or each batch's numbers of persons."
            )
        acting = np.flatnonzero(self.radii > 0)
        if not acting.size:
            return
        _, person = np.unique(who[acting], return_inverse=True)
        least, most = np.full(person.max() + 1, np.inf), np.zeros(person.max() + 1)
        np.minimum.at(least, person, self.totals[acting])
        np.maximum.at(most, person, self.totals[acting])
        what = "budget" if self.shared is True else "shared"
        for unlike in np.flatnonzero(least < most):
            raise DataError(
                f"{what}: must be the same in all rounds of a person where it is for all of them together, got "
                f"{least[unlike]:g} and {most[unlike]:g} for person {np.unique(who[acting])[unlike]}."
            )

    @property
    def everyone(self) -> OnlineProblem:
        """The problem itself, which is of all rounds' people."""
        return self

    @cached_property
    def radii(self) -> NDArray[np.float64]:
        """How far each row may move, (n,): 0 for history, and for people who do not take part."""
        return self.allowance.everyones(self.people.size)

    @cached_property
    def persons(self) -> NDArray[np.intp]:
        """The number of the person (n,) that each row is of."""
        return np.unique(self.stream.persons, return_inverse=True)[1].reshape(-1)

    @cached_property
    def last_rows(self) -> NDArray[np.bool_]:
        """The mask (n,) of the last row of each person."""
        latest = np.full(self.persons.max() + 1, HISTORY)
        np.maximum.at(latest, self.persons, self.stream.when)
        return np.asarray(self.stream.when == latest[self.persons])

    @cached_property
    def measure(self) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """The coordinates that somebody may move (r,), and what a unit of each costs (r,): 1 where there is no table.

        Costs are the same in all rounds, with the spreads of everybody of all rounds as units.
        """
        if self.limits is None:
            return np.arange(self.people.dimensions), np.ones(self.people.dimensions)
        measured = self.measured(query=False)
        return measured.columns, measured.costs

    @cached_property
    def settled_limits(self) -> Limits | None:
        """The limits with units of today's spreads, so that costs stay as they are whoever moves later on."""
        if self.limits is None:
            return None
        weights = self.people.first_row_weights
        spreads = spreads_of(np.asarray(self.people.features, dtype=np.float64), weights / weights.sum())
        columns = dict(self.limits.columns)
        for column in self.people.table.schema:
            limit = columns.get(column.name, FREE)
            if column.kind in ("boolean", "category") or limit.unit is not None:
                continue
            spread = float(spreads[self.people.table.places[column.name]].max())
            still = Limit(immutable=True)  # what never varies has no cost
            columns[column.name] = dataclasses.replace(limit, unit=spread) if spread else still
        return dataclasses.replace(self.limits, columns=columns)

    def lengths(self, moves: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how far rows move (n,), of a table what that costs."""
        columns, costs = self.measure
        return self.allowance.norm.length(moves if self.limits is None else moves[:, columns] * costs)

    def steepness(self, slopes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how much a unit of move does at the most (n,), where the loss has these slopes (n, d)."""
        columns, costs = self.measure
        return self.allowance.norm.dual.length(slopes if self.limits is None else slopes[:, columns] / costs)

    @property
    def has_totals(self) -> bool:
        """Whether a person's rounds share a budget."""
        return self.shared is not False

    @cached_property
    def totals(self) -> NDArray[np.float64]:
        """How far whose row it is may move in all rounds, (n,): ∞ where they share nothing, 0 where it stays."""
        if self.shared is True:
            return self.radii
        return np.where(self.radii > 0, self.shared if self.has_totals else np.inf, 0.0)

    @property
    def rounds(self) -> int:
        """T, how many rounds there are."""
        return self.stream.rounds

    @property
    def has_history(self) -> bool:
        """Whether there are people before the first round."""
        return bool((self.stream.when == HISTORY).any())

    @property
    def remembers(self) -> bool:
        """Whether θ_t depends on θ_{t−1}."""
        return bool(getattr(self.rule, "remembers", True))

    @property
    def started(self) -> bool:
        """Whether there is a θ before the first round."""
        return self.start is not None or (self.has_history and self.remembers)

    def named(self, part: Any) -> Any:
        """Return whom a part of the action names as its participants; None for everybody of every round."""
        after = self.stream.when > HISTORY
        given = participation_mask(part.participants, part.seed, self.stream.people)
        return None if given is None or np.array_equal(given, after) else part.participants

    @property
    def schedule(self) -> tuple[Any, ...]:
        """Who arrives when and who is the same person, the rule, and what the goal and the budgets are for."""
        stream = self.stream
        return stream.when, stream.who, self.rule, self.goal_for, self.shared, self.start

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weight of each round's loss, (T,): the last alone, or all equally (they sum to 1)."""
        last = np.zeros(self.rounds)
        last[-1] = 1.0
        return last if self.goal_for == "last" else np.full(self.rounds, 1 / self.rounds)

    def training(self, together: Aggregate | None = None, by: int | None = None, anchors: Anchors | None = None) -> Any:
        """Refuse to bind the model to all rounds' people at once."""
        self.only_one_refit("training on everybody at once")

    def __repr__(self) -> str:
        """Show the essentials in one line."""
        when = "after the last" if self.goal_for == "last" else "after every"
        words = self.goal_words
        return f"OnlineProblem({self.stream!r}, {self.model.name}, {self.rule.name}, goal {words} {when} round)"


def _as_shared(shared: Any, size: int) -> Any:
    """Return True, False, or what each row's person may do in all rounds together, (n,)."""
    if is_flag(shared):
        return bool(shared)
    try:
        kind = np.asarray(shared).dtype.kind  # flags are no lengths, and complex numbers would lose a part
        given = np.array(np.nan if kind in "bc" else shared, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        given = np.array(np.nan)
    if given.shape not in ((), (size,)) or not (np.isfinite(given) & (given >= 0)).all():
        shown = repr(shared) if given.ndim == 0 else f"shape {given.shape}"
        raise DataError(
            "shared: must be True or False, or how far each may move in all rounds together: a number ≥ 0, or one for "
            f"each of the stream's {size} rows, got {shown}."
        )
    return np.broadcast_to(given, (size,))


Mask = NDArray[np.bool_]


def everyones_action(stream: Stream, action: Any) -> Perturb:
    """Return what all of the stream's people may do; history takes no part, and who was drawn stays drawn."""
    if isinstance(action, list | tuple):
        return _round_by_round(stream, list(action))
    _check(action, "action")
    mask = _takes_part(stream, action)
    return dataclasses.replace(action, participants=mask, seed=None)


def _check(action: Any, argument: str) -> None:
    if not isinstance(action, Perturb):
        raise OptionError(
            f"{argument}: must be an oar.Perturb(…) over time, or a list with one for each round, got {action!r}."
        )
    if isinstance(action.participants, Best):
        raise OptionError(f"{argument}: oar.Best is not chosen over time, got {action!r}; give a mask or a share.")


def _takes_part(stream: Stream, action: Perturb) -> Mask | None:
    """Return who takes part; None where everybody does. A share is drawn among persons, not among their rows."""
    acting = stream.when > HISTORY
    if is_number(action.participants):
        rows = np.flatnonzero(acting)
        _, first, person = np.unique(stream.persons[rows], return_index=True, return_inverse=True)
        drawn = members(action.participants, action.seed, stream.people.some(rows[first]))
        mask = np.zeros(stream.people.size, dtype=bool)
        mask[rows] = drawn[person]
        return mask
    given = participation_mask(action.participants, action.seed, stream.people)
    if given is None:
        return None if acting.all() else acting
    return given & acting


def _round_by_round(stream: Stream, actions: list[Any]) -> Perturb:
    """Return one action of all rounds' own budgets and participants; each is read by its own batch."""
    if len(actions) != stream.rounds:
        raise DataError(f"action: must be one, or one for each of {stream.rounds} rounds, got {len(actions)}.")
    for number, one in enumerate(actions):
        _check(one, f"action[{number}]")
        if one.norm != actions[0].norm:
            raise OptionError(
                f"action[{number}]: must have the norm of the first round, {actions[0].norm}, got {one.norm}; "
                "budgets and participants may differ from round to round."
            )
        if one.limits != actions[0].limits:
            raise OptionError(
                f"action[{number}]: must have the limits of the first round, because what a change costs and which "
                "changes go together is the same for everybody; give limits of single rows as oar.Limits(own=…)."
            )
    budgets, mask = np.zeros(stream.people.size), np.zeros(stream.people.size, dtype=bool)
    for number, one in enumerate(actions):
        rows = stream.rows(number)
        try:
            allowance = one.allowance(stream.people.some(rows))
        except DataError as reason:
            raise DataError(f"action[{number}]: in round {number}, {reason}") from None
        budgets[rows] = allowance.budget
        mask[rows] = allowance.acting(rows.size)
    return Perturb(budgets, norm=actions[0].norm, participants=mask, limits=actions[0].limits)


def check_retrained(model: Any) -> None:
    """Raise for a model that nothing is retrained of."""
    if isinstance(model, TestTimeBatchNorm):
        raise OptionError(
            f"model: must be one that rounds of data retrain, got {model.name}, a fixed network that is normalised by "
            "one batch; ask about that batch with oar.Problem."
        )
    if isinstance(model, BlackBox):
        raise OptionError(
            f"model: must be one of oar.models where it is updated over time, got {model!r}, only trained from "
            "scratch; ask about one retraining with oar.Problem."
        )
    if is_estimator(model) or isinstance(model, Twin | CentroidTwin):
        estimator = model.estimator if isinstance(model, Twin | CentroidTwin) else model
        name = estimator.__name__ if isinstance(estimator, type) else type(estimator).__name__
        raise OptionError(
            f"model: must be one of oar.models where it is updated over time, got the estimator {name}; use "
            f"{INSTEAD.get(name, 'one of oar.models')}, or ask about one retraining with oar.Problem."
        )

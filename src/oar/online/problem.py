"""WHAT IS ASKED OVER TIME: a query with a goal for the last round or for every round, put to a stream and a rule."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oar.checks import is_flag
from oar.errors import DataError, OptionError, choose, with_near_names
from oar.models import Scaled
from oar.online.actions import everyones_action
from oar.online.rules.protocol import Rule
from oar.online.rules.requirements import check_every_class, check_retrained, check_weights
from oar.online.stream import HISTORY, Stream
from oar.online.training.binding import bind, flat_form, shares_units
from oar.problem import Problem, Query
from oar.typing import ActionLike, ModelLike

GOAL_FOR = ("last", "every")


@with_near_names
@dataclass(frozen=True, eq=False)
class OnlineProblem:
    """Everything that planning over time needs; checked when it is made.

    Args:
        stream: who arrives when.
        model: what the operator trains.
        rule: how it is updated when a batch arrives.
        query: who asks, and for what. `oar.Members` are of the stream's people: those of an early batch may ask.
        action: an oar.Perturb for everyone of every round, or a list of T of them, one for each round.
        goal_for: "last": the goal is wanted after the last round; "every": after each.
        shared: False: everyone may use its budget in every round in which it is there; True: budgets are for all
            rounds together, Σ_t ‖δ_it‖ ≤ ε_i for each person of `stream.who`. A number: so much for all rounds
            together, Σ_t ‖δ_it‖ ≤ shared, and no more than its budget in each; for people who differ one number for
            each row of the stream, the same for all rows of a person.
        start: θ before the first round, in any form; None for that of a fit to the stream's history, or, where there is
            none, of the model's own start. Refits only begin there, and end where they would have ended.
    """

    stream: Stream
    model: Any
    rule: Rule
    query: Query
    action: Any
    goal_for: str = "last"
    shared: Any = False
    start: Any = None

    if TYPE_CHECKING:  # what it takes; the fields are what becomes of it

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
        ) -> None: ...

    def __post_init__(self) -> None:
        """Refuse what does not fit together, naming the argument."""
        if not isinstance(self.stream, Stream):
            raise DataError(
                f"stream: must be an oar.online.Stream, got an object of type {type(self.stream).__name__}; make it "
                "with oar.online.Stream.of_batches([…])."
            )
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
        if self.stream.people.encoding is not None:
            raise OptionError(
                "stream: must have plain features, got a table with a schema, whose limits are not known over time; "
                "hand in its coordinates (people.features) with its labels."
            )
        check_retrained(self.model)
        _ = self.everyone
        self._check_rule()
        if self.start is not None:
            read = self.stream.people.some(self.stream.read_by(self.rule.reads, 0))
            flat_form(bind(self.model, read), self.start, "start")
        if self.has_totals:
            self._check_shared()

    def _check_rule(self) -> None:
        """Refuse a rule that cannot work with this stream and model."""
        reads, batches = self.rule.reads, self.stream.batches
        if reads is not None and reads > batches:
            raise OptionError(
                f"rule: {self.rule.name} reads the newest {reads} batches, but the stream has only {batches}"
                f"{', history included' if batches > self.stream.rounds else ''}; give a shorter window, or use "
                "FullRefit."
            )
        check_weights(reads, self.stream)
        if self.remembers and not shares_units(self.model):
            assert isinstance(self.model, Scaled)
            raise OptionError(
                f"model: {self.rule.name} carries θ from round to round, which a scaler that is refitted makes "
                f"meaningless, got {self.model!r}; standardise the features once, or use FullRefit or Window."
            )
        if self.start is None and self.has_history and self.remembers:
            check_every_class(self.rule.name, None, self.stream, self.model, [HISTORY])
        check = getattr(self.rule, "check", None)
        if check is not None:
            check(self.stream, self.model, self.started)

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

    @cached_property
    def everyone(self) -> Problem:
        """The same as one problem of all rounds' people, of which limits, goals and who takes part are read.

        Nothing is fitted to them all: of a class that nobody has it is the rule that says whether it can go on.
        """
        people = self.stream.people.lacking_classes()
        return Problem(people, self.model, self.query, everyones_action(self.stream, self.action))

    @cached_property
    def radii(self) -> NDArray[np.float64]:
        """How far each row may move, (n,): 0 for history, and for who takes no part."""
        return self.everyone.allowance.everyones(self.stream.people.size)

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
        """Whether somebody was there before the first round."""
        return bool((self.stream.when == HISTORY).any())

    @property
    def remembers(self) -> bool:
        """Whether θ_t depends on θ_{t−1}."""
        return bool(getattr(self.rule, "remembers", True))

    @property
    def started(self) -> bool:
        """Whether there is a θ before the first round."""
        return self.start is not None or (self.has_history and self.remembers)

    @property
    def weights(self) -> NDArray[np.float64]:
        """How much each round's loss counts, (T,): the last alone, or all alike (they sum to 1)."""
        last = np.zeros(self.rounds)
        last[-1] = 1.0
        return last if self.goal_for == "last" else np.full(self.rounds, 1 / self.rounds)

    def only_moves(self, what: str) -> None:
        """Raise: `what` is asked about one refit, and here there are many."""
        raise OptionError(
            f"problem: {what} is for one refit, got one over time; plan that with oar.collective(problem), or ask "
            "about a round of it as an oar.Problem."
        )

    def __repr__(self) -> str:
        """Show the essentials in one line."""
        when = "after the last" if self.goal_for == "last" else "after every"
        words = self.everyone.goal_words
        return f"OnlineProblem({self.stream!r}, {self.model.name}, {self.rule.name}, goal {words} {when} round)"


def _as_shared(shared: Any, size: int) -> Any:
    """Return True, False, or what each row's person may do in all rounds together, (n,)."""
    if is_flag(shared):
        return bool(shared)
    try:
        given = np.array(shared, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        given = np.array(np.nan)
    if given.shape not in ((), (size,)) or not (np.isfinite(given) & (given >= 0)).all():
        shown = repr(shared) if given.ndim == 0 else f"shape {given.shape}"
        raise DataError(
            "shared: must be True or False, or how far each may move in all rounds together: a number ≥ 0, or one for "
            f"each of the stream's {size} rows, got {shown}."
        )
    return np.broadcast_to(given, (size,))

"""The card: a plan as it is published to members, who compute their own moves from it at home.

It holds one direction a class (for nearest centroid that is the whole plan), and for models that are trained the
signal (θ, v), from which each member finds the move that suits its own data. `file` says how it is written.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.perturb import check_budget
from oar.actions.sets.norms import Norm
from oar.checks import check_that, is_listing, with_near_names
from oar.errors import DataError
from oar.models import Differentiable, NearestCentroid, Scaled
from oar.models.protocol import Score
from oar.people import Population
from oar.people.labels import plain
from oar.people.tables.arrays import as_vector, is_series
from oar.people.tables.schema import Schema
from oar.plans.cards.levers.rule import AWAY, LabelAnswer, LabelRule
from oar.plans.cards.response import People, best_responses, in_equal_blocks
from oar.plans.cards.table.score import Scaler, TableScore
from oar.plans.cards.table.terms import TableTerms
from oar.plans.cards.usual_values import doubt
from oar.problem import Problem

Array = NDArray[np.float64]
Change = tuple[str, Any, Any]


@dataclass(frozen=True, eq=False)
class Broadcast:
    """The signal that members answer.

    Attributes:
        model: the model family and its settings.
        parameters: θ (p,), refitted on the moved data. signal: v (p,).
        pull: κ, how strongly a member keeps to its class's direction where its score is level (see `response`).
        seen: of plain features, how the model sees them, where that is not as they are (of a table its terms say it).
        scaled: whether the scaler that was there is "refitted" or "frozen"; None where there was none.
    """

    model: Differentiable
    parameters: Array
    signal: Array
    pull: float
    seen: Scaler | None = None
    scaled: str | None = None

    @property
    def score(self) -> Score:
        """Everyone's score of plain features, and its gradient."""
        by = self.seen
        if by is None:
            return self.model.member_score(self.parameters, self.signal)
        return TableScore(self.model, self.parameters, self.signal, by)


@dataclass(frozen=True, eq=False)
class Card:
    """A published card: everything that a member needs to compute its own move.

    Attributes:
        model: the model family of the plan.
        norm: the norm that bounds a move.
        budget: the common budget, or None where members have budgets of their own.
        goal: the prediction that is the plan's goal; `oar.goals.GoalText`, in words, where it is not a single one.
        participants: "everyone", or "selected": then the plan was audited with only the selected members moving, and
            only these should respond.
        classes: the labels, in the order of `directions`; None where values are predicted.
        features: column names, or None.
        directions: (k, d), one row a class (one for all where values are predicted), each of norm at most 1; for
            nearest centroid the move itself, in units of the budget, otherwise the average one. Zero means "stay".
            Of a table they are not used, and zero.
        broadcast: θ and v; None for nearest centroid, but of a table, and where directions are all that can be said.
            Of a table they are the model's behind the scaler. They may be those of a plain model in place of one that
            cannot be written down.
        outputs: how many values are predicted; 0 for classes.
        table: of a `TableCard`, its columns and their limits; else None.
        digits: how many its numbers have, of the largest effect of their kind; None where nobody counted.
        usual: of each column (or feature) a range in which most people's values are, or None: by it members are asked
            back who may have mistyped. None where the card says nothing of that.
        rule: by which members find out whether another label of theirs is wanted, or that they leave; None where moving
            is all that is asked.
    """

    model: str
    norm: Norm
    budget: float | None
    goal: Any
    participants: str
    classes: tuple | None
    features: tuple[str, ...] | None
    directions: Array
    broadcast: Broadcast | None = None
    outputs: int = 0
    table: TableTerms | None = field(default=None, init=False)
    digits: int | None = None
    usual: tuple[tuple[float, float] | None, ...] | None = None
    rule: LabelRule | None = None

    @with_near_names
    def respond(self, features: Any, label: Any, budget: float | None = None, keep: Any = ()) -> Any:
        """Return the move of one member, in the units of its features; of a `TableCard`, an `Answer` in its own values.

        Where labels may change or members leave, it is a `LabelAnswer`, which has the move beside the label.

        For members who take part; where `participants` is "selected" those are the ones who were asked. Linear models
        need no JAX here; other trained models do. A value that may be a mistake (see `doubts`) is warned of.

        Args:
            features: the member's own (d,) features; a Series or a dict is matched by name. Of a table, its row: a
                Series, a dict or a frame of one row, with levels as text.
            label: the member's own label; its shares of all classes, in the order of `classes`; or its value(s).
            budget: how far this member is willing to go; None means the card's common budget.
            keep: names of columns, or positions where features have no names, that this member cannot or will not
                change.
        """
        check_that(isinstance(keep, str) or is_listing(keep), "keep", "a list of columns or positions", keep)
        keep = (keep,) if isinstance(keep, str) else tuple(keep)
        row = self._row(features)
        for words in self._doubts(row):
            warnings.warn(f"features: {words}", stacklevel=2)
        target = self._target(label)
        if budget is None and self.budget is None:
            raise DataError("budget: this card has no common budget, so give your own, got none.")
        own = check_budget(self.budget if budget is None else budget, "budget")
        if own > self.most:
            raise DataError(
                f"budget: must be at most the plan's own {self.most:g}, got {own:g}; "
                "going farther than planned can miss the goal."
            )
        if self.rule is None:
            return self._answer(features, row, target, own, keep)
        if target.max() < 1:
            raise DataError(f"label: must be one of {list(self.classes or ())}, not shares of several, got {label!r}.")
        code = int(target.argmax())
        to = int(self.rule.decided(self.label_scores(row[None]), np.array([code]))[0])
        leaves = to == AWAY
        handed = np.eye(len(target))[code if leaves else to]
        move = self._answer(features, row, handed, 0.0 if leaves else own, keep)
        return LabelAnswer(self.classes[int(handed.argmax())], not leaves and to != code, leaves, move)  # type: ignore[index]

    def label_scores(self, rows: Array) -> Array:
        """Return the scores (n, k) that people at these rows (n, d) would have with each of the labels."""
        assert self.broadcast is not None
        assert self.classes is not None
        each = self.broadcast.model.target_rows(np.eye(len(self.classes)))
        targets = (np.ascontiguousarray(np.broadcast_to(one, (len(rows), one.size))) for one in each)
        return np.stack([in_equal_blocks(self.score, rows, one)[0] for one in targets], axis=1)

    @property
    def score(self) -> Score:
        """Everyone's score, and its gradient, of rows and targets of the model."""
        assert self.broadcast is not None
        return self.broadcast.score

    def decided(self, problem: Problem) -> NDArray[np.intp]:
        """Return the labels (n,) that a problem's people hand in who go by its rule, `AWAY` for who leaves."""
        assert self.rule is not None
        codes = problem.people.class_rows().argmax(axis=1)
        return self.rule.decided(self.label_scores(self.seen(problem)), codes)

    def seen(self, problem: Problem) -> Array:
        """Return the rows (n, d) of a problem's people in the coordinates of the card."""
        return self._seen(self._members(problem)[0], self.places_in(problem.people))

    def _seen(self, rows: Array, places: NDArray[np.intp]) -> Array:
        """Return people's rows (n, d) in the coordinates of the card."""
        return rows

    def _answer(self, features: Any, row: Array, target: Array, budget: float, keep: tuple) -> Any:
        """Return the answer of a member whose arguments have been read."""
        known = list(self.features or range(self.size))
        for name in keep:
            if name not in known:
                raise DataError(f"keep: must be among the card's features {known}, got {name!r}.")
        stays = np.array([name in keep for name in known])
        move = self.responses(row[None], target[None], np.array([budget]), stays)[0]
        if self.features is not None and is_series(features):
            import pandas

            return pandas.Series(move, index=list(self.features))
        return move

    def changes(self, features: dict[str, Any], label: Any, budget: float | None, keep: tuple) -> list[Change]:
        """Return which of its values a member changes: names, and values before and after."""
        answer = self.respond(features, label, budget, keep)
        handed: list[Change] = []
        if isinstance(answer, LabelAnswer):
            handed = [("label", label, answer.label)] if answer.changed else []
            handed += [("all data", "given", "withheld")] if answer.leaves else []
            answer = answer.move
        return self._changes(features, answer) + handed

    def _changes(self, features: dict[str, Any], answer: Any) -> list[Change]:
        """Return which values change by a member's own move."""
        steps = zip(features.items(), answer, strict=True)
        return [(name, value, value + float(step)) for (name, value), step in steps if step != 0.0]

    @with_near_names
    def doubts(self, features: Any) -> list[str]:
        """Return which of a member's values may be mistakes, in words: beyond what is usual and what the plan allows.

        A code for a missing value that the card names is expected. Such a member gets an answer all the same: somebody
        does have an unusual value.
        """
        return self._doubts(self._row(features))

    @property
    def most(self) -> float:
        """The budget that nobody is to exceed; infinite where members have budgets of their own."""
        return math.inf if self.budget is None else self.budget

    @property
    def size(self) -> int:
        """How many coordinates it is about."""
        return self.directions.shape[1]

    @property
    def schema(self) -> Schema | None:
        """The types of a table's columns; None for plain features."""
        return None

    @property
    def terms(self) -> TableTerms:
        """The terms of a table's columns; of plain features there are none, but how the model sees them."""
        sent = self.broadcast
        if sent is None or sent.seen is None:
            return TableTerms((), (), (), Scaler.none(self.size), None)
        return TableTerms((), (), (), sent.seen, sent.scaled)

    def of(self, round: int) -> Card:
        """Return the card of a round; of this one there is a single one."""
        check_that(round == 0, "round", "0, for this card is not of several rounds", round)
        return self

    @property
    def single(self) -> Card:
        """The card itself; cards for several rounds refuse to be taken for one."""
        return self

    @property
    def first(self) -> Card:
        """The card itself, as of cards for several rounds the first."""
        return self

    def each(self, change: Callable[[Card], Card]) -> Card:
        """Return it changed, as cards for several rounds are each."""
        return change(self)

    def audited_model(self) -> Differentiable | NearestCentroid:
        """Return the model that is refitted where the card is audited; raise where the card holds just its name."""
        found: Differentiable | NearestCentroid = NearestCentroid()
        if self.broadcast is not None and self.model != found.name:
            model, scaled = self.broadcast.model, self.terms.scaled
            found = Scaled(model, frozen=scaled == "frozen") if scaled else model
        if found.name != self.model:
            raise DataError(
                f"card: must hold the settings of the model that is retrained, got the name {self.model!r} alone; "
                "audit it in Python, with oar.audit(result.plan.followed(card))."
            )
        return found

    def places_in(self, people: Population) -> NDArray[np.intp]:
        """Return where on the card the coordinates (d,) of people are; raise where it is not for such people."""
        plain = self.schema is None
        if (plain or not people.schema) and None not in (people.names, self.features) and people.names != self.features:
            raise DataError(
                f"card: must be for the plan's features {list(people.names or ())}, got one for "
                f"{list(self.features or ())}; use plan.card()."
            )
        found = self._places_in(people)
        if found is None:
            none, got = "" if people.schema else ", and the plan is of none", "plain features" if plain else "others"
            raise DataError(
                f"card: must be for a table of the plan's columns, kinds and levels{none}, got one for {got}; "
                "use plan.card()."
            )
        return found

    def _places_in(self, people: Population) -> NDArray[np.intp] | None:
        return None if people.schema else np.arange(self.size)

    def moves_of(self, problem: Problem, places: NDArray[np.intp], targets: Array | None = None) -> Array:
        """Return the moves (n, d) of a problem's people who answer it, where their coordinates are in these places.

        With `targets` (n, k) they hand in these labels.
        """
        rows, own, radii = self._members(problem)
        return self.responses(rows, own if targets is None else targets, radii)

    def _members(self, problem: Problem) -> tuple[Array, Array, Array]:
        """Return people's rows (n, d) and targets, and how far each may move."""
        people = problem.people
        radii = np.minimum(problem.allowance.everyones(people.size), self.most)
        return np.asarray(people.features, dtype=np.float64), people.target_rows(problem.regresses), radii

    def _row(self, features: Any) -> Array:
        return as_vector(features, self.features, self.size, "features")

    def _doubts(self, row: Array) -> list[str]:
        names = self.features or tuple(f"feature {place}" for place in range(self.size))
        usual = self.usual or (None,) * self.size
        return [words for one in zip(names, row, usual, strict=True) for words in doubt(*one)]

    def responses(self, rows: Array, targets: Array, radii: Array, stays: NDArray[np.bool_] | None = None) -> Array:
        """Return the moves (n, d) of many members, unchecked: class shares or values (n, k), one radius each.

        Features that `stays` names (d,) are kept: neither the usual move nor the score leads anywhere along them.
        """
        free = np.ones(self.size, dtype=bool) if stays is None else ~stays
        shares = np.ones((len(rows), 1)) if self.outputs else targets
        usual = np.where(free, radii[:, None] * (shares @ self.directions), 0.0)
        if self.broadcast is None:
            return usual
        model, of_member = self.broadcast.model, self.score

        def score(rows: Array, targets: Array) -> tuple[Array, Array]:
            values, slopes = of_member(rows, targets)
            return values, np.where(free, slopes, 0.0)

        people = People(rows, np.ascontiguousarray(model.target_rows(targets)), usual, radii)
        return best_responses(score, people, self.norm, self.broadcast.pull)

    def _target(self, label: Any) -> Array:
        """Return a member's shares of the classes, or its values."""
        if self.classes is None:
            return _numbers(label, self.outputs, "value(s)")
        single = isinstance(label, tuple) or np.ndim(label) == 0
        matches = [position for position, known in enumerate(self.classes) if single and known == plain(label)]
        if matches:
            return np.eye(len(self.classes))[matches[0]]
        if self.broadcast is None or np.ndim(label) == 0:
            raise DataError(f"label: must be one of the card's classes {list(self.classes)}, got {label!r}.")
        shares = _numbers(label, len(self.classes), f"shares, one for each of {list(self.classes)}")
        if shares.min() < 0 or abs(shares.sum() - 1) > 1e-8:
            raise DataError(f"label: shares of classes must be ≥ 0 and add up to 1, got {label!r}.")
        return shares

    @with_near_names
    def save(self, path: str | Path) -> None:
        """Write the card as JSON; the file is replaced whole or not at all, and folders that are missing are made."""
        from oar.plans.cards.file import write

        write(self, Path(path))

    @staticmethod
    @with_near_names
    def load(path: str | Path) -> Any:
        """Read a card, or a `RoundsCard`; a damaged, foreign or newer file raises and says so."""
        from oar.plans.cards.file import read

        return read(Path(path))


def _numbers(label: Any, size: int, what: str) -> Array:
    try:
        if isinstance(label, str | bytes):
            raise TypeError
        values = np.atleast_1d(np.asarray(label, dtype=np.float64))
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"label: must be {size} {what}, got {label!r}.") from None
    if values.shape != (size,) or not np.isfinite(values).all():
        raise DataError(f"label: must be {size} finite {what}, got {label!r}.")
    return values

"""The card: a plan as it is published to members, who compute their own moves from it at home.

It holds one direction a class (for nearest centroid that is the whole plan), and for models that are trained the
signal (θ, v), from which each member finds the move that suits its own data. `file` says how it is written.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.perturb import check_budget
from oar.actions.sets.norms import Norm
from oar.checks import check_that, is_listing, with_near_names
from oar.errors import DataError
from oar.models import Differentiable, NearestCentroid
from oar.people import Population
from oar.people.labels import plain
from oar.people.tables.arrays import as_vector, is_series
from oar.people.tables.schema import Schema
from oar.plans.cards.response import People, best_responses
from oar.plans.cards.table.score import Scaler
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
    """

    model: Differentiable
    parameters: Array
    signal: Array
    pull: float


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
        broadcast: θ and v; None for nearest centroid, but of a table. There they are the model's behind the scaler.
        outputs: how many values are predicted; 0 for classes.
        table: of a `TableCard`, its columns and their limits; else None.
        digits: how many its numbers have, of the largest effect of their kind; None where nobody counted.
        usual: of each column (or feature) a range in which most people's values are, or None: by it members are asked
            back who may have mistyped. None where the card says nothing of that.
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

    @with_near_names
    def respond(self, features: Any, label: Any, budget: float | None = None, keep: Any = ()) -> Any:
        """Return the move of one member, in the units of its features; of a `TableCard`, an `Answer` in its own values.

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
        return self._answer(features, row, target, own, keep)

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
        move = self.respond(features, label, budget, keep)
        steps = zip(features.items(), move, strict=True)
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
        """The terms of a table's columns; of plain features there are none."""
        return TableTerms((), (), (), Scaler.none(self.size), None)

    def audited_model(self) -> Differentiable | NearestCentroid:
        """Return the model that is refitted where the card is audited."""
        centroids = NearestCentroid()
        return self.broadcast.model if self.broadcast and self.model != centroids.name else centroids

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

    def moves_of(self, problem: Problem, places: NDArray[np.intp]) -> Array:
        """Return the moves (n, d) of a problem's people who answer it, where their coordinates are in these places."""
        return self.responses(*self._members(problem))

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
        model = self.broadcast.model
        of_member = model.member_score(self.broadcast.parameters, self.broadcast.signal)

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
    def load(path: str | Path) -> Card:
        """Read a card; a damaged, foreign or newer file raises and says so."""
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

"""The card: a plan as it is published to members, who compute their own moves from it at home.

It holds one direction a class (for nearest centroid that is the whole plan), and for models that are trained the
signal (θ, v), from which each member finds the move that suits its own data. `file` says how it is written.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.perturb import check_budget
from oar.actions.sets.norms import Norm
from oar.errors import DataError
from oar.models import Differentiable
from oar.models.protocol import Score
from oar.people.labels import plain
from oar.people.tables.arrays import as_vector, is_frame, is_series
from oar.plans.cards.response import People, best_responses
from oar.plans.cards.table.response import Responders, TableResponse
from oar.plans.cards.table.score import TableScore
from oar.plans.cards.table.terms import Answer, Room, TableTerms
from oar.plans.cards.usual_values import doubt

Array = NDArray[np.float64]


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
        table: for a table, its columns and their limits; else None.
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
    table: TableTerms | None = None
    digits: int | None = None
    usual: tuple[tuple[float, float] | None, ...] | None = None

    def respond(self, features: Any, label: Any, budget: float | None = None, keep: Any = ()) -> Any:
        """Return the move of one member, in the units of its features; of a table, an `Answer` in its own values.

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
        keep = (keep,) if isinstance(keep, str) else tuple(keep)
        row = self._row(features)
        for words in self._doubts(row):
            warnings.warn(f"features: {words}", stacklevel=2)
        target = self._target(label)
        if budget is None:
            if self.budget is None:
                raise DataError("budget: this card has no common budget, so give your own, got none.")
            budget = self.budget
        budget = check_budget(budget, "budget")
        if self.budget is not None and budget > self.budget:
            raise DataError(
                f"budget: must be at most the plan's own {self.budget:g}, got {budget:g}; "
                "going farther than planned can miss the goal."
            )
        if self.table is not None:
            return self._answer(features, row, target, budget, keep)
        move = self.responses(row[None], target[None], np.array([budget]), self._stays(keep))[0]
        if self.features is not None and is_series(features):
            import pandas

            return pandas.Series(move, index=list(self.features))
        return move

    def doubts(self, features: Any) -> list[str]:
        """Return which of a member's values may be mistakes, in words: beyond what is usual and what the plan allows.

        A code for a missing value that the card names is expected. Such a member gets an answer all the same: somebody
        does have an unusual value.
        """
        return self._doubts(self._row(features))

    def _row(self, features: Any) -> Array:
        if self.table is None:
            return as_vector(features, self.features, self.directions.shape[1], "features")
        return self.table.encode_row(features, "features")

    def _doubts(self, row: Array) -> list[str]:
        size = self.directions.shape[1]
        usual = self.usual or (None,) * (size if self.table is None else len(self.table.columns))
        if self.table is None:
            names = self.features or tuple(f"feature {place}" for place in range(size))
            found = [doubt(*one) for one in zip(names, row, usual, strict=True)]
        else:
            found = [
                doubt(each.column.name, row[place.start], around, each.lower, each.upper)
                for each, place, around in zip(self.table.columns, self.table.places, usual, strict=True)
                if each.column.kind in ("number", "integer") and row[place.start] not in each.missing
            ]
        return [words for words in found if words]

    def _stays(self, keep: tuple) -> NDArray[np.bool_]:
        """Return which features (d,) a member keeps as they are."""
        size = self.directions.shape[1]
        known = list(range(size)) if self.features is None else list(self.features)
        for name in keep:
            if name not in known:
                raise DataError(f"keep: must be among the card's features {known}, got {name!r}.")
        return np.array([name in keep for name in known])

    def responses(self, rows: Array, targets: Array, radii: Array, stays: NDArray[np.bool_] | None = None) -> Array:
        """Return the moves (n, d) of many members, unchecked: class shares or values (n, k), one radius each.

        Features that `stays` names (d,) are kept: neither the usual move nor the score leads anywhere along them.
        """
        shares = np.ones((len(rows), 1)) if self.classes is None else targets
        usual = radii[:, None] * (shares @ self.directions)
        if stays is not None:
            usual[:, stays] = 0.0
        if self.broadcast is None:
            return usual
        model = self.broadcast.model
        score = model.member_score(self.broadcast.parameters, self.broadcast.signal)
        if stays is not None:
            score = _along(score, ~stays)
        people = People(rows, np.ascontiguousarray(model.target_rows(targets)), usual, radii)
        return best_responses(score, people, self.norm, self.broadcast.pull)

    def table_responses(self, rows: Array, targets: Array, radii: Array, room: Room) -> tuple[Array, Array, Array]:
        """Return moves (n, d) of many members of a table, their costs (n,), and by how much scores rise (n,)."""
        assert self.table is not None
        assert self.broadcast is not None
        sent = self.broadcast
        score = TableScore(sent.model, sent.parameters, sent.signal, self.table.scaler)
        response = TableResponse(score, self.table, self.norm)
        wanted = np.ascontiguousarray(sent.model.target_rows(targets))
        moves, gains = response.of(Responders(rows, wanted, radii, room))
        return moves, response.lengths(moves), gains

    def _answer(self, features: Any, row: Array, target: Array, budget: float, keep: tuple) -> Answer:
        assert self.table is not None
        room = self.table.room(row[None], keep)
        moves, costs, gains = self.table_responses(row[None], target[None], np.array([budget]), room)
        before, after = self.table.values_of(row), self.table.values_of(row + moves[0])
        for each in self.table.columns:  # a level that the card does not name is the member's own
            name, others = each.column.name, each.column.levels[-1] if each.pooled else None
            if each.pooled and before[name] == others:
                mine = plain(features[name].iloc[0] if is_frame(features) else features[name])
                before[name], after[name] = mine, mine if after[name] == others else after[name]
        return Answer(before, after, moves[0], float(costs[0]), float(gains[0]))

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

    def save(self, path: str | Path) -> None:
        """Write the card as JSON; the file is replaced whole or not at all, and folders that are missing are made."""
        from oar.plans.cards.file import write

        write(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> Card:
        """Read a card; a damaged, foreign or newer file raises and says so."""
        from oar.plans.cards.file import read

        return read(Path(path))


def _along(score: Score, free: NDArray[np.bool_]) -> Score:
    """Return the same score, with slopes along some features alone."""

    def only(rows: Array, targets: Array) -> tuple[Array, Array]:
        values, slopes = score(rows, targets)
        return values, np.where(free, slopes, 0.0)

    return only


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

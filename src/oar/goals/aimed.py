"""A training whose goal is what the queries want: several classes, a range, or several people at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.goals.keep import Anchors
from oar.goals.wishes import Aggregate, Wish, mean
from oar.models.training import ALL, Array, Some, Training, displaced, goals


class Aimed:
    """Implements `Training` around another one; only `goal` changes, and what depends on it.

    `points` (q, d) are None where there is one query, which may move: then it is where `goal` is asked. `members` (q,)
    say who of the people queries are, where they move with their own data. The mean loss of `anchors` is added.
    """

    def __init__(
        self,
        training: Training,
        wishes: tuple[Wish, ...],
        points: Any,
        members: NDArray[np.intp] | None = None,
        together: Aggregate = mean,
        anchors: Anchors | None = None,
    ) -> None:
        self._training, self._wishes, self._points, self._alone = training, wishes, points, points is None
        self._members, self._together, self._anchors = members, together, anchors

    def __getattr__(self, name: str) -> Any:
        return getattr(self._training, name)

    def contributing(self, targets: Array, weights: Array) -> Aimed:
        """Return the same for other targets and weights."""
        inner = self._training.contributing(targets, weights)
        return Aimed(inner, self._wishes, self._points, self._members, self._together, self._anchors)

    @property
    def unaimed(self) -> Training:
        """The training itself."""
        return self._training

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return the loss, ∇_θ L, and ∇_x L of the one query, or zero where there are several, which stay."""
        loss, pull, slopes = self._all(parameters, query[None] if self._alone else self._points)
        return loss, pull, slopes[0] if self._alone else np.zeros_like(query)

    def goal_after(self, parameters: Array, moves: Array | None, columns: Some = ALL) -> Any:
        """Return the loss, ∇_θ L, and what it changes with the queries' own moves as members, (n, d).

        None where no query is a member. With `columns` (r,), moves and slopes are (n, r), of those features.
        """
        if self._members is None:
            return None
        points = displaced(self._points, None if moves is None else moves[self._members], columns)
        loss, pull, slopes = self._all(parameters, points)
        slopes = slopes[:, columns]
        own = np.zeros((self._training.size, slopes.shape[1]))
        np.add.at(own, self._members, slopes)
        return loss, pull, own

    def _all(self, parameters: Array, points: Array) -> tuple[float, Array, Array]:
        wished = zip(self._wishes, points, strict=True)
        judged = [wish.judged(self._training, parameters, point) for wish, point in wished]
        loss, shares = self._together(np.array([loss for loss, _, _ in judged]))
        pull = sum(share * pull for share, (_, pull, _) in zip(shares, judged, strict=True))
        slopes = np.array([share * slope for share, (_, _, slope) in zip(shares, judged, strict=True)])
        if self._anchors is not None:
            rows, targets, weight = self._anchors
            losses, by_parameters, _ = goals(self._training, parameters, rows, targets)
            loss, pull = loss + weight * float(losses.mean()), pull + weight * by_parameters
        return loss, np.asarray(pull), slopes

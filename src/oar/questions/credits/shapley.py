"""Credit by refits without some members (Shapley, 1953).

Members come one after the other, in every order alike, and each is credited with what its coming changes. By all 2^m
coalitions where there are few, else by random orders, each with its reverse; always by true refits. Credits add up to
what all together change, in every single order.
"""

from __future__ import annotations

from math import factorial

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError, OptionError
from oar.plans.refits import Refits
from oar.progress import OnStep

Array = NDArray[np.float64]
MOST_PLAYERS = 50  # for Shapley
ENUMERATED = 8  # players up to which all coalitions are tried
REFITS = 2_000  # about so many where orders are drawn, unless `draws` says otherwise


def shapley(
    refits: Refits, members: NDArray[np.intp], draws: int | None, seed: int, on_step: OnStep | None
) -> tuple[Array, Array, int]:
    """Share out among players: the members who act, and the query where it moves.

    Returns:
        Credits and standard errors (m + 1,), the query's last; and how many refits there were.
    """
    count = members.size + bool(refits.query_move.any())
    if count > MOST_PLAYERS:
        raise OptionError(
            f"result: 'shapley' is for at most {MOST_PLAYERS} who act, got {count:,}; use method='first-order', or "
            "plan with fewer participants."
        )
    value = _Coalitions(refits, members, on_step)
    if draws is None and count <= ENUMERATED:
        credits = _over_coalitions(value, count)
        errors = np.zeros(count)
    else:
        pairs = max(2, REFITS // (2 * count)) if draws is None else -(-draws // 2)
        credits, errors = _over_orders(value, count, pairs, np.random.default_rng(seed))
    if count == members.size:
        credits, errors = np.append(credits, 0.0), np.append(errors, 0.0)
    return credits, errors, value.refits


class _Coalitions:
    """Values of coalitions: the fall of the loss if only their players act. Each is refitted once."""

    def __init__(self, refits: Refits, members: NDArray[np.intp], on_step: OnStep | None) -> None:
        self._refits, self._members, self._on_step = refits, members, on_step
        self._known: dict[bytes, float] = {}

    @property
    def refits(self) -> int:
        return len(self._known)

    def __call__(self, players: NDArray[np.bool_]) -> float:
        key = players.tobytes()
        if key not in self._known:
            acting = np.zeros_like(self._refits.actors)
            acting[self._members] = players[: self._members.size]
            query = bool(players[self._members.size :].any())
            loss = self._refits.verdict(self._refits.if_only(acting), query_moves=query).loss
            if not np.isfinite(loss):
                raise NumericsError(
                    f"result: the model cannot be refitted where only {int(players.sum())} of those who act do; it may "
                    "need a larger penalty, or nobody is left in a class."
                )
            self._known[key] = loss
            if self._on_step is not None:
                self._on_step(self.refits, loss, np.inf)
        return -self._known[key]


def _over_coalitions(value: _Coalitions, count: int) -> Array:
    """Return Σ_S |S|!(m − |S| − 1)!/m! [v(S + i) − v(S)] over all S without i."""
    credits = np.zeros(count)
    for number in range(2**count):
        players = (number >> np.arange(count)) % 2 == 1
        size = int(players.sum())
        for player in np.flatnonzero(~players):
            joined = players.copy()
            joined[player] = True
            part = factorial(size) * factorial(count - size - 1) / factorial(count)
            credits[player] += part * (value(joined) - value(players))
    return credits


def _over_orders(value: _Coalitions, count: int, pairs: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return the means over random orders and their reverses, and the standard errors over these pairs."""
    found = np.zeros((pairs, count))
    for pair in range(pairs):
        order = rng.permutation(count)
        for way in (order, order[::-1]):
            players = np.zeros(count, dtype=bool)
            before = value(players)
            for player in way:
                players[player] = True
                after = value(players)
                found[pair, player] += (after - before) / 2
                before = after
    return found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(pairs)

"""Shapley's value of players in a game: each is credited with what its coming changes, on average over all orders.

Of few players all coalitions are valued; of more, or where a value is random, orders are drawn, each with its reverse,
as many as a stated number of values allows, or until they tell enough. Orders come first in either case, so that an
answer is there when the time is over. Where values are random none is used in two pairs of orders, so that the standard
error over pairs tells of both: the draw of orders, and the values' own luck.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import factorial

import numpy as np
from numpy.typing import NDArray

from oar.people.wording import counted
from oar.progress import is_late

Array = NDArray[np.float64]
Players = NDArray[np.bool_]
Value = Callable[[Players], float]
ENUMERATED = 8  # players up to which all coalitions are tried
PAIRS = 2  # of orders at the least, for a standard error
TELLING = 5  # pairs after which it is seen whether they tell enough
LITTLE = 0.01  # of what all achieve: the largest standard error that is enough


class TimeIsOver(Exception):
    """No further coalition is valued."""


@dataclass(frozen=True, eq=False)
class PlayerCredits:
    """The credits of players.

    Attributes:
        credits: (p,).
        errors: (p,) their standard errors: 0 where all coalitions were valued, ∞ where they are not known.
        pairs: how many pairs of orders were drawn; 0 where all coalitions were valued.
        values: how many coalitions were valued.
        note: how, in a sentence.
    """

    credits: Array
    errors: Array
    pairs: int
    values: int
    note: str


class Game:
    """Values of coalitions of players, each asked for once, as long as there is time."""

    def __init__(self, value: Value, players: int, random: bool = False) -> None:
        self.players, self.random, self.values = players, random, 0
        self._value, self._known = value, {}  # type: Value, dict[bytes, float]

    def __call__(self, players: Players) -> float:
        """Return the value of a coalition; raise where the time is over before it is known."""
        key = players.tobytes()
        if key not in self._known:
            if is_late():
                raise TimeIsOver
            self._known[key] = self._value(players)
            self.values += 1
        return self._known[key]

    def forget(self) -> None:
        """Have values that are random drawn again."""
        if self.random:
            self._known.clear()

    def pair(self, order: NDArray[np.intp]) -> Array:
        """Return what the coming of each changes (p,), in an order and in its reverse, on average."""
        found = np.zeros(self.players)
        for way in (order, order[::-1]):
            players = np.zeros(self.players, dtype=bool)
            before = self(players)
            for player in way:
                players[player] = True
                after = self(players)
                found[player] += (after - before) / 2
                before = after
        self.forget()
        return found

    def enumerated(self) -> Array:
        """Return Σ_S |S|!(p − |S| − 1)!/p! [v(S + i) − v(S)] over all S without i."""
        credits = np.zeros(self.players)
        for number in range(2**self.players):
            players = (number >> np.arange(self.players)) % 2 == 1
            size = int(players.sum())
            for player in np.flatnonzero(~players):
                joined = players.copy()
                joined[player] = True
                part = factorial(size) * factorial(self.players - size - 1) / factorial(self.players)
                credits[player] += part * (self(joined) - self(players))
        return credits


def affordable(most: int) -> int:
    """Return how many players there may be at the most where so many coalitions may be valued."""
    return max(1, most // (2 * PAIRS))


def shapley(game: Game, all_together: float, most: int, draws: int | None, seed: int) -> PlayerCredits:
    """Share out what a game's players achieve together.

    Args:
        game: the game.
        all_together: what all of them achieve, which all share alike where there is no time to find out more.
        most: how many coalitions may be valued; there are two pairs of orders at the least.
        draws: how many orders are drawn; None for all coalitions of few players, or as many as may be valued.
        seed: of the orders.
    """
    count, rng, found = game.players, np.random.default_rng(seed), []
    all_of_them = draws is None and count <= ENUMERATED and 2**count <= most and not game.random
    pairs = max(PAIRS, most // (2 * count)) if draws is None else -(-draws // 2)
    try:
        for _ in range(min(pairs, 2**count) if all_of_them else pairs):
            found.append(game.pair(rng.permutation(count)))
            if game.values == 2**count if all_of_them else draws is None and _enough(found, all_together):
                break
        if all_of_them:
            exact, said = game.enumerated(), f"All {2**count:,} coalitions were tried."
            return PlayerCredits(exact, np.zeros(count), 0, game.values, said)
        early = ""
    except TimeIsOver:
        early = "The time was over: "
    done = len(found)
    if not done:
        said = f"{early}no order was finished, so everybody has the same share, and nothing is known of who did more."
        return PlayerCredits(np.full(count, all_together / count), np.full(count, np.inf), 0, game.values, said)
    each = np.array(found)
    errors = each.std(axis=0, ddof=1) / np.sqrt(done) if done > 1 else np.full(count, np.inf)
    orders = counted(2 * done, "random order of coming was tried", "random orders of coming were tried")
    return PlayerCredits(each.mean(axis=0), errors, done, game.values, f"{early}{orders}.")


def _enough(found: list[Array], all_together: float) -> bool:
    """Report whether the largest standard error is little beside what all achieve."""
    if len(found) < TELLING:
        return False
    return bool((np.std(found, axis=0, ddof=1) / np.sqrt(len(found))).max() <= LITTLE * abs(all_together))

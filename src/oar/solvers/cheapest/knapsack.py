"""The cheapest way to gain enough from items that have nothing to do with each other: a knapsack, to be filled.

    min Σ costs_i k_i   with   Σ gains_i k_i ≥ need,   0 ≤ k_i ≤ tops_i,   some of k whole

is what is left of "l1" where one lead must be reached and no link ties columns. If no k has to be whole, the items of
the lowest cost for their gain come first, and only the last one is taken in part (Dantzig 1957). That is a bound, and
where it takes a part of what must be whole, both sides of it are looked at: best first, until the bound is a change. It
takes a fraction of a millisecond, where a programme of a general solver takes several.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from itertools import count

MOST_NODES = 2_000


class TooManyNodes(Exception):
    """A knapsack that a general solver is better at."""


def filled(
    gains: Sequence[float], costs: Sequence[float], tops: Sequence[float], whole: Sequence[bool], need: float
) -> list[float] | None:
    """Return the amounts k of the lowest cost, or None where all items together do not gain enough.

    Gains and costs are above 0, tops may be infinite.

    Raises:
        TooManyNodes: where it would take long.

    >>> filled([2.0, 3.0], [1.0, 2.0], [5.0, math.inf], [True, False], need=4.5)
    [2.0, 0.16666666666666666]
    """
    order = sorted(range(len(gains)), key=lambda item: costs[item] / gains[item])
    items = [(item, gains[item], costs[item], whole[item]) for item in order]
    number = count()  # so that nothing but costs is compared
    waiting: list[tuple[float, int, list[float], int | None, list[float], list[float]]] = []

    def look(low: list[float], high: list[float]) -> None:
        cost, amounts, part = _relaxed(items, low, high, need)
        if cost < math.inf:
            heapq.heappush(waiting, (cost, next(number), amounts, part, low, high))

    look([0.0] * len(gains), list(tops))
    while waiting:
        _, visited, amounts, part, low, high = heapq.heappop(waiting)
        if part is None:
            return amounts
        if visited > MOST_NODES:
            raise TooManyNodes
        least = math.ceil(amounts[part])
        look(low, [*high[:part], least - 1.0, *high[part + 1 :]])
        look([*low[:part], float(least), *low[part + 1 :]], high)
    return None


def _relaxed(
    items: list[tuple[int, float, float, bool]], low: list[float], high: list[float], need: float
) -> tuple[float, list[float], int | None]:
    """Return the lowest cost if nothing has to be whole, its amounts, and the whole item that it takes a part of."""
    amounts, cost = list(low), 0.0
    for item, gain, price, _ in items:
        need -= low[item] * gain
        cost += low[item] * price
    for item, gain, price, whole in items:
        if need <= 0:
            break
        room = high[item] - low[item]
        if need < room * gain:
            amounts[item] += need / gain
            in_part = whole and not amounts[item].is_integer()
            return cost + price * need / gain, amounts, item if in_part else None
        amounts[item] += room
        cost += price * room
        need -= room * gain
    return (cost if need <= 0 else math.inf), amounts, None

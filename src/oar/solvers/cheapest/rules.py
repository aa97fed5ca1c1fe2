"""If-then rules in the search for the cheapest change: a broken rule is kept in one of its ways after the other.

Without rules the cheapest change is looked for first. If it keeps every rule, it is the cheapest. Otherwise every way
of keeping one that it breaks is a smaller space of its own, made of bounds, switched-off levels and rows, and no space
has a cheaper change than the one it is part of: best first, the first change that keeps all rules is the cheapest. No
indicator is needed, so no bound is made up for one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from oar.actions.limits.links import LinearExpression, Link
from oar.actions.limits.rules import EncodedRule, Range, edges, holds
from oar.models.training import Array
from oar.plans.individual.certificate import RuleAlternative
from oar.solvers.cheapest.highs import CheapestChange
from oar.solvers.cheapest.space import NEARLY, Space, link_factors

MOST_SPACES = 300
SAME = 1e-9  # share of a cost
Part = TypeVar("Part", Space, RuleAlternative)


def branched(space: Space, solve: Callable[[Space], CheapestChange], most: int = MOST_SPACES) -> CheapestChange:
    """Return the cheapest change that keeps all rules, with `solve` to find the cheapest in a space without them."""
    number = count()  # so that spaces are never compared
    first = solve(replace(space, rules=()))
    waiting = [(first.bound, next(number), space, first)]
    best, solved, finished = CheapestChange(), 1, True
    while waiting:
        bound, _, here, found = heapq.heappop(waiting)
        if bound >= best.cost * (1 - SAME):  # nothing that waits is cheaper
            break
        finished &= found.finished
        rule = here.broken(found.change) if found.found else None
        if rule is None or solved >= most:
            if rule is None and found.cost < best.cost:
                best = replace(found, bound=best.bound)
            best, finished = replace(best, bound=min(best.bound, bound)), finished and rule is None
            continue
        rest = replace(here, rules=tuple(other for other in here.rules if other is not rule))
        for part in kept_ways(here, rule, rest, _linked, _within):
            answer = solve(replace(part, rules=()))
            solved += 1
            # A part has no cheaper change than the whole, whatever rounding says.
            heapq.heappush(waiting, (max(answer.bound, bound), next(number), part, answer))
    return replace(best, finished=finished)


def kept_ways(
    space: Space, rule: EncodedRule, whole: Part, linked: Callable[..., Any], within: Callable[..., Any]
) -> Iterator[Part]:
    """Yield parts of a whole that together hold all that keeps a rule, each in one way.

    `linked` and `within` return what keeps a link, and what ends within a range.
    """
    for way in rule.ways:
        parts = [whole]
        for each in way:
            narrowed: Any = linked if isinstance(each, Link) else within
            parts = [one for part in parts for one in narrowed(part, each)]
        yield from parts
    before = space.start[None]
    if not any(holds(way, space.encoding, before, before)[0] for way in rule.ways):
        numbers = [space.encoding.schema.names.index(name) for name in rule.names]
        still = np.isin(space.column, numbers)  # broken before: nothing of it may change
        yield replace(whole, low=np.where(still, 0.0, whole.low), high=np.where(still, 0.0, whole.high))


def _within(space: Space, each: Range) -> list[Space]:
    """Return the changes that end within a range, if there are any."""
    place = space.encoding.places[each.name]
    entries = np.flatnonzero(space.column == space.encoding.schema.names.index(each.name))
    if each.levels is not None:
        return _at_levels(space, place, each.levels, entries)
    at = place.start
    unit = float(space.basis[at, entries[0]] / space.prices[entries[0]]) if entries.size else 0.0  # what costs 1
    low, high = edges(each, unit)
    start = space.start[at]
    if not entries.size:
        return [space] if holds((each,), space.encoding, space.start[None], space.start[None])[0] else []
    entry, size = entries[0], space.basis[place.start, entries[0]]
    least, most = (low - start) / size, (high - start) / size
    if space.whole[entry]:
        least, most = np.ceil(least - NEARLY), np.floor(most + NEARLY)
    if each.open and each.low < start < each.high:  # nearer to an edge than solvers go: staying is allowed
        least, most = min(least, 0.0), max(most, 0.0)
    if least > most or least > space.high[entry] or most < space.low[entry]:
        return []
    lower, upper = space.low.copy(), space.high.copy()
    lower[entry] = max(lower[entry], min(least, 0.0))
    upper[entry] = min(upper[entry], max(most, 0.0))
    rows: list[Array] = []
    room: list[float] = []
    if least > 0:  # bounds of v always hold 0, so what does not is a row
        rows.append(-np.eye(space.size)[entry])
        room.append(-least)
    if most < 0:
        rows.append(np.eye(space.size)[entry])
        room.append(most)
    return [_with_rows(replace(space, low=lower, high=upper), rows, room)]


def _at_levels(space: Space, place: slice, levels: tuple[int, ...], entries: NDArray[np.intp]) -> list[Space]:
    held = int(space.start[place].argmax())
    leads_to = [int(space.basis[place, entry].argmax()) for entry in entries]
    shut = [entry for entry, level in zip(entries, leads_to, strict=True) if level not in levels]
    high = space.high.copy()
    high[shut] = 0.0
    part = replace(space, high=high)
    if held in levels:
        return [part]
    good = [entry for entry, level in zip(entries, leads_to, strict=True) if level in levels and high[entry] > 0]
    if not good:
        return []
    row = np.zeros(space.size)
    row[good] = -1.0
    return [_with_rows(part, [row], [-1.0])]


def _linked(space: Space, link: Link) -> list[Space]:
    """Return the changes that keep a link."""
    said: LinearExpression = link.expression
    values, changes = link_factors(said, space.encoding, space.start.size)
    return [_with_rows(space, [(values + changes) @ space.basis], [-said.constant - float(values @ space.start)])]


def _with_rows(space: Space, rows: list[Array], room: list[float]) -> Space:
    if not rows:
        return space
    return replace(
        space,
        rows=np.vstack([space.rows, *rows]),
        room=np.concatenate([space.room, room]),
        row_errors=np.vstack([space.row_errors, np.zeros((len(rows), space.size))]),
        row_slack=np.concatenate([space.row_slack, np.zeros(len(rows))]),
    )

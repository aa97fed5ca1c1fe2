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
from functools import partial
from itertools import count
from typing import Any, TypeVar

import numpy as np

from oar.actions.limits.links import Link
from oar.actions.limits.rules import EncodedRule, Range, edges, holds
from oar.models.training import Array
from oar.plans.individual.certificate import RuleAlternative
from oar.progress import is_late
from oar.solvers.cheapest.highs import CheapestChange
from oar.solvers.cheapest.space import NEARLY, Space, link_row

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
        if rule is None or solved >= most or is_late():
            if rule is None and found.cost < best.cost:
                best = replace(found, bound=best.bound)
            best, finished = replace(best, bound=min(best.bound, bound)), finished and rule is None
            continue
        rest = replace(here, rules=tuple(other for other in here.rules if other is not rule))
        for part in kept_ways(here, rule, rest, _linked, _between, _with_row):
            answer = solve(replace(part, rules=()))
            solved += 1
            # A part has no cheaper change than the whole, whatever rounding says.
            heapq.heappush(waiting, (max(answer.bound, bound), next(number), part, answer))
    return replace(best, finished=finished)


def kept_ways(
    space: Space,
    rule: EncodedRule,
    whole: Part,
    linked: Callable[[Part, Link], Part],
    between: Callable[[Part, Range], list[Part]],
    with_row: Callable[[Part, Array, float], Part],
) -> Iterator[Part]:
    """Yield parts of a whole that together hold all that keeps a rule, each in one way.

    `linked` returns what keeps a link, `between` what ends between edges, if any do, `with_row` what keeps a row.
    """
    for way in rule.ways:
        parts = [whole]
        for each in way:
            if isinstance(each, Link):
                parts = [linked(part, each) for part in parts]
            else:
                narrowed: Any = between if each.levels is None else partial(_at_levels, space, with_row)
                parts = [one for part in parts for one in narrowed(part, each)]
        yield from parts
    before = space.start[None]
    if not any(holds(way, space.encoding, before, before)[0] for way in rule.ways):
        numbers = [space.encoding.schema.names.index(name) for name in rule.names]
        still = np.isin(space.column, numbers)  # broken before: nothing of it may change
        yield replace(whole, low=np.where(still, 0.0, whole.low), high=np.where(still, 0.0, whole.high))


def _at_levels(space: Space, with_row: Callable[[Part, Array, float], Part], part: Part, each: Range) -> list[Part]:
    """Return the changes that end at some of a category's levels, if there are any."""
    place, entries, levels = space.encoding.places[each.name], space.entries_of(each.name), each.levels or ()
    good = np.isin(space.basis[place][:, entries].argmax(axis=0), levels)
    high, row = part.high.copy(), np.zeros(space.size)
    high[entries[~good]] = 0.0
    row[entries[good & (high[entries] > 0)]] = -1.0
    part = replace(part, high=high)
    if int(space.start[place].argmax()) in levels:
        return [part]
    return [with_row(part, row, -1.0)] if row.any() else []


def _between(space: Space, each: Range) -> list[Space]:
    """Return the changes that end between edges, if there are any."""
    entries, at = space.entries_of(each.name), space.encoding.places[each.name].start
    if not entries.size:
        return [space] if holds((each,), space.encoding, space.start[None], space.start[None])[0] else []
    entry, size, start = entries[0], space.basis[at, entries[0]], space.start[at]
    low, high = edges(each, float(size / space.prices[entry]))
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
    part = replace(space, low=lower, high=upper)
    if least > 0:  # bounds of v always hold 0, so what does not is a row
        part = _with_row(part, -np.eye(space.size)[entry], -least)
    if most < 0:
        part = _with_row(part, np.eye(space.size)[entry], most)
    return [part]


def _linked(space: Space, link: Link) -> Space:
    row, room, _, _ = link_row(link.expression, space.encoding, space.start, space.basis)
    return _with_row(space, row, room)


def _with_row(space: Space, row: Array, room: float) -> Space:
    return replace(
        space,
        rows=np.vstack([space.rows, row]),
        room=np.append(space.room, room),
        row_errors=np.vstack([space.row_errors, np.zeros(space.size)]),
        row_slack=np.append(space.row_slack, 0.0),
    )

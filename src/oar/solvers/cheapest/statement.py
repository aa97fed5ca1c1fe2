"""The statement of a certificate: inequalities that hold for every change that the audit would accept.

The audit lets pass what rounding may have decided: a share of what a link or a rule adds up, the number next to a bound
that a column's dtype has none for, steps up to rounding. All of that is let pass here too, and a little more, so that
no bound is higher than a cost that would be accepted.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from oar.actions.limits.links import LinearExpression, Link
from oar.actions.limits.rules import EncodedRule, Range
from oar.models.training import Array
from oar.plans.individual.certificate import RuleAlternative, Statement
from oar.solvers.cheapest.rules import kept_ways
from oar.solvers.cheapest.space import LINK_SLACK, Space, link_row

EPS = 2.0**-52
RULE_LINK_SLACK = 10 * LINK_SLACK  # what an audit lets pass of what a rule's link adds up
RULE_SLACK = 3e-9  # and of a value that a rule compares, outwards
NEARLY = 1e-9


def statement_of(space: Space, slopes: Array, errors: Array, leads: Array) -> Statement:
    """Return what is kept by every change whose leads, (slopes + D) v + leads with |D| ≤ errors, are 0 at least."""
    steps, waste = _off_steps(space)
    low, high = _outwards(space, steps)
    rows = np.vstack([-slopes, space.rows])
    return Statement(
        kind=space.kind,
        prices=space.prices,
        flat=space.flat,
        column=space.column,
        whole=space.whole,
        low=low,
        high=high,
        rows=rows,
        errors=np.vstack([errors, space.row_errors]) + 8 * EPS * np.abs(rows),
        room=np.concatenate([leads, space.room + space.row_slack]) + np.abs(rows) @ steps,
        rules=tuple(_ways(space, rule, steps) for rule in space.rules),
        waste=waste,
    )


def _rounding(space: Space) -> Array:
    """Return the share (v,) of a value by which its dtype rounds."""
    found = []
    for column in space.column.tolist():
        dtype = space.encoding.dtypes[column]
        kind = getattr(dtype, "numpy_dtype", getattr(dtype, "subtype", dtype))
        narrow = isinstance(kind, np.dtype) and kind.kind == "f"
        found.append(float(np.finfo(kind).eps) if narrow else EPS)
    return np.maximum(np.array(found), EPS)


def _values(space: Space) -> tuple[Array, Array]:
    """Return the values (v,) before the change of what entries move, and how far one unit of each moves it."""
    main = np.abs(space.basis).argmax(axis=0) if space.size else np.zeros(0, dtype=np.intp)
    return np.abs(space.start[main]), np.abs(space.basis[main, np.arange(space.size)])


def _off_steps(space: Space) -> tuple[Array, float]:
    """Return by how much (v,) of a step a stepped number may be off it, and what that may save."""
    if not space.size:
        return np.zeros(0), 0.0
    values, sizes = _values(space)
    schema = space.encoding.schema
    numbers = [schema[schema.names[column]].kind == "number" for column in space.column]  # which are not whole
    off = np.where(space.whole & numbers, 16 * _rounding(space) * values / sizes, 0.0)
    return off, 0.0 if space.kind == "l0" else float(space.prices @ off)


def _outwards(space: Space, steps: Array) -> tuple[Array, Array]:
    """Return bounds that nothing accepted is beyond; what may not move at all may not here either."""
    if not space.size:
        return space.low, space.high
    values, sizes = _values(space)
    share = 4 * _rounding(space)
    found = []
    for bounds in (space.low, space.high):
        ends = np.abs(bounds)
        with np.errstate(invalid="ignore"):
            further = np.where(space.whole, np.where(steps > NEARLY, 1.0 + steps, 0.0), share * (ends + values / sizes))
            found.append(np.where(ends > 0, bounds + np.sign(bounds) * further, bounds))
    whole = space.whole
    return np.where(whole, np.floor(found[0]), found[0]), np.where(whole, np.ceil(found[1]), found[1])


def _ways(space: Space, rule: EncodedRule, steps: Array) -> tuple[RuleAlternative, ...]:
    """Return every way of keeping a rule; who broke it before may leave all of its columns as they are."""
    free = RuleAlternative(
        np.full(space.size, -np.inf),
        np.full(space.size, np.inf),
        np.zeros((0, space.size)),
        np.zeros((0, space.size)),
        np.zeros(0),
    )
    linked, within = partial(_linked, space), partial(_within, space, steps)
    return tuple(kept_ways(space, rule, free, linked, within))


def _linked(space: Space, part: RuleAlternative, link: Link) -> list[RuleAlternative]:
    """Return the changes that keep a link."""
    said: LinearExpression = link.expression
    row, errors, size = link_row(said, space.encoding, space.start, space.basis)
    room = -said.constant - sum(by * space.start[space.encoding.places[name]][0] for name, by in said.values.items())
    return [_more(part, row, RULE_LINK_SLACK * errors, room + RULE_LINK_SLACK * size)]


def _more(part: RuleAlternative, row: Array, errors: Array, room: float) -> RuleAlternative:
    return replace(
        part,
        rows=np.vstack([part.rows, row]),
        errors=np.vstack([part.errors, errors + 8 * EPS * np.abs(row)]),
        room=np.append(part.room, room),
    )


def _within(space: Space, steps: Array, part: RuleAlternative, each: Range) -> list[RuleAlternative]:
    """Return the changes that end within a range, if there are any."""
    place = space.encoding.places[each.name]
    entries = np.flatnonzero(space.column == space.encoding.schema.names.index(each.name))
    if each.levels is not None:
        return _at_levels(space, part, place, each.levels, entries)
    start = float(space.start[place.start])
    unit = _unit(space, place.start, entries)
    ends = [0.0 if each.whole else RULE_SLACK * (abs(start) + abs(edge) + unit) for edge in (each.low, each.high)]
    if entries.size and not each.whole:
        share = 8 * _rounding(space)[entries[0]]
        ends = [end + share * (abs(start) + abs(edge)) for end, edge in zip(ends, (each.low, each.high), strict=True)]
    least, most = (
        edge + sign * (end if np.isfinite(edge) else 0.0)
        for edge, end, sign in zip((each.low, each.high), ends, (-1, 1), strict=True)
    )
    if not entries.size:
        return [part] if least <= start <= most else []
    entry, size = entries[0], space.basis[place.start, entries[0]]
    bottom, top = (least - start) / size, (most - start) / size
    bottom, top = bottom - 4 * EPS * abs(bottom), top + 4 * EPS * abs(top)
    if space.whole[entry]:
        off = NEARLY + steps[entry]
        bottom, top = np.ceil(bottom - off), np.floor(top + off)
    low, high = part.low.copy(), part.high.copy()
    low[entry], high[entry] = max(low[entry], bottom), min(high[entry], top)
    return [replace(part, low=low, high=high)]


def _at_levels(
    space: Space, part: RuleAlternative, place: slice, levels: tuple[int, ...], entries: NDArray[np.intp]
) -> list[RuleAlternative]:
    held = int(space.start[place].argmax())
    leads_to = [int(space.basis[place, entry].argmax()) for entry in entries]
    high, row = part.high.copy(), np.zeros(space.size)
    for entry, level in zip(entries, leads_to, strict=True):
        if level in levels:
            row[entry] = -1.0
        else:
            high[entry] = 0.0
    part = replace(part, high=high)
    if held in levels:
        return [part]
    return [_more(part, row, np.zeros(space.size), -1.0)] if row.any() else []


def _unit(space: Space, at: int, entries: NDArray[np.intp]) -> float:
    """Return about what a standard deviation of a column is."""
    spread = float(space.spread[at])
    return max(spread, float(abs(space.basis[at, entries[0]])) if entries.size else 0.0)

"""The statement of a certificate: inequalities that hold for every change that the audit would accept.

The audit lets pass what rounding may have decided: a share of what a link or a rule adds up, the number next to a bound
that a column's dtype has none for, steps up to rounding. All of that is let pass here too, and a little more, so that
no bound is higher than a cost that would be accepted.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from oar.actions.limits.links import Link
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
    values, sizes = _values(space)
    kinds = np.array([column.kind for column in space.encoding.schema])  # numbers are not whole
    stepped = space.whole & (kinds[space.column] == "number")
    steps = np.where(stepped, 16 * _rounding(space) * values / sizes, 0.0)  # by which a stepped number may be off
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
        waste=0.0 if space.kind == "l0" else float(space.prices @ steps),
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
    main = np.abs(space.basis).argmax(axis=0)
    return np.abs(space.start[main]), np.abs(space.basis[main, np.arange(space.size)])


def _outwards(space: Space, steps: Array) -> tuple[Array, Array]:
    """Return bounds that nothing accepted is beyond; what may not move at all may not here either."""
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
    far, no_rows = np.full(space.size, np.inf), np.zeros((0, space.size))
    free = RuleAlternative(-far, far, no_rows, no_rows, np.zeros(0))
    return tuple(kept_ways(space, rule, free, partial(_linked, space), partial(_between, space, steps), _with_row))


def _linked(space: Space, part: RuleAlternative, link: Link) -> RuleAlternative:
    row, room, errors, size = link_row(link.expression, space.encoding, space.start, space.basis)
    return _with_row(part, row, room + RULE_LINK_SLACK * size, RULE_LINK_SLACK * errors)


def _with_row(part: RuleAlternative, row: Array, room: float, errors: Array | float = 0.0) -> RuleAlternative:
    return replace(
        part,
        rows=np.vstack([part.rows, row]),
        errors=np.vstack([part.errors, errors + 8 * EPS * np.abs(row)]),
        room=np.append(part.room, room),
    )


def _between(space: Space, steps: Array, part: RuleAlternative, each: Range) -> list[RuleAlternative]:
    """Return the changes that end between edges, if there are any."""
    entries, at = space.entries_of(each.name), space.encoding.places[each.name].start
    start, sizes = float(space.start[at]), space.basis[at, entries[:1]]
    unit = float(max([space.spread[at], *np.abs(sizes)]))  # about a standard deviation
    share = float(8 * _rounding(space)[entries[0]]) if entries.size else 0.0

    def let_pass(edge: float) -> float:
        if each.whole or not np.isfinite(edge):
            return 0.0
        size = abs(start) + abs(edge)
        return RULE_SLACK * (size + unit) + share * size

    least, most = each.low - let_pass(each.low), each.high + let_pass(each.high)
    if not entries.size:
        return [part] if least <= start <= most else []
    entry, size = entries[0], sizes[0]
    bottom, top = (least - start) / size, (most - start) / size
    bottom, top = bottom - 4 * EPS * abs(bottom), top + 4 * EPS * abs(top)
    if space.whole[entry]:
        off = NEARLY + steps[entry]
        bottom, top = np.ceil(bottom - off), np.floor(top + off)
    low, high = part.low.copy(), part.high.copy()
    low[entry], high[entry] = max(low[entry], bottom), min(high[entry], top)
    return [replace(part, low=low, high=high)]

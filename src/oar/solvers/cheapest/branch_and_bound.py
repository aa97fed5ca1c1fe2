"""A certificate for the cheapest change: best-first branch and bound, whose every leaf is checked without the solver.

A part whose relaxed place is no change (an entry is not whole, a column is paid for in part, a rule is broken) is
parted there; so is one with an entry that has no bounds, whose sign decides what rounding may do. The proof ends where
no part can be cheaper than what was found by a share of 1e-6, or where a part cannot be parted: then its place is a
change that may be cheaper, and is handed back to be tried. Where the time for searches is over, no more parts are made:
what is proved by then stays proved.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

import numpy as np

from oar.models.training import Array
from oar.plans.individual.certificate import (
    Certificate,
    CertificateRegion,
    Choice,
    Either,
    Leaf,
    RuleAlternative,
    Split,
    Statement,
    Tree,
    entry_terms,
    leaf_bound,
    whole_part,
)
from oar.progress import is_late
from oar.solvers.cheapest.multipliers import relaxed

ENOUGH = 2e-7  # share of the cost to which the bound is brought
MOST_PARTS = 400
WHOLE = 1e-7  # how far from whole a relaxed place may be
TRULY = 1e-12  # and what is still parted where nothing else is
SHARE = 1e-9
MUCH = 1e-3  # of what rows leave
Parting = tuple[Callable[..., Tree], Sequence[CertificateRegion], frozenset[int]]
"""What makes a tree of those of the parts, the parts, and the rules that are kept in them."""


@dataclass(eq=False)
class _Node:
    """A part, what is proved of it, its relaxed place, and how it was parted."""

    part: CertificateRegion
    kept: frozenset[int]  # rules that are kept in one way already
    leaf: Leaf
    bound: float
    point: Array | None
    shares: dict[int, float]
    doubtful: Leaf | None = None  # multipliers that show that nothing is in it, but do not stand up to rounding
    joined: Callable[..., Tree] | None = None
    children: Sequence[_Node] = ()

    def tree(self) -> Tree:
        """Return what proves the part's bound."""
        nodes = [self]  # parents first; a list, for trees may be deeper than functions may call themselves
        for node in nodes:
            nodes += node.children
        made: dict[int, Tree] = {}
        for node in reversed(nodes):
            below = [made.pop(id(child)) for child in node.children]
            made[id(node)] = node.joined(*below) if node.joined else node.leaf
        return made[id(self)]


def prove(statement: Statement, most: float = np.inf) -> tuple[Certificate, Array | None]:
    """Return a certificate, and a place that may be a cheaper change than one that costs `most`."""
    number = count()
    root = _looked_at(statement, whole_part(statement, most), frozenset(), Leaf(np.zeros(statement.room.size)))
    waiting = [(root.bound, next(number), root)]
    enough = most * (1 - ENOUGH) if most < np.inf else np.inf
    better = None
    while waiting:
        bound, visited, node = heapq.heappop(waiting)
        if bound >= enough:
            break
        parting = next(_partings(statement, node), None)
        if not parting or visited > MOST_PARTS or is_late():
            better = None if parting else node.point
            break
        node.joined, parts, kept = parting
        node.children = [_looked_at(statement, part, kept, node.leaf) for part in parts]
        for child in node.children:
            if child.bound < np.inf:
                heapq.heappush(waiting, (child.bound, next(number), child))
    return Certificate(statement, root.tree(), most), better


def _looked_at(statement: Statement, part: CertificateRegion, kept: frozenset[int], before: Leaf) -> _Node:
    """Relax a part; the multipliers of the one that it is of are no worse in it than there, and may be better."""
    if part.empty:
        return _Node(part, kept, Leaf(np.zeros(part.room.size)), np.inf, None, {})
    found = relaxed(statement, part)
    more = np.zeros(part.room.size - before.multipliers.size)
    leaves = [found.leaf, Leaf(np.concatenate([before.multipliers, more]), before.empty)]
    bounds = [leaf_bound(statement, part, leaf) for leaf in leaves]
    best = int(bounds[1] > bounds[0])
    doubtful = found.leaf if found.leaf.empty else None
    return _Node(part, kept, leaves[best], bounds[best], None if doubtful else found.point, found.shares, doubtful)


def _partings(statement: Statement, node: _Node) -> Iterator[Parting]:
    """Yield how to part a node, the best first; nothing where its place is a change, or nothing is left to part."""

    def split(entry: int, at: float = 0.0) -> Parting:
        return partial(Split, entry, at), node.part.split(statement, entry, at), node.kept

    def choice(column: int) -> Parting:
        return partial(Choice, column), node.part.choice(statement, column), node.kept

    def either(rule: int) -> Parting:
        parts = [node.part.narrowed(way) for way in statement.rules[rule]]
        return lambda *ways: Either(rule, ways), parts, node.kept | {rule}

    yield from map(split, _unsure(statement, node))
    if node.point is None:
        yield from map(choice, _undecided(statement, node))
        return
    if statement.kind == "l0":
        yield from map(choice, _unpaid(statement, node, node.point))
    off = np.where(statement.whole, np.abs(node.point - np.rint(node.point)), 0.0)
    far = TRULY * (1 + np.abs(node.point))
    broken = _broken(statement, node, node.point)
    if (off > np.maximum(WHOLE, far)).any() or ((off > far).any() and not broken):
        entry = int(off.argmax())
        yield split(entry, float(np.floor(node.point[entry])))
    yield from map(either, broken)


def _unsure(statement: Statement, node: _Node) -> Iterator[int]:
    """Yield an entry, far from its bounds on both sides, of which rounding is worth much with these multipliers."""
    part, leaf = node.part, node.doubtful or node.leaf
    if not leaf.multipliers.any() or not (node.doubtful or node.bound == 0):
        return
    prices = statement.prices if statement.kind == "l1" and not leaf.empty else np.zeros(part.low.size)
    worth = np.where((part.low < 0) & (part.high > 0), entry_terms(prices, part, leaf.multipliers), 0.0)
    lost = worth < -MUCH * float(leaf.multipliers @ np.abs(part.room))
    if lost.any():
        yield int(worth.argmin())


def _undecided(statement: Statement, node: _Node) -> Iterator[int]:
    """Yield a column that is neither paid for nor left as it is ("l0"), one without bounds first."""
    if statement.kind != "l0":
        return
    part = node.part
    open_ = (part.low < part.high) & (part.low <= 0) & (part.high >= 0) & ~np.isin(statement.column, list(part.paid))
    reach = np.where(open_, np.maximum(-part.low, part.high), 0.0)
    if open_.any():
        yield int(statement.column[reach.argmax()])


def _unpaid(statement: Statement, node: _Node, point: Array) -> list[int]:
    """Return the column that the relaxed place changes and pays for only in part, if there is one."""
    must, column = (node.part.low > 0) | (node.part.high < 0), statement.column
    moved = set(column[point != 0].tolist()) - set(column[must].tolist()) - node.part.paid
    flat = dict(zip(column.tolist(), statement.flat.tolist(), strict=True))
    left = {one: 1 - node.shares.get(one, 0.0) for one in sorted(moved)}
    lacks = {one: share * flat[one] for one, share in left.items() if share > SHARE and flat[one] > 0}
    return [max(lacks, key=lambda one: lacks[one])] if lacks else []


def _broken(statement: Statement, node: _Node, point: Array) -> list[int]:
    """Return the numbers of the rules that the relaxed place keeps in none of their ways."""
    ways = [(number, each) for number, each in enumerate(statement.rules) if number not in node.kept]
    return [number for number, each in ways if not any(_keeps(way, point) for way in each)]


def _keeps(way: RuleAlternative, point: Array) -> bool:
    slack = 1e-9 * (1 + np.abs(way.rows) @ np.abs(point))
    near = 1e-9 * (1 + np.abs(point))
    return bool(
        (point >= way.low - near).all()
        and (point <= way.high + near).all()
        and (way.rows @ point <= way.room + slack).all()
    )

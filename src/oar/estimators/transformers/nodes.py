"""Transformers as functions that can be differentiated: what they learn from rows, and what they make of rows.

A node is hashable and holds settings alone, so that what is compiled for it is kept. With rows X (n, w) and shares
u (n,), 1/n for each of the n people who are present and 0 for who has left,

    m = learned(X, u)        what scikit-learn's `fit` finds: a tuple of arrays, or of such tuples
    e = applied(X, m)        what its `transform` makes of each row

are written for JAX. Shares are an argument so that what one person's leaving does can be differentiated too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Learned = Any  # a tuple of arrays, or of such tuples


class Node:
    """A transformer that learns nothing and changes nothing, unless a subclass says otherwise."""

    def learned(self, rows: Any, shares: Any) -> Learned:
        """Return what is learned from rows."""
        return ()

    def applied(self, rows: Any, learned: Learned) -> Any:
        """Return what becomes of rows."""
        return rows

    def units(self, learned: Learned) -> Learned:
        """Return the size of each number that is learned (in the people's own units), so that signals are near 1."""
        import jax

        return jax.tree.map(np.ones_like, learned)


@dataclass(frozen=True)
class Chain(Node):
    """One after the other; each learns from what those before it make."""

    nodes: tuple[Node, ...]

    def learned(self, rows: Any, shares: Any) -> Learned:
        """Return what each learns."""
        found = []
        for node in self.nodes:
            found.append(node.learned(rows, shares))
            rows = node.applied(rows, found[-1])
        return tuple(found)

    def applied(self, rows: Any, learned: Learned) -> Any:
        """Apply all."""
        for node, own in zip(self.nodes, learned, strict=True):
            rows = node.applied(rows, own)
        return rows

    def units(self, learned: Learned) -> Learned:
        """Return those of each."""
        return tuple(node.units(own) for node, own in zip(self.nodes, learned, strict=True))


def taken(rows: Any, places: tuple[int, ...]) -> Any:
    """Return rows in these places: a slice, or a product with ones, for XLA is slow at taking single columns."""
    import jax.numpy as jnp

    first, last = places[0], places[-1]
    if places == tuple(range(first, last + 1)):
        return rows[:, first : last + 1]
    return rows @ jnp.asarray(np.eye(rows.shape[1])[:, list(places)])


@dataclass(frozen=True)
class Beside(Node):
    """Several for some places each; what they make stands side by side."""

    branches: tuple[tuple[tuple[int, ...], Node], ...]

    def learned(self, rows: Any, shares: Any) -> Learned:
        """Return what each learns from its places."""
        return tuple(node.learned(taken(rows, some), shares) for some, node in self.branches)

    def applied(self, rows: Any, learned: Learned) -> Any:
        """Apply each to its places."""
        import jax.numpy as jnp

        parts = [node.applied(taken(rows, some), own) for (some, node), own in zip(self.branches, learned, strict=True)]
        return jnp.concatenate(parts, axis=1)

    def units(self, learned: Learned) -> Learned:
        """Return those of each."""
        return tuple(node.units(own) for (_, node), own in zip(self.branches, learned, strict=True))


@dataclass(frozen=True)
class ColumnEncoding:
    """How one column becomes numbers: each of its levels a row of a matrix (k, w'); a number stays one.

    Attributes:
        kind, start, levels: as those of a `Field`, with the number of levels.
        matrix: what each level becomes.
    """

    kind: str
    start: int
    levels: int = 0
    matrix: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True)
class Encode(Node):
    """Levels as numbers: one-hot, by codes, or by their values.

    Of people, whose coordinates are whole, it makes just what scikit-learn's encoders do. Between levels it is linear
    in the places of levels and in flags, and between ranks it is a smooth curve through what scikit-learn makes of
    whole ones (see `hats`).
    """

    parts: tuple[ColumnEncoding, ...]

    def applied(self, rows: Any, learned: Learned) -> Any:
        """Return the columns' numbers, side by side: one product for all but ranks, which is quick to compile."""
        import jax.numpy as jnp

        width = sum(len(part.matrix[0]) if part.matrix else 1 for part in self.parts)
        matrix, added, first = np.zeros((rows.shape[1], width)), np.zeros(width), 0
        ranks: Any = 0.0
        for part in self.parts:
            own = np.array(part.matrix, dtype=np.float64) if part.matrix else np.ones((1, 1))
            places = slice(first, first + own.shape[1])
            first = places.stop
            if part.kind == "ranks":
                wide = np.zeros((part.levels, width))
                wide[:, places] = own
                ranks = ranks + hats(rows[:, part.start], part.levels) @ jnp.asarray(wide)
            elif part.kind == "flag":  # (1 − x, x) times the matrix
                matrix[part.start, places], added[places] = own[1] - own[0], own[0]
            else:
                matrix[part.start : part.start + len(own), places] = own
        return rows @ jnp.asarray(matrix) + jnp.asarray(added) + ranks


def hats(ranks: Any, levels: int) -> Any:
    """Return b (n, k): curves through one-hot rows at whole ranks, which add up to 1 and have no kinks.

    Keys' cubic, h(t) = 1 − 2.5 t² + 1.5 t³ for t ≤ 1 and 2 − 4t + 2.5 t² − 0.5 t³ up to 2. At a whole rank its slope is
    half towards the next level and half away from the last: what the two neighbouring levels would do, on average.
    Beyond the ends levels go on along a line, b₋₁ = 2 b₀ − b₁, so that there the slope is towards the one neighbour.
    """
    import jax.numpy as jnp

    if levels == 1:
        return jnp.ones((ranks.shape[0], 1))
    t = jnp.abs(ranks[:, None] - np.arange(-1.0, levels + 1))
    near, far = 1 - 2.5 * t**2 + 1.5 * t**3, 2 - 4 * t + 2.5 * t**2 - 0.5 * t**3
    curves = jnp.where(t < 1, near, jnp.where(t < 2, far, 0.0))
    before, inside, after = curves[:, :1], curves[:, 1:-1], curves[:, -1:]
    first, last = np.zeros((1, levels)), np.zeros((1, levels))
    first[0, :2], last[0, -2:] = (2, -1), (-1, 2)
    return inside + before * first + after * last

"""Transformers as functions that can be differentiated: what they learn from rows, and what they make of rows.

A node is hashable and holds settings alone, so that what is compiled for it is kept. With rows X (n, w) and shares
u (n,), 1/n for each of the n people who are present and 0 for who has left,

    m = learned(X, u)        what scikit-learn's `fit` finds: a tuple of arrays, or of such tuples
    e = applied(X, m)        what its `transform` makes of each row

are written for JAX, compiled once for each node and kept, in float64. Shares are an argument so that what one person's
leaving does can be differentiated too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from oar.models.training import Array

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
    """A chain of nodes; each learns from what those before it make."""

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
    """Nodes side by side, each for some places of the rows."""

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
    """The encoding of one column: each of its levels is a row of a matrix (k, w'); a number stays one.

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


@lru_cache(maxsize=64)
def _compiled(node: Node, kind: str) -> Callable[..., Any]:
    import jax

    def pull_applied(rows: Any, learned: Any, slopes: Any) -> Any:
        return jax.vjp(node.applied, rows, learned)[1](slopes)

    def pull_learned(rows: Any, shares: Any, signal: Any) -> Any:
        return jax.vjp(node.learned, rows, shares)[1](signal)

    def both(rows: Any, shares: Any) -> Any:
        return node.applied(rows, node.learned(rows, shares))

    functions = {
        "both": both,
        "learned": node.learned,
        "applied": node.applied,
        "pull_applied": pull_applied,
        "pull_learned": pull_learned,
    }
    return jax.jit(functions[kind])


class FrontPasses:
    """The functions of one front, from NumPy to NumPy; what is learned is one flat vector, each number in its unit."""

    def __init__(self, node: Node, rows: Array, shares: Array) -> None:
        """Learn from rows how long the vector is, and the units."""
        import jax

        self._node = node
        first = self._run("learned", rows, shares)
        leaves, self._tree = jax.tree.flatten(first)
        self._shapes = [leaf.shape for leaf in leaves]
        self._ends = np.cumsum([leaf.size for leaf in leaves], dtype=int)
        self.count = int(self._ends[-1]) if leaves else 0
        self._units = np.ones(self.count)
        self._units = self._flat(node.units(first))
        self.first = self._flat(first) / self._units

    def _run(self, kind: str, *arguments: Any) -> Any:
        import jax

        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, _compiled(self._node, kind)(*arguments))

    def _flat(self, learned: Learned) -> Array:
        import jax

        leaves = [np.asarray(leaf, dtype=np.float64).ravel() for leaf in jax.tree.leaves(learned)]
        return np.concatenate(leaves) if leaves else np.zeros(0)

    def tree(self, flat: Array) -> Learned:
        """Return what was learned, as the nodes have it, in the people's units."""
        import jax

        parts = np.split(flat * self._units, self._ends[:-1]) if self.count else []
        return jax.tree.unflatten(
            self._tree, [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]
        )

    def learned(self, rows: Array, shares: Array) -> Array:
        """Return m for rows (n, d)."""
        return self._flat(self._run("learned", rows, shares)) / self._units if self.count else np.zeros(0)

    def applied(self, rows: Array, flat: Array) -> Array:
        """Return e (n, d')."""
        return self._run("applied", rows, self.tree(flat))

    def pull_applied(self, rows: Array, flat: Array, slopes: Array) -> tuple[Array, Array]:
        """Return (∂e/∂x)ᵀ slopes (n, d), and Σ (∂e/∂m)ᵀ slopes."""
        by_rows, by_learned = self._run("pull_applied", rows, self.tree(flat), slopes)
        return by_rows, self._flat(by_learned) * self._units

    def pull_learned(self, rows: Array, shares: Array, signal: Array) -> tuple[Array, Array]:
        """Return (∂m/∂x)ᵀ signal (n, d), and its slope in everyone's share (n,)."""
        if not self.count:
            return np.zeros_like(rows), np.zeros(len(rows))
        return self._run("pull_learned", rows, shares, self.tree(signal / self._units**2))


def transformed(node: Node, rows: Array, learned: Learned) -> Array:
    """Return what becomes of rows."""
    import jax

    with jax.enable_x64(True):
        return np.asarray(_compiled(node, "applied")(rows, learned))


def fitted_and_transformed(node: Node, rows: Array) -> Array:
    """Return what becomes of rows by what is learned of them alone."""
    import jax

    with jax.enable_x64(True):
        return np.asarray(_compiled(node, "both")(rows, np.full(len(rows), 1 / len(rows))))

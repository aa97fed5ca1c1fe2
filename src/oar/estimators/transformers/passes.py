"""A front's functions, compiled once for each front and kept; in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from oar.estimators.transformers.nodes import Learned, Node
from oar.models.training import Array


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

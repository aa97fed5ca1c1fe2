"""Transformers as functions that can be differentiated: what they learn from rows, and what they make of rows.

A node is hashable and holds settings alone, so that what is compiled for it is kept. With rows X (n, w) and shares
u (n,), 1/n for each of the n people who are present and 0 for who has left,

    m = learned(X, u)        what scikit-learn's `fit` finds: a tuple of arrays, or of such tuples
    e = applied(X, m)        what its `transform` makes of each row

are written for JAX, compiled once for each node and kept, in float64. Shares are an argument so that what one person's
leaving does can be differentiated too. What scalers learn is unweighted, as in pipelines, and constant columns are
divided by 1.

**PCA.** With A = Σ u (x − μ)(x − μ)ᵀ = V Λ Vᵀ, a change dA turns the components and stretches the eigenvalues by

    dV_k = V (F ∘ Vᵀ dA V_k),   F_ij = 1 / (λ_j − λ_i) for i ≠ j, else 0,        dλ_k = (V_kᵀ dA V_k) diagonal.

So the decomposition is taken as it is and its first-order change is added to it, which is zero in value and right in
slope. Of two kept components with equal eigenvalues any turn will do (F = 0); where the last that is kept and the first
that is not are equal, what is kept is chance, and that is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from oar.errors import NumericsError
from oar.models.training import Array

Learned = Any  # a tuple of arrays, or of such tuples
EPS = float(np.finfo(np.float64).eps)
NOTHING = 10 * EPS  # a range below this is that of a constant column
EQUAL = 1e-9  # eigenvalues that differ by less, as a share of the largest, may be turned into one another
UNCLEAR = 1e-7  # at the cut


class Later:
    """A module that is imported when something of it is asked for: JAX, which most problems never need."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        """Return what the module has under this name."""
        return getattr(import_module(self._name), name)


jax: Any = Later("jax")
jnp: Any = Later("jax.numpy")


@dataclass(frozen=True)
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
        parts = [node.applied(taken(rows, some), own) for (some, node), own in zip(self.branches, learned, strict=True)]
        return jnp.concatenate(parts, axis=1)

    def units(self, learned: Learned) -> Learned:
        """Return those of each."""
        return tuple(node.units(own) for (_, node), own in zip(self.branches, learned, strict=True))


@dataclass(frozen=True)
class ColumnEncoding:
    """The encoding of one column: each of its levels is a row of a matrix (k, w'); a number stays one."""

    kind: str  # kind, start, levels: as those of a `Field`, with the number of levels
    start: int
    levels: int = 0
    matrix: tuple[tuple[float, ...], ...] = ()  # what each level becomes


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
    functions: dict[str, Callable[..., Any]] = {
        "both": lambda rows, shares: node.applied(rows, node.learned(rows, shares)),
        "learned": node.learned,
        "applied": node.applied,
        "pull_applied": lambda rows, learned, slopes: jax.vjp(node.applied, rows, learned)[1](slopes),
        "pull_learned": lambda rows, shares, signal: jax.vjp(node.learned, rows, shares)[1](signal),
    }
    return jax.jit(functions[kind])


def computed(node: Node, kind: str, *arguments: Any) -> Any:
    """Run one of a node's functions, compiled once and kept: from NumPy arrays to NumPy arrays, in float64."""
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, _compiled(node, kind)(*arguments))


def fitted_and_transformed(node: Node, rows: Array) -> Array:
    """Return what becomes of rows by what is learned of them alone."""
    return computed(node, "both", rows, np.full(len(rows), 1 / len(rows)))


def _divided(by: Any, constant: Any) -> Any:
    """Return scales, 1 for constant columns, without a slope there."""
    return jnp.where(constant, 1.0, by)


@dataclass(frozen=True)
class Standard(Node):
    """StandardScaler: (x − mean) / √variance."""

    mean: bool = True
    spread: bool = True

    def learned(self, rows: Any, shares: Any) -> Learned:
        """Return means and variances; a variance that may be rounding is 1, by scikit-learn's own bound."""
        total = shares.sum()
        mean = shares @ rows / total
        variance = shares @ (rows - mean) ** 2 / total
        count = (shares > 0).sum()
        constant = variance <= count * EPS * variance + (count * mean * EPS) ** 2
        return mean, jnp.where(constant, 1.0, variance)

    def applied(self, rows: Any, learned: Learned) -> Any:
        """Centre and scale."""
        mean, variance = learned
        centred = rows - mean if self.mean else rows
        return centred / jnp.sqrt(variance) if self.spread else centred

    def units(self, learned: Learned) -> Learned:
        """Means are measured by spreads."""
        mean, variance = learned
        return np.sqrt(variance), np.asarray(variance)


@dataclass(frozen=True)
class MinMax(Node):
    """MinMaxScaler: from least … most to low … high."""

    low: float
    high: float

    def learned(self, rows: Any, shares: Any) -> Learned:
        """Return the least and the most of who is present."""
        here = (shares > 0)[:, None]
        return jnp.where(here, rows, jnp.inf).min(axis=0), jnp.where(here, rows, -jnp.inf).max(axis=0)

    def applied(self, rows: Any, learned: Learned) -> Any:
        """Stretch."""
        least, most = learned
        return (rows - least) * (self.high - self.low) / _divided(most - least, most - least < NOTHING) + self.low

    def units(self, learned: Learned) -> Learned:
        """Both are measured by the range."""
        size = np.asarray(learned[1]) - np.asarray(learned[0])
        return (np.where(size > 0, size, 1.0),) * 2


@dataclass(frozen=True)
class MaxAbs(Node):
    """MaxAbsScaler: divide by the largest size."""

    def learned(self, rows: Any, shares: Any) -> Learned:
        """Return the largest size of who is present."""
        return (jnp.where((shares > 0)[:, None], jnp.abs(rows), 0.0).max(axis=0),)

    def applied(self, rows: Any, learned: Learned) -> Any:
        """Divide."""
        return rows / _divided(learned[0], learned[0] < NOTHING)

    def units(self, learned: Learned) -> Learned:
        """Each is measured by itself."""
        return (np.where(np.asarray(learned[0]) > 0, learned[0], 1.0),)


@dataclass(frozen=True)
class Robust(Node):
    """RobustScaler: (x − median) / (difference of quantiles); `normal` is that difference of a normal distribution."""

    centring: bool
    scaling: bool
    low: float
    high: float
    normal: float = 1.0

    def learned(self, rows: Any, shares: Any) -> Learned:
        """Return medians and differences of quantiles."""
        ordered = jnp.sort(jnp.where((shares > 0)[:, None], rows, jnp.inf), axis=0)
        last = (shares > 0).sum() - 1

        def quantile(share: float) -> Any:
            place = share * last
            below = jnp.floor(place).astype(int)
            lower, upper = ordered[below], ordered[jnp.minimum(below + 1, last)]
            return lower + (upper - lower) * (place - below)

        spread = quantile(self.high) - quantile(self.low)
        return quantile(0.5), _divided(spread, spread < NOTHING) / self.normal

    def applied(self, rows: Any, learned: Learned) -> Any:
        """Centre and scale."""
        centred = rows - learned[0] if self.centring else rows
        return centred / learned[1] if self.scaling else centred

    def units(self, learned: Learned) -> Learned:
        """Both are measured by the scale."""
        return np.asarray(learned[1]), np.asarray(learned[1])


@dataclass(frozen=True)
class UnitLength(Node):
    """Normalizer: every person's row at length 1; nothing is learned."""

    norm: str

    def applied(self, rows: Any, learned: Learned) -> Any:
        """Divide every row by its length; of zeros nothing is divided."""
        size = jnp.abs(rows)
        empty = size.max(axis=1, keepdims=True) == 0
        if self.norm == "l2":
            length = jnp.sqrt(jnp.where(empty, 1.0, (size**2).sum(axis=1, keepdims=True)))
        else:
            length = size.sum(axis=1, keepdims=True) if self.norm == "l1" else size.max(axis=1, keepdims=True)
        return rows / _divided(length, empty)


@dataclass(frozen=True)
class Principal(Node):
    """PCA: the first `kept` components; `whiten` divides each by its spread."""

    kept: int
    whiten: bool

    def learned(self, rows: Any, shares: Any) -> Learned:
        """Return the mean, the components (k, d) and their variances (k,)."""
        total, count = shares.sum(), (shares > 0).sum()
        mean = shares @ rows / total
        centred = rows - mean
        moments = (shares[:, None] * centred).T @ centred / total * count / (count - 1)
        fixed = jax.lax.stop_gradient(moments)
        values, vectors = jnp.linalg.eigh(fixed)
        values, vectors = values[::-1], vectors[:, ::-1]
        own, first = values[: self.kept], vectors[:, : self.kept]
        largest = jnp.argmax(jnp.abs(first), axis=0)  # scikit-learn's rule: the largest entry is positive
        first = first * jnp.sign(first[largest, jnp.arange(self.kept)])
        gaps = own[None, :] - values[:, None]
        unclear = jnp.abs(gaps) <= EQUAL * values[0]
        turns = jnp.where(unclear, 0.0, 1.0 / jnp.where(unclear, 1.0, gaps))
        change = moments - fixed  # zero, with a slope
        turned = first + vectors @ (turns * (vectors.T @ change @ first))
        return mean, turned.T, jnp.maximum(own, 0.0) + jnp.einsum("dk,de,ek->k", first, change, first)

    def applied(self, rows: Any, learned: Learned) -> Any:
        """Project, and divide where it whitens."""
        mean, components, variances = learned
        found = (rows - mean) @ components.T
        if not self.whiten:
            return found
        nothing = variances <= EPS**2
        return found / jnp.where(nothing, EPS, jnp.sqrt(jnp.where(nothing, 1.0, variances)))

    def units(self, learned: Learned) -> Learned:
        """Means are measured by the largest spread, components are of length 1, variances by themselves."""
        mean, components, variances = (np.asarray(part) for part in learned)
        largest = float(variances.max(initial=0.0)) or 1.0
        return np.full_like(mean, np.sqrt(largest)), np.ones_like(components), np.full_like(variances, largest)


def components_kept(wanted: Any, rows: Any, whiten: bool) -> int:
    """Return how many components `n_components` means for rows (n, d); refuse a cut between equal eigenvalues."""
    values = np.linalg.eigvalsh(np.atleast_2d(np.cov(rows, rowvar=False)))[::-1]
    most = min(rows.shape)
    if wanted is None:
        kept = most
    elif 0 < wanted < 1:
        shares = np.cumsum(values[:most]) / values[:most].sum()
        kept = min(int(np.searchsorted(shares, wanted, side="right")) + 1, most)
    else:
        kept = int(wanted)
    if whiten and values[kept - 1] <= UNCLEAR * values[0]:
        raise NumericsError(
            f"model: PCA(whiten=True) must keep components along which people differ, got a variance of "
            f"{max(values[kept - 1], 0.0):.1e} beside {values[0]:.1e}; keep fewer."
        )
    if kept < values.size and values[kept - 1] - values[kept] <= UNCLEAR * values[0] and values[kept - 1] > EPS:
        raise NumericsError(
            f"model: PCA must keep components that differ from those it drops, got eigenvalues {values[kept - 1]:.6g} "
            f"and {values[kept]:.6g} on either side of the cut after {kept}; keep one more or fewer."
        )
    return kept

"""The leaves of a fitted tree as boxes of moves, with every rounding that the tree itself makes.

scikit-learn rounds each feature to float32 and sends x to the left where float32(x) ≤ t. The query's feature after a
move δ is rounded too, x ⊕ δ, and in a pipeline so is its scaling s(·). All of these keep the order of what they round,
so that with g(δ) = float32(s(x ⊕ δ)), which never falls as δ grows,

    {δ : g(δ) ≤ t} = {δ ≤ u},    u = the largest float64 whose g is at most t

and the other side begins at the very next number. Bisection over the numbers of float64, in their order, finds u in 64
steps. A leaf is then a closed box of moves, in which the shortest move by any p-norm is 0 clipped to the box, for every
feature by itself. A box that holds no number is a leaf that this query cannot get into.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.models.training import Array

FARTHEST = 1e100  # moves beyond this are not looked at; float32 ends at 3e38
LEAF = -1  # what scikit-learn has for children of a leaf
SCALERS = ("MaxAbsScaler", "MinMaxScaler", "RobustScaler", "StandardScaler")  # which treat each column alone


@dataclass(frozen=True, eq=False)
class ScaledTree:
    """One of scikit-learn's decision trees, and the scalers before it that treat each column alone; fitted or not."""

    scalers: list[Any]
    tree: Any

    @classmethod
    def of(cls, estimator: Any) -> ScaledTree | None:
        """Return the tree that this estimator or pipeline is; None where it is none, or not behind such scalers alone.

        It is found by names, so that nothing is imported for an estimator that is no tree.
        """
        steps = [step for _, step in estimator.steps] if hasattr(estimator, "steps") else [estimator]
        scalers, tree = [step for step in steps[:-1] if hasattr(step, "transform")], steps[-1]
        known = _named(tree, "sklearn.tree", ("DecisionTreeClassifier", "DecisionTreeRegressor"))
        alone = all(_named(scaler, "sklearn.preprocessing", SCALERS) for scaler in scalers)
        return cls(scalers, tree) if known and alone else None

    def boxes(self, query: Array, rows_of: Callable[[Array], Any]) -> tuple[Array, Array]:
        """Return the least and greatest moves (l, d) of the query (d,) that end in each leaf of the fitted tree.

        `rows_of` makes what scalers are given of people (m, d).
        """

        def scaled(points: Array) -> Array:
            rows = rows_of(points) if self.scalers else points
            for scaler in self.scalers:
                rows = scaler.transform(rows)
            return np.asarray(rows)

        tree = self.tree.tree_
        splits = np.flatnonzero(tree.children_left != LEAF)
        lasts = np.full(tree.node_count, np.nan)
        lasts[splits] = last_to_the_left(query, tree.feature[splits], tree.threshold[splits], scaled)
        low, high = np.full((2, query.size), np.inf)
        waiting, boxes = [(0, -low, high)], []
        while waiting:
            node, low, high = waiting.pop()
            if tree.children_left[node] == LEAF:
                boxes.append((low, high))
                continue
            feature = tree.feature[node]
            left, right = high.copy(), low.copy()
            left[feature] = min(high[feature], lasts[node])
            right[feature] = max(low[feature], np.nextafter(lasts[node], np.inf))
            waiting += [(tree.children_right[node], right, high), (tree.children_left[node], low, left)]
        lows, highs = (np.array(side) for side in zip(*boxes, strict=True))
        return lows, highs

    def same_as(self, other: ScaledTree) -> bool:
        """Report whether two fitted trees are the same, split by split and leaf by leaf."""
        names = ("children_left", "children_right", "feature", "threshold", "value")
        one, two = self.tree.tree_, other.tree.tree_
        return all(np.array_equal(getattr(one, name), getattr(two, name)) for name in names)


def _named(estimator: Any, module: str, names: tuple[str, ...]) -> bool:
    return type(estimator).__module__.startswith(module) and type(estimator).__name__ in names


def last_to_the_left(
    query: Array, features: NDArray[np.intp], thresholds: Array, scaled: Callable[[Array], Array]
) -> Array:
    """Return, for each split (m,), the greatest move of its feature that still goes to the left."""
    each = np.arange(len(features))
    if not each.size:  # one leaf, and scalers refuse tables without rows
        return np.zeros(0)

    def goes_left(moves: Array) -> NDArray[np.bool_]:
        rows = np.tile(query, (len(each), 1))
        rows[each, features] += moves
        with np.errstate(over="ignore"):
            return scaled(rows)[each, features].astype(np.float32) <= thresholds

    ends = np.full(len(each), FARTHEST)
    low, high = _place(-ends), _place(ends)
    never, always = ~goes_left(-ends), goes_left(ends)
    while ((middle := _between(low, high)) > low).any():
        left = goes_left(_number(middle))
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return np.where(always, np.inf, np.where(never, -np.inf, _number(low)))


def _between(low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ⌊(low + high)/2⌋, although the sum may be beyond what an integer holds."""
    return (low >> 1) + (high >> 1) + (low & high & 1)


def _place(numbers: Array) -> NDArray[np.int64]:
    """Return where numbers are in the order of all of float64: neighbours differ by 1, and 0 is at 0."""
    bits = np.ascontiguousarray(numbers, dtype=np.float64).view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


def _number(places: NDArray[np.int64]) -> Array:
    """Return the numbers at these places."""
    return np.where(places < 0, np.iinfo(np.int64).min - places, places).view(np.float64)

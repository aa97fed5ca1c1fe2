"""scikit-learn's scalers, in JAX: what they learn is unweighted, as in pipelines; constant columns are divided by 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.estimators.transformers.nodes import Learned, Node

EPS = float(np.finfo(np.float64).eps)
NOTHING = 10 * EPS  # a range below this is that of a constant column


def _divided(by: Any, constant: Any) -> Any:
    """Return scales, 1 for constant columns, without a slope there."""
    import jax.numpy as jnp

    return jnp.where(constant, 1.0, by)


def _sizes(*candidates: Any) -> Any:
    """Return the first of these sizes that is above 0, or 1."""
    size = np.ones_like(np.asarray(candidates[0]))
    for each in reversed(candidates):
        size = np.where(np.asarray(each) > 0, each, size)
    return size


@dataclass(frozen=True)
class Standard(Node):
    """StandardScaler: (x − mean) / √variance."""

    mean: bool = True
    spread: bool = True

    def learned(self, rows: Any, shares: Any) -> Learned:
        """Return means and variances; a variance that may be rounding is 1, by scikit-learn's own bound."""
        import jax.numpy as jnp

        total = shares.sum()
        mean = shares @ rows / total
        variance = shares @ (rows - mean) ** 2 / total
        count = (shares > 0).sum()
        constant = variance <= count * EPS * variance + (count * mean * EPS) ** 2
        return mean, jnp.where(constant, 1.0, variance)

    def applied(self, rows: Any, learned: Learned) -> Any:
        """Centre and scale."""
        import jax.numpy as jnp

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
        import jax.numpy as jnp

        here = (shares > 0)[:, None]
        return jnp.where(here, rows, jnp.inf).min(axis=0), jnp.where(here, rows, -jnp.inf).max(axis=0)

    def applied(self, rows: Any, learned: Learned) -> Any:
        """Stretch."""
        least, most = learned
        return (rows - least) * (self.high - self.low) / _divided(most - least, most - least < NOTHING) + self.low

    def units(self, learned: Learned) -> Learned:
        """Both are measured by the range."""
        size = _sizes(np.asarray(learned[1]) - np.asarray(learned[0]))
        return size, size


@dataclass(frozen=True)
class MaxAbs(Node):
    """MaxAbsScaler: divide by the largest size."""

    def learned(self, rows: Any, shares: Any) -> Learned:
        """Return the largest size of who is present."""
        import jax.numpy as jnp

        return (jnp.where((shares > 0)[:, None], jnp.abs(rows), 0.0).max(axis=0),)

    def applied(self, rows: Any, learned: Learned) -> Any:
        """Divide."""
        return rows / _divided(learned[0], learned[0] < NOTHING)

    def units(self, learned: Learned) -> Learned:
        """Each is measured by itself."""
        return (_sizes(np.asarray(learned[0])),)


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
        import jax.numpy as jnp

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
        import jax.numpy as jnp

        size = jnp.abs(rows)
        empty = size.max(axis=1, keepdims=True) == 0
        if self.norm == "l2":
            length = jnp.sqrt(jnp.where(empty, 1.0, (size**2).sum(axis=1, keepdims=True)))
        else:
            length = size.sum(axis=1, keepdims=True) if self.norm == "l1" else size.max(axis=1, keepdims=True)
        return rows / _divided(length, empty)

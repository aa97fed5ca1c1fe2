"""The extremes to which a batch can push the query at one normalised unit, exactly, in O(n log n).

Member i may be anywhere in [l_i, h_i], the query is at a. With W the total weight, the query's own included where it is
counted, and m the momentum, the query's normalised value is

    u = N/D,     N = a − (1 − m) μ_running − m M,     D² = (1 − m) σ²_running + ϵ + m V > 0,

where M and V are mean and variance of the batch at t = (t_1, …, t_n). (For the lowest u, mirror everything.)

**Slope.** ∂u/∂t_i = −(m w_i / W D) [1 + N (t_i − M)/D²]. Along t_i alone, with the others as they are, let s be its
distance from the others' mean and N_o the value of N at s = 0: then D² = q₀ + q₂ s² with q₀, q₂ ≥ 0 and q₀ > 0, and the
slope has the sign of −m w̄_i q₀ − N_o q₂ s, which is affine in s. So u rises and then falls where N_o > 0, with its top
at an s < 0, where N > N_o > 0; and where N_o ≤ 0 it is largest at an end of [l_i, h_i].

N falls in every t_i, so it is largest at t = l.

**N(l) > 0.** The maximum has N > 0. There the slope is zero at τ = M − D²/N, positive below and negative above: whoever
is inside its interval is at τ, whoever is at its upper end has h_i ≤ τ, whoever is at its lower end has l_i ≥ τ. So
t_i = clip(τ, l_i, h_i), with one level τ for everybody. Between neighbouring ends of intervals N is affine and D²
quadratic in τ, and the slope of N/D has the sign of an affine function of τ: one candidate a piece.

**N(l) ≤ 0.** Then N ≤ 0 everywhere, no coordinate has its top inside, and some maximum has everybody at an end. With
equal weights and equal widths, h_i − l_i = 2r, M depends only on how many are at their upper ends, and u = −|N|/D is
largest where V is: where these are the ones with the largest centres. That leaves n + 1 candidates. With unequal ones
the best of these candidates is only found, and what is proved is u ≤ N(l)/D̂, with D̂ ≥ D from V ≤ Σ w̄ (t − y)² for
any y.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.models.training import Array

ALIKE = 1e-12  # a share of a weight or width that is rounding


@dataclass(frozen=True, eq=False)
class NormalisedUnit:
    """One normalised unit and who may be where."""

    lows: Array  # lows, highs: (n,) where each member may be at the least and at the most
    highs: Array
    weights: Array  # (n,)
    query: float  # a
    own: float  # the weight of the query in the statistics, 1 or 0
    momentum: float  # m > 0
    mean: float  # what running statistics add: (1 − m) μ_running,
    variance: float  # and with ϵ: (1 − m) σ²_running + ϵ

    def mirrored(self) -> NormalisedUnit:
        """Return the same with every value's sign changed, so that the query's u changes its sign, too."""
        return replace(self, lows=-self.highs, highs=-self.lows, query=-self.query, mean=-self.mean)

    def values(self, lead: float, mean: Array, square: Array) -> Array:
        """Return u where the batch has these means and mean squares, seen from the query; `lead` is N at 0."""
        variance = self.variance + self.momentum * np.maximum(square - mean**2, 0.0)
        return np.asarray((lead - self.momentum * mean) / np.sqrt(variance))

    def value(self, places: Array) -> float:
        """Return u where the members are at these places (n,)."""
        weights, values = np.append(self.weights, self.own), np.append(places, self.query)
        shares = weights / weights.sum()
        centre = shares @ values
        variance = self.variance + self.momentum * float(shares @ (values - centre) ** 2)
        return float((self.query - self.mean - self.momentum * centre) / np.sqrt(variance))


class Extreme(NamedTuple):
    """Places (n,) of the members, the query's u there, and a number that u cannot exceed, the same where proved."""

    places: Array
    value: float
    bound: float


def highest(unit: NormalisedUnit) -> Extreme:
    """Return where the query's normalised value is largest."""
    # From the query's place on, because sums of squares lose digits far from zero.
    lows, highs, total = unit.lows - unit.query, unit.highs - unit.query, unit.weights.sum() + unit.own
    lead = (1 - unit.momentum) * unit.query - unit.mean  # N where the batch's mean is at the query
    at_low = lead - unit.momentum * float(unit.weights @ lows) / total
    shares = unit.weights / total
    if at_low > 0:
        level = _best_level(lows, highs, shares, lead, unit)
        places = np.clip(level, lows, highs) + unit.query
        places = np.clip(places, unit.lows, unit.highs)
        value = unit.value(places)
        return Extreme(places, value, value)
    up = _best_ends(lows, highs, shares, lead, unit)
    places = np.where(up, unit.highs, unit.lows)
    value = unit.value(places)
    acts = (highs > lows) & (shares > 0)
    if _alike(shares[acts]) and _alike((highs - lows)[acts]):
        return Extreme(places, value, value)
    middle = float(shares @ (lows + highs)) / 2
    widest = shares @ np.maximum((lows - middle) ** 2, (highs - middle) ** 2) + unit.own / total * middle**2
    bound = at_low / np.sqrt(unit.variance + unit.momentum * float(widest))
    return Extreme(places, value, max(value, float(bound)))


def lowest(unit: NormalisedUnit) -> Extreme:
    """Return where the query's normalised value is smallest; the bound is one that it cannot fall below."""
    found = highest(unit.mirrored())
    return Extreme(-found.places, -found.value, -found.bound)


def _best_level(lows: Array, highs: Array, shares: Array, lead: float, unit: NormalisedUnit) -> float:
    """Return the τ with the largest u at clip(τ, l, h); the query is at 0."""
    m = unit.momentum
    # Passing l_i from below, member i comes along with τ; passing h_i, it stays behind.
    ends = np.concatenate([lows, highs])
    order = np.argsort(ends, kind="stable")
    ends = ends[order]
    along = np.cumsum(np.concatenate([shares, -shares])[order])
    first = shares @ lows - np.cumsum(np.concatenate([shares * lows, -shares * highs])[order])
    second = shares @ lows**2 - np.cumsum(np.concatenate([shares * lows**2, -shares * highs**2])[order])

    # With N = n₀ − m b τ and D² = e₀ − 2 m α b τ + m b (1 − b) τ², the slope N'D² − N (D²)'/2 is −m b times
    # e₀ − n₀ α + τ (n₀ (1 − b) − m α b): the squares of τ cancel.
    n0, e0 = lead - m * first, unit.variance + m * (second - first**2)
    bend = n0 * (1 - along) - m * first * along
    with np.errstate(divide="ignore", invalid="ignore"):
        tops = (n0 * first - e0) / bend
    following = np.append(ends[1:], ends[-1])
    tops = np.where(np.isfinite(tops), np.clip(tops, ends, following), ends)
    levels = np.array([ends, tops])
    found = unit.values(lead, first + along * levels, second + along * levels**2)
    return float(levels.ravel()[int(np.argmax(found))])


def _best_ends(lows: Array, highs: Array, shares: Array, lead: float, unit: NormalisedUnit) -> NDArray[np.bool_]:
    """Return who goes to its upper end, of all choices of those with the largest centres; the query is at 0."""
    order = np.argsort(-(lows + highs), kind="stable")
    steps, squares = shares * (highs - lows), shares * (highs**2 - lows**2)
    mean = shares @ lows + np.append(0.0, np.cumsum(steps[order]))
    square = shares @ lows**2 + np.append(0.0, np.cumsum(squares[order]))
    up = np.zeros(lows.size, dtype=bool)
    up[order[: int(np.argmax(unit.values(lead, mean, square)))]] = True
    return up


def _alike(values: Array) -> bool:
    """Report whether all are the same but for rounding."""
    return not values.size or bool(values.max() - values.min() <= ALIKE * values.max())

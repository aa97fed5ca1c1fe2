"""Test-time batch norm of one layer: how far each unit of the query can be pushed, and so each lead.

With members in boxes [l_i, h_i] and the batch's mean M and variance V, the query's value at a unit is u = N/D with N
affine in the members' places t and D = √(v + m V) convex in them. (For the lowest u, mirror everything.)

* For λ ≥ 0, N − λD is concave in t, so its tangent at any t bounds it everywhere; with λ the value of u at the best t
  there is nothing left to gain, and u ≤ λ. Any other t gives a bound, too, only a worse one.
* Where N ≤ 0 even at t = l, u is largest where |N| is small and D large. With equal weights and widths and j members at
  their upper ends, M is known and V is largest where these have the largest centres: all j are looked at. Elsewhere
  |N| ≥ |N(l)| and V ≤ Σ w̄ (t − y)² for any y.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oar.models import TestTimeBatchNorm
from oar.models.batch_norm.model import Sides, sides_of
from oar.plans.proof import Proof
from oar.problem import Problem
from oar.referee.contributions import ALLOWED, Array
from oar.referee.verdicts import UNIT, proved

BY = "how far members can push each normalised unit"
ALIKE = 1e-12
ROUNDED = 1e-13  # share of the largest numbers that rounding of affine maps and means may take
ROUNDS, LEVELS = 100, 400


def of_batch_norm(problem: Problem) -> Proof:
    """Return what is proved of members' moves."""
    model, people = problem.model, problem.people
    assert isinstance(model, TestTimeBatchNorm)
    sides = sides_of(model) if problem.plain and problem.limits is None else None
    if sides is None or model.momentum == 0:
        return Proof()
    features, budgets = np.asarray(people.features, dtype=np.float64), problem.allowance.everyones(people.size)
    units = features @ sides.weights.T + sides.biases
    query = sides.weights @ problem.query_features + sides.biases
    reach = problem.allowance.norm.dual.length(sides.weights) * (1 + 1e-12)
    radii = budgets[:, None] * ALLOWED * reach
    weights, m, norm = people.row_weights, model.momentum, sides.norm
    # What affine maps, moved rows and averages of n of them are rounded by, at the size of the raw numbers.
    farthest = np.abs(features).max(axis=0) + np.abs(problem.query_features) + float(budgets.max(initial=0.0))
    largest = np.abs(sides.weights) @ farthest + np.abs(sides.biases)
    rounded = 8 * (people.size + features.shape[1] + 16) * UNIT * largest
    ends = np.empty((2, query.size))
    for unit in range(query.size):
        own = float(model.query_in_batch)
        shares = np.append(weights, own) / (weights.sum() + own)
        kept_mean = 0.0 if m == 1 else (1 - m) * float(norm.mean[unit])
        kept = model.epsilon + (0.0 if m == 1 else (1 - m) * float(norm.variance[unit]))
        place = float(query[unit])
        low = np.append(units[:, unit] - radii[:, unit], place)
        high = np.append(units[:, unit] + radii[:, unit], place)
        ends[1, unit] = UnitBounds(low, high, shares, place - kept_mean, m, kept, rounded[unit]).most()
        ends[0, unit] = -UnitBounds(-high, -low, shares, kept_mean - place, m, kept, rounded[unit]).most()
    return _of_leads(problem, sides, ends)


def _of_leads(problem: Problem, sides: Sides, ends: Array) -> Proof:
    differences = sides.head[problem.goal] - sides.head
    seen = np.array([sides.seen(end) for end in ends])
    leads = np.maximum(differences * seen[0], differences * seen[1]).sum(axis=1)
    leads = leads + sides.head_biases[problem.goal] - sides.head_biases
    sizes = np.abs(differences) @ np.abs(seen).max(axis=0) + np.abs(sides.head_biases)
    sizes = sizes + abs(float(sides.head_biases[problem.goal]))
    leads = np.delete(leads + 1e-12 * sizes, problem.goal)
    bound = float(np.logaddexp.reduce([0.0, *-leads])) * (1 - 1e-13)
    return proved(problem, bound, (leads <= 0).any(), BY)


@dataclass(frozen=True, eq=False)
class UnitBounds:
    """The ranges of members and, last, the query, and their shares (n + 1,): N = start − m M, D² = kept + m V.

    `rounded` is what every place, and the mean, may be off. D changes by no more than places do, and is √kept at least,
    so that u = N/D is off by no more than (1 + |u|) times what they are off, divided by √kept.
    """

    low: Array
    high: Array
    shares: Array
    start: float
    momentum: float
    kept: float
    rounded: float = 0.0

    def most(self) -> float:
        """Return what u is not above."""
        # From the middle of all on, because sums of squares lose digits far from zero.
        middle = float(self.shares @ (self.low + self.high)) / 2
        low, high = self.low - middle, self.high - middle
        start = self.start - self.momentum * middle
        widest = float(self.shares @ np.maximum(low**2, high**2))
        positive = start - self.momentum * float(self.shares @ low) > 0
        found = (self._above if positive else self._below)(low, high, start, widest)
        return found + 4 * self.rounded * (1 + abs(found)) / float(np.sqrt(self.kept))

    def _above(self, low: Array, high: Array, start: float, widest: float) -> float:
        """Return what the tangent at the best places proves; those share one level, which is looked for."""

        def at(level: float) -> tuple[float, float, Array, Array]:
            """Return u and D where everybody is as near to a level as it can be, the places, and the way from M."""
            places = np.clip(level, low, high)
            mean = float(self.shares @ places)
            spread = places - mean
            deviation = float(np.sqrt(self.kept + self.momentum * float(self.shares @ spread**2)))
            return (start - self.momentum * mean) / deviation, deviation, places, spread

        acts = high > low
        levels = np.unique(np.concatenate([low[acts], high[acts]])) if acts.any() else np.zeros(1)
        levels = levels if levels.size <= LEVELS else np.quantile(levels, np.linspace(0, 1, LEVELS))
        seen = np.array([at(float(level))[0] for level in levels])
        best = np.flatnonzero(seen >= seen.max() - 1e-12 * abs(seen.max()))  # u is level where nobody comes along
        left, right = float(levels[max(best[0] - 1, 0)]), float(levels[min(best[-1] + 1, levels.size - 1)])
        for _ in range(ROUNDS):  # u rises with the level as long as D + λ (level − M) < 0
            middle = 0.5 * (left + right)
            value, deviation, places, _ = at(middle)
            rises = deviation + value * (middle - float(self.shares @ places)) < 0
            left, right = (middle, right) if rises else (left, middle)
        tops = [at(level) for level in (left, right, float(levels[best[0]]))]
        value, deviation, places, spread = max(tops, key=lambda found: found[0])
        # N − λD has the slope −m s_i (1 + λ (t_i − M)/D), so N − λD ≤ gains, and u ≤ λ + gains/D, D² ≥ kept.
        slopes = -self.momentum * self.shares * (1 + value * spread / deviation)
        gains = float(np.maximum(slopes * (low - places), slopes * (high - places)).sum())
        found = max(value, 0.0) + gains / float(np.sqrt(self.kept)) if value >= 0 else np.inf
        return found * (1 + 1e-12) + ROUNDED * (abs(start) + float(np.sqrt(widest))) / float(np.sqrt(self.kept))

    def _below(self, low: Array, high: Array, start: float, widest: float) -> float:
        m = self.momentum
        rise = start - m * float(self.shares @ low)
        acts = (high > low) & (self.shares > 0)
        rough = min(rise / float(np.sqrt(self.kept + m * widest)), 0.0) * (1 - 1e-12)
        widths, heavy = (high - low)[acts], self.shares[acts]
        if not acts.any() or np.ptp(widths) > ALIKE * widths.max() or np.ptp(heavy) > ALIKE * heavy.max():
            return rough
        order = np.flatnonzero(acts)[np.argsort(-(low + high)[acts], kind="stable")]
        mean = float(self.shares @ low) + np.append(0.0, np.cumsum((self.shares * (high - low))[order]))
        square = float(self.shares @ low**2) + np.append(0.0, np.cumsum((self.shares * (high**2 - low**2))[order]))
        variance = np.maximum(square - mean**2, 0.0) + 1e-12 * widest
        found = (start - m * mean + 1e-12 * (abs(start) + np.abs(mean))) / np.sqrt(self.kept + m * variance)
        return float(min(found.max(), 0.0))

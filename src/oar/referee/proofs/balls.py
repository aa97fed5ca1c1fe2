"""Nearest centroid: how near the goal's centroid and how far the others' can be, whatever members and query do.

The refitted centroid of class c is μ_c + s_c with ‖s_c‖_p ≤ r_c, the average of the budgets by weight. For any u,

    ‖a + s‖₂ ≥ (u·a − r ‖u‖_q) / ‖u‖₂,        a = μ_c − x†,   1/p + 1/q = 1,

so that a good u bounds the goal's distance from below. The others' from above: ‖a‖ + r for p = 2; for p = 1 a convex
function is largest in a corner, √(‖a‖² + 2r‖a‖_∞ + r²); for p = ∞ every coordinate goes as far as it can. A query that
moves by δ shifts all offsets by −δ: letting each class choose its own δ only widens what can be had. The goal loss
rises with the goal's distance and falls with the others', which bounds it, too.

With at most m members, those of a class add most to its radius who have the largest w_i ε_i; what is left is how many
of each class. With t_g of the goal's class the others must keep Σ t_c ≤ m − t_g: for each t_g, the least of
Σ_c e^{−d_c(t_c)} is bounded by putting classes together one by one, or by a multiplier λ ≥ 0 on their number,
Σ_c min_t (e^{−d_c(t)} + λt) − λ (m − t_g).
"""

from __future__ import annotations

import numpy as np

from oar.actions.sets.norms import Norm
from oar.people import Population
from oar.plans.proof import Proof
from oar.problem import Problem
from oar.referee.centroids import UnmovedCentroids, ties_of
from oar.referee.contributions import ALLOWED, Array
from oar.referee.verdicts import SURELY, UNIT, improbable, proved

BY = "distances to centroids, bounded by how far their members can move them"
MOST_PAIRS = 20_000_000  # numbers of members that are put together one by one
MULTIPLIERS = 64
SOME = 1 << 20  # numbers that are worked on at once


def of_centroids(problem: Problem, seen: UnmovedCentroids, members: bool, query: bool) -> Proof:
    """Return what is proved of moves of members, of the query, or of both."""
    if problem.best is not None and members:
        return _of_some(problem, seen, query, problem.best.number)
    return within_radii(problem, seen, _radii(problem) if members else np.zeros(len(seen.positions)), query)


def within_radii(problem: Problem, seen: UnmovedCentroids, radii: Array, query: bool = False) -> Proof:
    """Return what is proved where members together move centroids within radii (k,)."""
    ends = CentroidDistanceBounds(problem, seen, query)
    nearest, farthest = ends.nearest(radii[problem.goal]), np.array([ends.farthest(c, radii[c]) for c in ends.others])
    bound = float(loss_above(nearest, farthest))
    return proved(problem, bound, (farthest - nearest <= ends.ties[ends.others] * SURELY).any(), BY)


def never(problem: Problem, seen: UnmovedCentroids) -> bool:
    """Report whether no budget of the members, however large, is enough.

    Centroids that somebody may move go anywhere. Some duel cannot be won, or, where a probability is asked for, which
    may be had without winning any, the goal cannot be as probable as that.
    """
    ends, able = CentroidDistanceBounds(problem, seen, False), _radii(problem) > 0
    nearest = np.zeros(1) if able[ends.goal] else ends.nearest(np.zeros(1))
    farthest = [np.full(1, np.inf) if able[code] else ends.farthest(code, np.zeros(1)) for code in ends.others]
    if problem.query.probability is not None:
        return improbable(float(loss_above(nearest, np.stack(farthest, axis=-1))[0]), problem.query.probability)
    ties = ends.ties[ends.others]
    return any(far[0] - nearest[0] <= tie * SURELY for far, tie in zip(farthest, ties, strict=True))


def fewest_members(problem: Problem, seen: UnmovedCentroids) -> float:
    """Return a number of members below which no choice of them reaches the goal; inf where all together do not."""
    return _fewest(CentroidDistanceBounds(problem, seen, False), _sums(problem))


class CentroidDistanceBounds:
    """Bounds of the distances of centroids from the query, for radii of any shape; the query may move, too."""

    def __init__(self, problem: Problem, seen: UnmovedCentroids, query: bool) -> None:
        self.goal, self.norm = problem.goal, problem.allowance.norm
        self.own = problem.query_budget * ALLOWED if query else 0.0
        point = problem.query_features
        self.offsets = seen.positions - point
        self.others = [code for code in range(len(self.offsets)) if code != self.goal]
        self.ties = ties_of(seen.scales, self.goal, point)
        # Averages of n moved rows, and differences from them, are right to about n units of the largest numbers.
        self._sizes = np.maximum(seen.scales, np.abs(point).max(initial=0.0))
        self._terms = UNIT * (seen.numbers + self.offsets.shape[1] + 16) * np.sqrt(self.offsets.shape[1])

    def nearest(self, radii: Array) -> Array:
        """Return what the goal's distance (...) is not below."""
        reach, offset = np.asarray(radii) * ALLOWED + self.own, np.abs(self.offsets[self.goal])
        each = np.ravel(reach)
        step = max(1, SOME // offset.size)
        found = [_near(offset, each[start : start + step], self.norm) for start in range(0, each.size, step)]
        return np.maximum(np.concatenate(found).reshape(reach.shape) - self._unsure(self.goal, reach), 0.0)

    def farthest(self, code: int, radii: Array) -> Array:
        """Return what another class's distance (...) is not above."""
        reach, offset = np.asarray(radii) * ALLOWED + self.own, np.abs(self.offsets[code])
        return _far(offset, reach, self.norm) + self._unsure(code, reach)

    def _unsure(self, code: int, reach: Array) -> Array:
        size = (
            self._sizes[code] + np.abs(self.offsets[code]).max(initial=0.0) + np.where(np.isfinite(reach), reach, 0.0)
        )
        return self._terms[code] * size


def loss_above(nearest: Array, farthest: Array) -> Array:
    """Return log(1 + Σ_c e^{d_g − d_c}) for the goal's distance (...) and the others' (..., k − 1), rounded down."""
    exponents = nearest[..., None] - farthest
    loss = np.logaddexp.reduce(np.concatenate([np.zeros((*exponents.shape[:-1], 1)), exponents], axis=-1), axis=-1)
    return loss * (1 - (exponents.shape[-1] + 8) * UNIT)


def _near(offset: Array, radii: Array, norm: Norm) -> Array:
    """Return (u·|a| − r‖u‖_q)/‖u‖₂ (n,) for the u that is left of |a| where s has come as near as it can."""
    if norm.p == 2:
        left = np.broadcast_to(offset, (radii.size, offset.size))
    elif norm.p == np.inf:
        left = np.maximum(offset - radii[:, None], 0.0)
    else:
        left = np.minimum(offset, _thresholds(offset, radii)[:, None])
    unit = left.max(axis=1, initial=0.0)
    u = left / np.where(unit > 0, unit, 1.0)[:, None]  # nothing is squared that is very large or small
    lengths = np.sqrt(np.einsum("nd,nd->n", u, u))
    return np.where(unit > 0, (u @ offset - radii * norm.dual.length(u)) / np.where(unit > 0, lengths, 1.0), 0.0)


def _thresholds(sizes: Array, radii: Array) -> Array:
    """Return a τ (n,) for each r with Σ (|a_j| − τ)₊ = r, about; any τ makes a bound, a good one a good bound."""
    falling = np.append(np.sort(sizes)[::-1], 0.0)
    above = np.append(0.0, np.cumsum(falling[:-1])) - np.arange(falling.size) * falling
    return np.interp(radii, above, falling)


def _far(offset: Array, radius: Array, norm: Norm) -> Array:
    """Return max ‖a + s‖₂ over ‖s‖_p ≤ r, for sizes |a| (d,) and radii (...)."""
    unit = np.maximum(offset.max(initial=0.0), np.maximum(radius, np.finfo(float).tiny))
    unit = np.where(np.isfinite(unit), unit, 1.0)
    near, far = offset / unit[..., None], radius / unit
    straight = np.sqrt((near**2).sum(axis=-1))
    if norm.p == 2:
        found = straight + far
    elif norm.p == np.inf:
        found = np.sqrt(((near + far[..., None]) ** 2).sum(axis=-1))
    else:
        found = np.sqrt(straight**2 + 2 * far * near.max(axis=-1, initial=0.0) + far**2)
    return unit * found


# -- who takes part --------------------------------------------------------------------------------------------------


def _radii(problem: Problem) -> Array:
    """Return how far members together can move each class's centroid (k,)."""
    allowance, people = problem.allowance, problem.people
    if allowance.same_for_everyone:
        return np.full(len(people.classes), float(allowance.budget))
    return averages_above(people, allowance.everyones(people.size))


def averages_above(people: Population, each: Array) -> Array:
    """Return each class's average (k,) of what each person has (n,), rounded up."""
    totals = people.class_sums(None)
    sums = people.class_sums(each) / np.where(totals > 0, totals, 1.0)
    return np.asarray(sums * (1 + (people.size + 8) * UNIT))


def _sums(problem: Problem) -> list[Array]:
    """Return for each class the radius that its 0, 1, 2, … most useful members make."""
    people = problem.people
    chunks = [(chunk.codes, chunk.row_weights) for chunk in people.chunks()]  # two numbers a person, also in parts
    codes, weights = (np.concatenate(some) for some in zip(*chunks, strict=True))
    each, totals = problem.allowance.everyones(people.size) * weights, people.class_sums(None)
    found = []
    for code, total in enumerate(totals):
        mine = np.sort(each[codes == code])[::-1]
        sums = np.append(0.0, np.cumsum(mine[mine > 0], dtype=np.longdouble)).astype(np.float64)
        found.append(sums / (total if total > 0 else 1.0) * (1 + (mine.size + 8) * UNIT))
    return found


def _fewest(ends: CentroidDistanceBounds, sums: list[Array]) -> float:
    """Return the least Σ_c t_c with which every duel may be won."""
    nearest = ends.nearest(sums[ends.goal])
    needed = np.arange(nearest.size, dtype=np.float64)
    for code in ends.others:
        farthest = np.maximum.accumulate(ends.farthest(code, sums[code]))
        first = np.searchsorted(farthest, nearest + ends.ties[code] * SURELY, side="right")
        needed += np.where(first < farthest.size, first, np.inf)
    return float(needed.min())


def _of_some(problem: Problem, seen: UnmovedCentroids, query: bool, number: int) -> Proof:
    """Return what is proved of any `number` members, whoever they are."""
    ends, sums = CentroidDistanceBounds(problem, seen, query), _sums(problem)
    nearest = ends.nearest(sums[ends.goal][: number + 1])
    farthest = [ends.farthest(code, sums[code][: number + 1]) for code in ends.others]
    closest = min(float(values[0]) for values in farthest)
    terms = [np.exp(closest - values) for values in farthest]  # e^{−d_c}, in units of the nearest rival's
    least = _least_sums(terms, number)
    left = np.minimum(number - np.arange(nearest.size), least.size - 1)
    with np.errstate(divide="ignore"):
        exponents = nearest - closest + np.log(least[left] * (1 - 1e-12))
    bound = float(np.logaddexp(0.0, exponents).min()) * (1 - 16 * UNIT)
    return proved(problem, bound, _fewest(ends, sums) > number, f"{BY}, for any {number:,} of them")


def _least_sums(terms: list[Array], number: int) -> Array:
    """Return what Σ_c terms_c[t_c] is not below where Σ t_c is at most 0, 1, …, `number`."""
    most = min(number, sum(values.size - 1 for values in terms))
    if len(terms) * (most + 1) ** 2 <= MOST_PAIRS:
        found = np.zeros(most + 1)
        for values in terms:
            joined = np.full(most + 1, np.inf)
            for count, value in enumerate(values[: most + 1]):
                joined[count:] = np.minimum(joined[count:], found[: most + 1 - count] + value)
            found = joined
        return np.minimum.accumulate(found)
    budgets, best = np.arange(most + 1), np.zeros(most + 1)
    falls = np.concatenate([-np.diff(values) for values in terms])
    falls = np.sort(falls[falls > 0])[::-1]
    for place in np.unique(np.geomspace(1, max(falls.size, 1), MULTIPLIERS).astype(int)) - 1:
        price = float(falls[place]) if falls.size else 0.0
        value = sum(float((one + price * np.arange(one.size)).min()) for one in terms)
        best = np.maximum(best, value - price * budgets)
    return best

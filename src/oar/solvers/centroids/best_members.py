"""The most useful members for nearest centroid, exactly.

Member i of class c adds w_i ε_i / W_c to its class's radius, whoever else takes part, so of any class the best t are
those who add most. What is left is how many of each class: with t_g of the goal's class and t_c of every other, the
loss is log(1 + e^{d_g(t_g)} Σ_c e^{−d_c(t_c)}). So for every number j of members outside the goal's class, find the
least Σ_c e^{−d_c(t_c)} with Σ t_c = j, then scan t_g = m − j.

For p = 2, d_c = ‖a_c‖ + r_c rises ever more slowly in t_c, so that each term is convex in t_c and the least sum is
reached by always taking the member who lowers it most. For other norms it need not be, and classes are put together one
by one (dynamic programming).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oar.models.training import Array
from oar.problem import Problem
from oar.solvers.centroids.exact import Reach

Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]
MOST_PAIRS = 100_000_000  # of numbers of members that are put together; with more, members are taken one by one


def ranked_members(problem: Problem) -> tuple[list[Rows], list[Array]]:
    """Return, for each class, its eligible members by falling contribution, and the radius of the first m."""
    people = problem.people
    chunks = [(chunk.codes, chunk.row_weights) for chunk in people.chunks()]  # two numbers a person, also in parts
    codes, weights = (np.concatenate(some) for some in zip(*chunks, strict=True))
    contributions = problem.allowance.everyones(people.size) * weights
    class_weights = people.class_sums(None)
    ranked, prefix = [], []
    for code in range(len(people.classes)):
        able = np.flatnonzero((codes == code) & (contributions > 0))
        able = able[np.argsort(-contributions[able], kind="stable")]
        # Extended precision, so that a million small terms do not add up to a false tie.
        sums = np.cumsum(contributions[able], dtype=np.longdouble) / class_weights[code]
        ranked.append(able)
        prefix.append(np.concatenate([[0.0], sums.astype(np.float64)]))
    return ranked, prefix


def distances_by_number(reach: Reach, prefix: list[Array]) -> list[Array]:
    """Return each class's best distance by how many of its members take part."""
    ways = [reach.norm.farthest_distance] * len(prefix)
    ways[reach.goal] = reach.norm.nearest_distance
    return [way(offset, radii) for way, offset, radii in zip(ways, reach.offsets, prefix, strict=True)]


def members_needed(reach: Reach, prefix: list[Array]) -> tuple[Array, list[Array]]:
    """Return (t, k) members needed of each class for every number t of goal members, and distances by number."""
    goal, distances = reach.goal, distances_by_number(reach, prefix)
    needed = np.empty((len(prefix[goal]), len(prefix)))
    needed[:, goal] = np.arange(len(prefix[goal]))
    for code in reach.others:
        first = np.searchsorted(distances[code], distances[goal] + reach.ties[code], side="right")
        needed[:, code] = np.where(first < len(prefix[code]), first, np.inf)
    return needed, distances


def best_members(problem: Problem, reach: Reach, number: int) -> tuple[Mask, bool]:
    """Return members, `number` if so many can move, with whom the loss is least, and whether no others do better."""
    ranked, prefix = ranked_members(problem)
    distances = distances_by_number(reach, prefix)
    goal, others = reach.goal, reach.others
    nearest = min(float(distances[code][0]) for code in others)
    terms = [np.exp(nearest - distances[code][: number + 1]) for code in others]
    sums, counts, proved = _least_sums(terms, number, reach.norm.p == 2)
    of_goal = np.arange(min(number, len(ranked[goal])) + 1)
    outside = np.minimum(number - of_goal, len(sums) - 1)
    with np.errstate(divide="ignore"):
        losses = distances[goal][of_goal] + np.log(sums[outside])  # the loss rises with this
    best = int(losses.argmin())
    members = np.zeros(problem.people.size, dtype=bool)
    members[ranked[goal][:best]] = True
    for code, count in zip(others, counts[outside[best]], strict=True):
        members[ranked[code][:count]] = True
    return members, proved


def _least_sums(terms: list[Array], number: int, convex: bool) -> tuple[Array, Rows, bool]:
    """Return the least Σ_c terms_c[t_c] for every Σ t_c = 0, 1, …, the t_c that reach it, and whether it is proved."""
    most = min(number, sum(len(values) - 1 for values in terms))
    if not convex and len(terms) * (most + 1) ** 2 <= MOST_PAIRS:
        return (*_put_together(terms, most), True)
    # One by one: terms fall ever more slowly, so the order of each class's own members is kept.
    gains = np.concatenate([-np.diff(values) for values in terms])
    owners = np.repeat(np.arange(len(terms)), [len(values) - 1 for values in terms])
    order = np.argsort(-gains, kind="stable")[:most]
    counts = np.zeros((most + 1, len(terms)), dtype=np.intp)
    for code in range(len(terms)):
        counts[1:, code] = np.cumsum(owners[order] == code)
    sums = sum(values[counts[:, code]] for code, values in enumerate(terms))
    return np.asarray(sums), counts, convex or len(terms) == 1


def _put_together(terms: list[Array], most: int) -> tuple[Array, Rows]:
    """Return the least sums for 0 to `most` members, and how many of each class, one class after the other."""
    sums, counts = np.full(most + 1, np.inf), np.zeros((most + 1, 0), dtype=np.intp)
    sums[0] = 0.0
    for values in terms:
        joined, taken = np.full(most + 1, np.inf), np.zeros(most + 1, dtype=np.intp)
        for count, value in enumerate(values[: most + 1]):
            trial = sums[: most + 1 - count] + value
            better = trial < joined[count:]
            joined[count:][better], taken[count:][better] = trial[better], count
        sums, counts = joined, np.column_stack([counts[np.arange(most + 1) - taken], taken])
    return sums, counts

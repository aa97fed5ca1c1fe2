"""A sweep of 100 budgets × 50 participation shares × all ordered pairs of classes, beside its bare arithmetic.

The promise is: at most three single solves, plus O(k·d) arithmetic a cell. The arithmetic is therefore timed on its
own, written here in plain NumPy for given centroids, and taken off; the rest is counted in single solves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

import oar
from benchmarks.rows import Effort, Row
from benchmarks.timing import take_turns
from benchmarks.worlds import all_pairs, mnist, problem_of
from oar.solvers.centroids.sweep import class_participation

Array = NDArray[np.float64]
BUDGETS = np.linspace(0.0, 2.0, 100)
SHARES = np.linspace(0.02, 1.0, 50)


def rows(effort: Effort) -> Iterator[Row]:
    problem = problem_of(*mnist())
    people = problem.people
    queries, goals = all_pairs(people)
    centroids = oar.NearestCentroid().fit(people)
    participation = class_participation(people, centroids, SHARES, seed=0)
    codes = [people.classes.index(goal) for goal in goals]

    def sweep() -> oar.solvers.Sweep:
        return oar.solvers.sweep(people, queries, goals, BUDGETS, SHARES)

    def arithmetic() -> tuple[Array, NDArray[np.bool_]]:
        return bare_arithmetic(centroids.positions, participation, queries, codes)

    losses, _ = arithmetic()
    difference = float(np.abs(sweep().losses - losses).max())
    if difference > 1e-9:
        raise RuntimeError(f"the sweep and its bare arithmetic disagree by {difference}, so they cannot be compared")

    times = take_turns(
        {
            "sweep": sweep,
            "arithmetic": arithmetic,
            "single solve": lambda: oar.solvers.propose_collective(problem),
        },
        effort.rounds,
    )
    cells = f"{losses.size:,} cells"
    rest = (times["sweep"] - times["arithmetic"]) / times["single solve"]
    context = f"{cells}; {times.shown('sweep', 'arithmetic', 'single solve')}"
    yield Row("(sweep − its bare arithmetic) / single solve", rest, "×", 3.0, context)
    yield Row("sweep / its bare arithmetic", times.ratio("sweep", "arithmetic"), context=cells)
    yield Row(
        "sweep / as many single solves",
        times["sweep"] / (times["single solve"] * losses.size),
        context=f"{times['sweep'].min() / losses.size * 1e9:.0f} ns a cell",
    )
    with counted_passes() as counter:
        sweep()
    yield Row("passes over the data in one sweep", counter.people / people.size, "passes", 1.0)


def bare_arithmetic(
    centroids: Array, participation: Array, queries: Array, goals: list[int]
) -> tuple[Array, NDArray[np.bool_]]:
    """Return every cell's loss and whether the goal is reached: d ± r, one logarithm of a sum of exponentials.

    Written to be fast (classes first, so that sums run along whole rows; large arrays reused), not to be a straw man.
    """
    radii = np.ascontiguousarray(participation.T)[:, :, None] * BUDGETS
    losses = np.empty((len(queries), SHARES.size, BUDGETS.size))
    reached = np.empty(losses.shape, dtype=bool)
    for position, (query, goal) in enumerate(zip(queries, goals, strict=True)):
        now = np.linalg.norm(centroids - query, axis=1)
        distances = now[:, None, None] + radii
        distances[goal] = np.maximum(now[goal] - radii[goal], 0.0)
        exponents = distances[goal] - distances
        exponents[goal] = -np.inf
        lead = exponents.max(axis=0)
        highest = np.maximum(lead, 0.0)
        exponents -= highest
        total = np.exp(exponents, out=exponents).sum(axis=0)
        losses[position] = highest + np.log1p(total + np.expm1(-highest))
        reached[position] = lead < 0
    return losses, reached


@contextmanager
def counted_passes() -> Iterator[SimpleNamespace]:
    """Count the people whose features are handed out while this is open."""
    counter, original = SimpleNamespace(people=0), oar.Population.chunks

    def counting(self: oar.Population, *arguments: Any, **options: Any) -> Iterator[Any]:
        for chunk in original(self, *arguments, **options):
            counter.people += len(chunk.features)
            yield chunk

    with mock.patch.object(oar.Population, "chunks", counting):
        yield counter

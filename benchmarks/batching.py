"""Cells of a study on few people: random starts side by side, by vmap, beside one search after the other.

Both answer the same sixteen budgets, up to where the loss has many minima; each is finished by the same loop, to the
same gap.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import oar
from benchmarks.rows import Effort, Row
from benchmarks.timing import readable
from oar.solvers import propose_collective
from oar.solvers.descent import lanes as side_by_side

RIDGE = 1e-2
BUDGETS = np.linspace(0.05, 0.8, 16)
FASTER = 0.5  # of the time of cells one by one: less is not worth a compiler


def rows(effort: Effort) -> Iterator[Row]:
    """Measure three tables."""
    for people, features, classes in ((60, 2, 2), (150, 4, 3), (200, 10, 2)):
        asked = _asked(people, features, classes)
        for cell in asked[::15]:  # imports, on both sides
            propose_collective(cell)
        one_by_one, usual = _timed(lambda asked=asked: [propose_collective(cell) for cell in asked])
        first, _ = _timed(lambda asked=asked: side_by_side.propose(asked[0]))
        together, found = _timed(lambda asked=asked: [side_by_side.propose(cell) for cell in asked])
        excess = [one.claimed_loss / other.claimed_loss - 1 for one, other in zip(found, usual, strict=True)]
        yield Row(
            f"a study's cells with starts side by side / one by one, {people} × {features}, {classes} classes",
            together / one_by_one,
            "×",
            FASTER,
            f"{len(asked)} cells: {readable(together)} and {readable(one_by_one)}; the first with its compiler "
            f"{readable(first)}; losses {min(excess):+.1e} to {max(excess):+.1e} of each other",
        )


def _timed(function: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    found = function()
    return time.perf_counter() - began, found


def _asked(people: int, features: int, classes: int) -> list[oar.Problem]:
    rng = np.random.default_rng(0)
    centres, labels = 1.2 * rng.standard_normal((classes, features)), rng.integers(0, classes, people)
    given = oar.Population(centres[labels] + rng.standard_normal((people, features)), labels)
    query = oar.Query(0.3 * centres[1] + 0.7 * centres[0], goal=1)
    return [oar.Problem(given, oar.SoftmaxRegression(RIDGE), query, oar.Perturb(float(budget))) for budget in BUDGETS]

"""The exact solve with everyone's moves, beside scikit-learn's fit of the same model to the same array."""

from __future__ import annotations

from collections.abc import Iterator

from sklearn.neighbors import NearestCentroid

import oar
from benchmarks.rows import Effort, Row
from benchmarks.timing import take_turns
from benchmarks.worlds import mnist, problem_of


def rows(effort: Effort) -> Iterator[Row]:
    features, labels = mnist()
    problem = problem_of(features, labels)
    query, action = problem.query, problem.action

    def solve_and_move() -> object:
        return oar.solvers.propose_collective(problem).plan.moves(features, labels)

    def from_raw_arrays() -> object:
        asked = oar.Problem(oar.Population(features, labels), oar.NearestCentroid(), query, action)
        return oar.solvers.propose_collective(asked).plan.moves(features, labels)

    times = take_turns(
        {
            "scikit-learn": lambda: NearestCentroid().fit(features, labels),
            "solve + moves": solve_and_move,
            "raw arrays → moves": from_raw_arrays,
            "with audit": lambda: oar.collective(problem).plan.moves(features, labels),
        },
        effort.rounds,
    )
    base = "scikit-learn"
    for name, most in (("solve + moves", 0.5), ("raw arrays → moves", 0.5), ("with audit", None)):
        yield Row(
            f"{name} / scikit-learn's NearestCentroid.fit", times.ratio(name, base), "×", most, times.shown(name, base)
        )

"""A solve on a population that fills memory, beside the cheapest thing that reads it all: `X.sum(axis=0)`."""

from __future__ import annotations

from collections.abc import Iterator

import oar
from benchmarks.rows import Effort, Row
from benchmarks.timing import peak_memory, take_turns
from benchmarks.worlds import CLASSES, DIMENSIONS, crowd, problem_of

MEGABYTE = 1e6
PARAMETERS = 8 * CLASSES * DIMENSIONS  # bytes of k·d numbers


def rows(effort: Effort) -> Iterator[Row]:
    features, labels = crowd(effort.most_people)
    problem = problem_of(features, labels)
    query, action = problem.query, problem.action
    plan = oar.solvers.propose_collective(problem).plan

    def from_raw_arrays() -> object:
        asked = oar.Problem(oar.Population(features, labels), oar.NearestCentroid(), query, action)
        return oar.solvers.propose_collective(asked)

    functions = {
        "sum": lambda: features.sum(axis=0),
        "solve": lambda: oar.solvers.propose_collective(problem),
        "raw arrays → solve": from_raw_arrays,
        "audit": lambda: oar.audit(plan),
        "moves": lambda: plan.moves(features, labels),
    }
    times = take_turns(functions, effort.slow_rounds)
    size = f"N = {effort.most_people:.0e}".replace("e+0", "e")
    targets = {"solve": 2.5, "raw arrays → solve": 2.5}
    for name in ("solve", "raw arrays → solve", "audit", "moves"):
        yield Row(
            f"{name} / X.sum(axis=0), {size}",
            times.ratio(name, "sum"),
            "×",
            targets.get(name),
            times.shown(name, "sum"),
        )

    # Memory that does not grow with N: what a tenth of the people take, all of them take.
    fewer = problem_of(features[: effort.most_people // 10], labels[: effort.most_people // 10])
    for name, few in (
        ("solve", lambda: oar.solvers.propose_collective(fewer)),
        ("audit", lambda: oar.audit(oar.solvers.propose_collective(fewer).plan)),
    ):
        extra, with_few = peak_memory(functions[name]), peak_memory(few)
        yield Row(
            f"extra memory of the {name}: all people / a tenth of them",
            extra / with_few,
            "×",
            1.05,
            f"{extra / MEGABYTE:.2f} MB beside {features.nbytes / MEGABYTE:.0f} MB of data (one chunk of "
            f"people + k·d = {PARAMETERS} B)",
        )
    raw = peak_memory(from_raw_arrays)
    yield Row("extra memory from raw arrays", raw / MEGABYTE, "MB", context="checks and label codes included")
    moves = peak_memory(functions["moves"])
    yield Row("extra memory of the moves / size of X", moves / features.nbytes, context="they are an array like X")

"""The exact solve beside the projected gradient, which reaches the same loss without knowing the closed form."""

from __future__ import annotations

from collections.abc import Iterator

import oar
from benchmarks.rows import Effort, Row
from benchmarks.timing import take_turns
from benchmarks.worlds import crowd, mnist, problem_of
from oar.solvers import propose_collective

ROUNDING = 1e-12


def rows(effort: Effort) -> Iterator[Row]:
    populations = {"MNIST": mnist(), f"{effort.many_people:,} people": crowd(effort.many_people)}
    for name, (features, labels) in populations.items():
        yield from _compare(name, problem_of(features, labels), effort.slow_rounds)


def _compare(name: str, problem: oar.Problem, rounds: int) -> Iterator[Row]:
    times = take_turns(
        {
            "exact": lambda: propose_collective(problem, "exact"),
            "gradient": lambda: propose_collective(problem, "projected-gradient"),
        },
        rounds,
    )
    exact, gradient = (propose_collective(problem, solver) for solver in ("exact", "projected-gradient"))
    context = f"{times.shown('exact', 'gradient')} in {gradient.steps} steps"
    yield Row(f"exact / projected gradient, {name}", times.ratio("exact", "gradient"), "×", 1.0, context)
    loss, other = oar.audit(exact.plan).loss, oar.audit(gradient.plan).loss
    excess = (loss - other) / other
    yield Row("  its loss less the gradient's, relative", excess, "", ROUNDING, f"audited: {loss:.12g}, {other:.12g}")

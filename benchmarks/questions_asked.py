"""Context: what the other questions cost, in units of one audited exact solve on the same people."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sklearn.neighbors import NearestCentroid

import oar
from benchmarks.rows import Effort, Row
from benchmarks.timing import take_turns
from benchmarks.worlds import iris, mnist, problem_of

QUESTIONS = (oar.individual, oar.joint, oar.minimal_budget, oar.minimal_coalition, oar.break_even)


def rows(effort: Effort) -> Iterator[Row]:
    for name, (features, labels) in (("Iris", iris()), ("MNIST", mnist())):
        problem = problem_of(features, labels)
        functions = {question.__name__: partial(question, problem) for question in (oar.collective, *QUESTIONS)}
        times = take_turns(functions, effort.slow_rounds)
        for question in QUESTIONS:
            asked = question.__name__
            yield Row(
                f"{asked} / collective, {name}",
                times.ratio(asked, "collective"),
                context=times.shown(asked, "collective"),
            )

    features, labels = iris()
    problem = problem_of(features, labels)
    times = take_turns(
        {
            "scikit-learn": lambda: NearestCentroid().fit(features, labels),
            "solve": lambda: oar.solvers.propose_collective(problem),
            "collective": lambda: oar.collective(problem),
            "raw arrays → audited": lambda: oar.collective(
                oar.Problem(oar.Population(features, labels), oar.NearestCentroid(), problem.query, problem.action)
            ),
        },
        effort.rounds,
    )
    for name in ("solve", "collective", "raw arrays → audited"):
        yield Row(
            f"overhead of a call: {name} / scikit-learn's fit, Iris",
            times.ratio(name, "scikit-learn"),
            context=times.shown(name, "scikit-learn"),
        )

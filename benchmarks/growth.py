"""How the cost of an exact solve grows with the number of people: the exponent of a power law fitted to medians."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import oar
from benchmarks.rows import Effort, Row
from benchmarks.timing import readable, take_turns
from benchmarks.worlds import crowd, problem_of

SMALLEST = 1_000
LARGE = 100_000  # from here on a call's fixed overhead no longer shows


def rows(effort: Effort) -> Iterator[Row]:
    features, labels = crowd(effort.most_people)
    decades = np.log10(effort.most_people / SMALLEST)
    sizes = np.geomspace(SMALLEST, effort.most_people, round(2 * decades) + 1).round().astype(int)
    problems = {size: problem_of(features[:size], labels[:size]) for size in sizes}

    def solve(size: int) -> Callable[[], Any]:
        return lambda: oar.solvers.propose_collective(problems[size])

    def from_raw_arrays(size: int) -> Callable[[], Any]:
        query, action = problems[size].query, problems[size].action

        def run() -> Any:
            people = oar.Population(features[:size], labels[:size])
            return oar.solvers.propose_collective(oar.Problem(people, oar.NearestCentroid(), query, action))

        return run

    for name, kind in (("solve", solve), ("raw arrays → solve", from_raw_arrays)):
        times = take_turns({str(size): kind(size) for size in sizes}, effort.rounds)
        seconds = np.array([np.median(times[str(size)]) for size in sizes])
        overhead, each = _line(sizes, seconds)
        yield Row(
            f"exponent of N, {name}, N = {sizes[0]:.0e} … {sizes[-1]:.0e}".replace("e+0", "e"),
            _exponent(sizes, seconds),
            "",
            1.05,
            f"fixed {readable(overhead)} a call + {readable(each)} a person",
        )
        yield Row(
            f"exponent of N, {name}, N ≥ {LARGE:.0e}".replace("e+0", "e"),
            _exponent(sizes[sizes >= LARGE], seconds[sizes >= LARGE]),
            "",
            1.05,
            ", ".join(
                f"{size:.0e}: {readable(time)}".replace("e+0", "e")
                for size, time in zip(sizes[::2], seconds[::2], strict=True)
            ),
        )


def _exponent(sizes: np.ndarray, seconds: np.ndarray) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def _line(sizes: np.ndarray, seconds: np.ndarray) -> tuple[float, float]:
    """Fit time = overhead + N · each, every size counting the same (relative least squares)."""
    design = np.stack([np.ones(sizes.size), sizes], axis=1) / seconds[:, None]
    overhead, each = np.linalg.lstsq(design, np.ones(sizes.size), rcond=None)[0]
    return float(overhead), float(each)

"""Clocks and scales: times of several functions taken in turns, and the memory that one of them needs.

Machines are noisy and drift, so only ratios count, and only ratios of times taken moments apart: every round runs
each function once (A B C, A B C, …), a ratio is formed within each round, and the median over rounds is reported.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from timeit import Timer
from typing import Any

import numpy as np
from numpy.typing import NDArray

SHORTEST = 0.004  # seconds; what is faster is called several times in a row, and the mean is taken


@dataclass(frozen=True)
class Times:
    """Seconds that each function took in each round."""

    seconds: Mapping[str, NDArray[np.float64]]

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        """The times of one function, round by round, to calculate with."""
        return self.seconds[name]

    def ratio(self, name: str, base: str) -> NDArray[np.float64]:
        """How many times as long as `base` this function took, round by round."""
        return self.seconds[name] / self.seconds[base]

    def shown(self, *names: str) -> str:
        """Median times in words: the context of a ratio."""
        return ", ".join(f"{name} {readable(float(np.median(self.seconds[name])))}" for name in names)


def take_turns(
    functions: Mapping[str, Callable[[], Any]], rounds: int, before: Callable[[], Any] | None = None
) -> Times:
    """Time the functions in turns, after one untimed call of each; `before` is called before each call, untimed."""
    timers, calls = {}, {}
    for name, function in functions.items():
        timers[name], calls[name] = Timer(function, before or "pass"), 1
        # Imports, caches and page tables are not what is measured, so the first call does not count.
        if timers[name].timeit(1) < 1.0 and before is None:
            calls[name] = max(1, int(SHORTEST / max(timers[name].timeit(1), 1e-9)))
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, timer in timers.items():
            seconds[name].append(timer.timeit(calls[name]) / calls[name])
    return Times({name: np.array(values) for name, values in seconds.items()})


def peak_memory(function: Callable[[], Any]) -> int:
    """Return how many bytes the function holds at the most, beyond what was there before (NumPy reports its arrays)."""
    function()  # What is imported or cached for good belongs to nobody's call.
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        function()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def readable(seconds: float) -> str:
    """Write a time with a unit that suits it.

    >>> readable(0.0123), readable(4.5e-5)
    ('12.3 ms', '45 µs')
    """
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"

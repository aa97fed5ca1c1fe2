"""A world of fifty rounds beside a plain loop of fifty fits by scikit-learn on the same data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

import oar
from benchmarks.rows import Effort, Row
from benchmarks.timing import readable, take_turns
from oar.online import FullRefit, Window
from oar.worlds import Blobs, Collective, DoNothing, OneShot, Operator, World

ROUNDS, DIMENSIONS, L2 = 50, 10, 1e-2
MOST = 2.0


def rows(effort: Effort) -> Iterator[Row]:
    """Measure worlds in which nobody plans, and one in which a tenth answer a signal in every round."""
    for classes, rule, people, name in (
        (3, Window(1), 10_000, "newest batch, 10,000 a round"),
        (10, Window(1), 10_000, "newest batch, 10,000 a round"),
        (3, FullRefit(), 200, "everything so far, 10,000 in all"),
    ):
        world = _world(classes, rule, people)
        began = time.perf_counter()
        batches = [(one.crowd.features, one.crowd.codes) for one in oar.simulate(world, DoNothing(), rounds=ROUNDS)]
        first = time.perf_counter() - began
        times = take_turns(
            {"world": _run(world, DoNothing()), "scikit-learn": lambda: _loop(batches, isinstance(rule, FullRefit))},  # noqa: B023
            effort.slow_rounds,
        )
        context = f"{times.shown('world', 'scikit-learn')}; the first time, compiling included, {readable(first)}"
        yield Row(
            f"{ROUNDS} rounds, {name}, {classes} classes, over a loop of {ROUNDS} fits",
            times.ratio("world", "scikit-learn"),
            most=MOST,
            context=context,
        )
    world = _world(3, Window(1), 10_000)
    times = take_turns({"acting": _run(world, OneShot()), "nobody acts": _run(world, DoNothing())}, effort.slow_rounds)
    yield Row(
        "the same with a tenth answering a signal, the shadow world and critical masses, over nobody acting",
        times.ratio("acting", "nobody acts"),
        context=times.shown("acting", "nobody acts"),
    )


def _world(classes: int, rule: Any, people: int) -> World:
    means = np.random.default_rng(0).normal(size=(classes, DIMENSIONS))
    arrivals = Blobs(means, people, drift=np.full(DIMENSIONS, 0.01))
    query = oar.Query(0.4 * means[0] + 0.6 * means[2], goal=0)
    collective = Collective("us", query, oar.Perturb(0.5), share=0.1)
    return World(arrivals, Operator(oar.SoftmaxRegression(l2=L2), rule), collective, labels="keep")


def _run(world: World, policy: Any) -> Callable[[], Any]:
    return lambda: oar.simulate(world, policy, rounds=ROUNDS).table(progress=False)


def _loop(batches: list[tuple[np.ndarray, np.ndarray]], everything: bool) -> None:
    """Fit as anybody would: to each batch, or to all so far."""
    for number in range(len(batches)):
        read = batches[: number + 1] if everything else batches[number : number + 1]
        features, codes = (np.concatenate(part) for part in zip(*read, strict=True))
        LogisticRegression(C=1 / (L2 * len(codes)), max_iter=1000).fit(features, codes)

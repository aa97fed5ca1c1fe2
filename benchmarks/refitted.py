"""Models that are refitted in the loop: softmax regression beside what others would write, judged by scikit-learn.

Every loss is that of the judge, scikit-learn's own tight refit on the moved data. A peer runs once, in full, between
two solves of ours; the ratio is formed with the mean of the two.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import oar
from benchmarks.peers_softmax import faster_threads, judged_loss, optimistix_mover, scipy_moves, tuned_score_gradients
from benchmarks.rows import Effort, Row, skipped
from benchmarks.timing import readable, take_turns
from benchmarks.worlds import World, blobs, flowers
from oar.solvers import OneShot, ProjectedGradient, propose_collective

BUDGET = 0.3
MOST_LOSS = {"blobs": {0.3: 1.33046, 0.1: 1.78419, 1.0: 0.2430}, "Iris": {0.1: 1.1397, 0.3: 0.633976, 1.0: 0.01445}}
SIZES = (1_000, 10_000, 100_000, 1_000_000)
GROWTH = 1.05


def rows(effort: Effort) -> Iterator[Row]:
    if find_spec("jax") is None:
        yield skipped("all of it", "JAX is not installed: pip install 'oar-recourse[jax]'")
        return
    world, small = blobs(), flowers()
    yield from _beside_peers(world)
    yield from _losses("blobs", world, (0.1, 1.0))
    yield from _losses("Iris", small, (0.1, 0.3, 1.0))
    yield from _one_shot("blobs", world, effort)
    yield from _one_shot("Iris", small, effort)
    yield from _kernel(effort)
    yield from _growth(effort)
    yield from _fresh_processes()


def _seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = function()
    return time.perf_counter() - began, result


def _moves(world: World, plan: Any) -> Any:
    return plan.moves(world.features, world.labels)


def _beside_peers(world: World) -> Iterator[Row]:
    problem, target = world.problem(BUDGET), MOST_LOSS["blobs"][BUDGET]

    def ours() -> Any:
        return propose_collective(problem)

    ours()  # compiles
    seconds, found = _seconds(ours)
    loss = judged_loss(world, _moves(world, found.plan))
    context = f"{readable(seconds)}, {found.steps} steps, {found.passes} passes; claimed {found.claimed_loss:.8g}"
    yield Row(f"loss, blobs, ε = {BUDGET}", loss, "", target, context, digits=8)

    threads = faster_threads(world)
    peers: dict[str, tuple[float, str, str, Callable[[], Callable[[], Any]]]] = {
        f"scipy L-BFGS-B until {target}": (
            0.1,
            "scipy",
            f"BLAS threads: {threads}, the faster choice here",
            lambda: lambda: scipy_moves(world, BUDGET, target, threads),
        ),
        "optimistix BFGS + implicit CG, 50 steps": (
            0.05,
            "optimistix",
            "compiled beforehand, as ours is",
            lambda: optimistix_mover(world, BUDGET),
        ),
    }
    for name, (most, package, how, prepare) in peers.items():
        label = f"solve / {name}"
        if find_spec(package) is None:
            yield skipped(label, f"{package} is not installed: pip install {package}", most)
            continue
        peer = prepare()
        before, _ = _seconds(ours)
        theirs, moves = _seconds(peer)
        after, _ = _seconds(ours)
        mean = (before + after) / 2
        faster = f"peer {readable(theirs)}: {theirs / mean:.3g} × faster"
        yield Row(label, mean / theirs, "×", most, f"solve {readable(before)} and {readable(after)}, {faster}")
        yield Row("  the peer's loss", judged_loss(world, moves), "", context=how, digits=8)
    alone, audited = (_seconds(function)[0] for function in (ours, lambda: oar.collective(problem)))
    context = f"with audit {readable(audited)}, solve {readable(alone)}: two tight fits by scikit-learn"
    yield Row("with audit / solve", audited / alone, context=context)


def _losses(name: str, world: World, budgets: tuple[float, ...]) -> Iterator[Row]:
    for budget in budgets:
        problem = world.problem(budget)
        seconds, found = _seconds(lambda problem=problem: propose_collective(problem))
        loss = judged_loss(world, _moves(world, found.plan))
        context = f"{readable(seconds)}, {found.steps} steps, {found.passes} passes, finished: {found.finished}"
        yield Row(f"loss, {name}, ε = {budget}", loss, "", MOST_LOSS[name][budget], context, digits=8)


def _one_shot(name: str, world: World, effort: Effort) -> Iterator[Row]:
    problem = world.problem(BUDGET)
    solvers = {"one-shot": OneShot(), "solve": "auto"}
    times = take_turns(
        {key: lambda solver=solver: propose_collective(problem, solver) for key, solver in solvers.items()},
        effort.slow_rounds if name == "Iris" else 2,
    )
    clean, *others = (
        judged_loss(world, moves)
        for moves in (
            None,
            *(_moves(world, propose_collective(problem, solver).plan) for solver in solvers.values()),
        )
    )
    yield Row(
        f"one-shot / solve, {name}, ε = {BUDGET}",
        times.ratio("one-shot", "solve"),
        context=times.shown("one-shot", "solve"),
    )
    kept = (clean - others[0]) / (clean - others[1])
    context = f"{clean:.4g} → {others[0]:.4g}, solve → {others[1]:.4g}"
    yield Row("  share of the gain that one-shot keeps", kept, "", context=context)


def _kernel(effort: Effort) -> Iterator[Row]:
    """One gradient pass through the package beside a kernel written by hand for this very model."""
    world = blobs(effort.many_people)
    training = world.problem(BUDGET).model.training(world.problem(BUDGET).people)  # type: ignore[union-attr]
    laid, random = training.moved(None), np.random.default_rng(1)
    parameters, signal = random.standard_normal((2, *training.shape))
    by_hand = tuned_score_gradients(world.features, world.labels, os.cpu_count() or 1)
    given = [training.in_given_units(vector.ravel()).reshape(training.shape) for vector in (parameters, signal)]

    def ours() -> Any:
        return training.score_gradients(parameters.ravel(), laid, signal.ravel())

    with threadpool_limits(1, "blas"):  # the kernel has threads of its own
        theirs = by_hand(*given).transpose(0, 2, 1).reshape(-1, training.dimensions)[: training.size]
        difference = float(np.abs(ours() - theirs).max())
        if difference > 1e-9:
            raise RuntimeError(f"the gradient pass and the kernel disagree by {difference}, so they cannot be compared")
        times = take_turns({"pass": ours, "by hand": lambda: by_hand(*given)}, effort.rounds)
    label = f"gradient pass / kernel by hand, N = {effort.many_people:.0e}".replace("e+0", "e")
    yield Row(label, times.ratio("pass", "by hand"), "×", 3.0, times.shown("pass", "by hand"))


def _growth(effort: Effort) -> Iterator[Row]:
    sizes = [size for size in SIZES if size <= effort.many_people]
    medians, passes = [], []
    for size in sizes:
        problem = blobs(size).problem(BUDGET)
        propose_collective(problem, ProjectedGradient(max_steps=1, tolerance=1e-6))  # compiles for this shape
        runs = [
            _seconds(lambda problem=problem: propose_collective(problem)) for _ in range(3 if size < 100_000 else 1)
        ]
        medians.append(float(np.median([seconds for seconds, _ in runs])))
        passes.append(runs[0][1].passes)
    exponent = float(np.polyfit(np.log(sizes), np.log(medians), 1)[0])
    each = ", ".join(
        f"{size:.0e}: {readable(seconds)}, {count} passes".replace("e+0", "e")
        for size, seconds, count in zip(sizes, medians, passes, strict=True)
    )
    ends = f"{sizes[0]:.0e} … {sizes[-1]:.0e}".replace("e+0", "e")
    yield Row(f"exponent of N, solve, N = {ends}", exponent, "", GROWTH, each)
    last = float(np.log10(medians[-1] / medians[-2]))
    yield Row("  over the last decade alone", last, "", context="one timing each, so a busy moment shows")


FRESH = """
import json, sys, time
began = time.perf_counter()
import oar
imported, eager = time.perf_counter() - began, sorted({"jax", "jaxlib", "sklearn", "scipy"} & set(sys.modules))
from benchmarks.worlds import blobs, flowers
from oar.solvers import propose_collective
world = {"iris": flowers, "blobs": blobs}[sys.argv[1]]()
answers = []
for _ in range(2):
    start = time.perf_counter()
    propose_collective(world.problem(0.3))
    answers.append(time.perf_counter() - start)
from benchmarks.machine import peak_resident
print(json.dumps({"import": imported, "eager": eager, "answers": answers, "peak": peak_resident()}))
"""


def _fresh(world: str) -> dict[str, Any]:
    command = [sys.executable, "-P", "-c", FRESH, world]
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    told = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": paths})
    return json.loads(told.stdout)


def _fresh_processes() -> Iterator[Row]:
    """What a process of its own shows: imports, compilation, and all the memory that a solve needs."""
    peak = _fresh("blobs")["peak"]
    if peak is None:
        yield skipped("peak memory of a process that solves the blobs", "this system does not say", 500)
    else:
        yield Row(
            "peak memory of a process that solves the blobs",
            1e3 * peak,
            "MB",
            500,
            "two solves, data included",
            digits=4,
        )
    runs = [_fresh("iris") for _ in range(3)]
    first, second = np.array([run["answers"] for run in runs]).T
    imports = np.array([run["import"] for run in runs])
    context = f"first {readable(float(np.median(first)))}, second {readable(float(np.median(second)))}"
    yield Row("fresh process, Iris: import + first answer / second", (imports + first) / second, context=context)
    eager = ", ".join(runs[0]["eager"]) or "none of JAX, scikit-learn, scipy"
    context = f"import oar {readable(float(np.median(imports)))}; it imports {eager}"
    yield Row("JAX imported by `import oar`", float("jax" in runs[0]["eager"]), "", 0.0, context)

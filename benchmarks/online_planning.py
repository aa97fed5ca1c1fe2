"""Planning over time: how often the data are read, and how much memory it takes as rounds are added.

A planning step walks all rounds forwards and back. Its reads are counted beside those of a step for one refit, times
T. Its memory is measured twice: what a walk holds beside data and moves (`tracemalloc`, nearest centroid, which is
NumPy alone), and the peak of a process of its own for softmax regression with ten gradient steps a round, beside one
that differentiates the whole loop automatically (`jax.grad` of the unrolled rounds) on the same data.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import oar
from benchmarks.machine import peak_resident
from benchmarks.rows import Effort, Row
from benchmarks.timing import peak_memory
from oar.online import ExponentialMeans, FullRefit, GradientSteps, OnlineProblem, Rollout, Stream
from oar.online import rollout as walk

Array = NDArray[np.float64]
CLASSES, DIMENSIONS, BATCH = 3, 20, 400
RATE, STEPS, PENALTY = 0.05, 10, 1e-2
ROUNDS, MANY_ROUNDS = 16, 96
MEGABYTE = 1e6
RULES = {"full refit": FullRefit(), "gradient steps": GradientSteps(RATE, STEPS)}


def rows(effort: Effort) -> Iterator[Row]:
    for name, rule in RULES.items():
        once, many = (_reads(rule, rounds) for rounds in (1, ROUNDS))
        yield Row(
            f"softmax, {name}: reads of a planning step, {ROUNDS} rounds / ({ROUNDS} × one round)",
            many / (ROUNDS * once),
            "×",
            1.0,
            f"{many} batches or windows read, against {ROUNDS} × {once}",
        )
    yield from _beside_data_and_moves()
    yield from _beside_autodiff()


def _reads(rule: Any, rounds: int) -> int:
    """Return how often a batch (or all so far) is read for one walk forwards and back."""
    walked = Rollout(_problem(oar.SoftmaxRegression(PENALTY), rule, rounds))
    _ = walked.first
    before = walked.passes
    walked.gradient(walked.forward(None), None)
    return walked.passes - before


def _beside_data_and_moves() -> Iterator[Row]:
    """Compare what a walk holds beside its answer at few and at many rounds of equal batches."""
    kept, walk.KEPT = walk.KEPT, 0  # rounds are bound to the model one at a time
    try:
        held = {}
        for rounds in (ROUNDS, MANY_ROUNDS):
            problem = _problem(oar.NearestCentroid(), ExponentialMeans(0.3), rounds)
            moves = np.zeros((problem.radii.size, DIMENSIONS))
            walked = Rollout(problem)

            def there_and_back(walked: Rollout = walked, moves: Array = moves) -> object:
                return walked.gradient(walked.forward(moves), moves)

            held[rounds] = peak_memory(there_and_back) - moves.nbytes  # the slopes are as large as the moves
    finally:
        walk.KEPT = kept
    parameters = 8 * CLASSES * DIMENSIONS
    grown = held[MANY_ROUNDS] - held[ROUNDS]
    yield Row(
        f"centroids: memory that a round adds / (p numbers), from {ROUNDS} to {MANY_ROUNDS} rounds",
        grown / (MANY_ROUNDS - ROUNDS) / parameters,
        "×",
        10.0,
        f"{held[MANY_ROUNDS] / MEGABYTE:.2f} MB beside {8 * MANY_ROUNDS * BATCH * DIMENSIONS / MEGABYTE:.0f} MB of "
        f"data and as much of moves; T·p is {MANY_ROUNDS * parameters / MEGABYTE:.2f} MB",
    )


def _beside_autodiff() -> Iterator[Row]:
    kinds = ("planning", "autodiff")
    sizes = {(kind, rounds): _in_a_process(kind, rounds) for kind in kinds for rounds in (ROUNDS, MANY_ROUNDS)}
    data = 8 * BATCH * DIMENSIONS * MANY_ROUNDS / MEGABYTE
    for kind in kinds:
        grown = (sizes[kind, MANY_ROUNDS] - sizes[kind, ROUNDS]) / (1 - ROUNDS / MANY_ROUNDS)
        words = "slopes by the walk" if kind == "planning" else "slopes by jax.grad of the unrolled rounds"
        yield Row(
            f"softmax, {STEPS} steps a round, {MANY_ROUNDS} rounds: peak of {words} / size of the data",
            grown / data,
            "×",
            5.0 if kind == "planning" else None,
            f"{grown:.0f} MB beside {data:.0f} MB of data, which are twice in memory to begin with",
        )
    yield Row("softmax: difference of the two slopes / their size", _in_a_process("difference", ROUNDS), "", 1e-8)


def _in_a_process(kind: str, rounds: int) -> float:
    """Return the peak resident memory in MB beyond what was there before, or the difference of the slopes."""
    command = [sys.executable, "-m", "benchmarks.online_planning", kind, str(rounds)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _peak(make: Callable[[int], Callable[[], Array]], rounds: int) -> float:
    make(1)()  # everything is imported, and small things are compiled
    work = make(rounds)
    before = peak_resident() or np.nan
    work()
    return ((peak_resident() or np.nan) - before) * 1e3


def _difference(rounds: int) -> float:
    ours = _planning(rounds)()
    theirs = _autodiff(rounds)().reshape(ours.shape)
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))


def _batches(rounds: int) -> list[tuple[Array, NDArray[np.intp]]]:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(CLASSES, DIMENSIONS))
    found = []
    for _ in range(rounds):
        codes = np.arange(BATCH) % CLASSES
        found.append((centres[codes] + rng.normal(size=(BATCH, DIMENSIONS)), codes))
    return found


def _problem(model: Any, rule: Any, rounds: int) -> OnlineProblem:
    batches = _batches(rounds + 1)
    stream = Stream.of_batches(batches[1:], history=None if isinstance(rule, FullRefit) else batches[0])
    return OnlineProblem(stream, model, rule, oar.Query(np.zeros(DIMENSIONS), 0), oar.Perturb(0.3))


def _planning(rounds: int) -> Callable[[], Array]:
    walked = Rollout(_problem(oar.SoftmaxRegression(PENALTY), RULES["gradient steps"], rounds))
    moves = np.zeros((walked.problem.radii.size, DIMENSIONS))

    def slopes() -> Array:
        return walked.gradient(walked.forward(moves), moves).gradient[walked.problem.stream.when >= 0]

    return slopes


def _autodiff(rounds: int) -> Callable[[], Array]:
    """Return slopes of the same loss, by differentiating all rounds at once."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    problem = _problem(oar.SoftmaxRegression(PENALTY), RULES["gradient steps"], rounds)
    first = Rollout(problem).first
    assert first is not None
    people, when = problem.stream.people, problem.stream.when
    rows = jnp.asarray(np.asarray(people.features)[when >= 0]).reshape(rounds, BATCH, DIMENSIONS)
    targets = jnp.asarray(people.class_rows()[when >= 0]).reshape(rounds, BATCH, CLASSES)

    def risk(theta: Any, features: Any, shares: Any) -> Any:
        logits = features @ theta[:, :-1].T + theta[:, -1]
        fit = jnp.mean(jax.nn.logsumexp(logits, axis=1) - (shares * logits).sum(axis=1))
        return fit + 0.5 * PENALTY * (theta[:, :-1] ** 2).sum()

    def loss(moves: Any) -> Any:
        def batch(theta: Any, given: Any) -> tuple[Any, None]:
            features, shares = given
            for _ in range(STEPS):
                theta = theta - RATE * jax.grad(risk)(theta, features, shares)
            return theta, None

        theta, _ = jax.lax.scan(batch, jnp.asarray(first).reshape(CLASSES, -1), (rows + moves, targets))
        logits = theta[:, -1]  # the query lies at the origin
        return jax.nn.logsumexp(logits) - logits[0]

    compiled = jax.jit(jax.grad(loss))
    return lambda: np.asarray(compiled(jnp.zeros_like(rows)))


if __name__ == "__main__":
    asked, number = sys.argv[1], int(sys.argv[2])
    makers = {"planning": _planning, "autodiff": _autodiff}
    print(_peak(makers[asked], number) if asked in makers else _difference(number))

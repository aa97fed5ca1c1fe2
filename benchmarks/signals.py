"""Every signal maker beside the implicit one, model by model: `python -m benchmarks.signals` prints one table.

All makers differentiate at the same true refit, with nothing remembered from earlier rounds. Per maker:

    cosine, error   of its gradient, against that of the implicit signal solved to 1e-10
    response        the gain of one full response (everyone moves by the whole budget against the gradient, then a true
                    refit), as a share of the gain that implicit's rounds bring
    rounds          the same for ROUNDS rounds of the outer loop
    passes          readings of all the data for one gradient, beyond the refit: in the first round, and in a later one
    time            of the first gradient, as a multiple of implicit's
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import take_turns
from benchmarks.worlds import iris
from oar.actions.sets.norms import Norm
from oar.errors import NumericsError
from oar.models.autodiff.mlp import MLP
from oar.models.autodiff.training import AutodiffTraining
from oar.models.centroid.prototypes import PrototypeNetwork
from oar.models.linear.losses import LinearSVM, Ridge, SoftmaxRegression
from oar.models.linear.training import LinearTraining
from oar.models.naive_bayes import GaussianNaiveBayes
from oar.signals import (
    Alternating,
    GradientMatching,
    Hypernetwork,
    Implicit,
    Memory,
    Neumann,
    Outcome,
    Signal,
    Unrolled,
    refit,
)
from oar.solvers.descent.descent import DescentSettings, SingleRefit, descend
from oar.solvers.feasible.sets import FeasibleBalls

Array = NDArray[np.float64]
TIGHT = 1e-10
BUDGET = 0.3
ROUNDS = 20
PATIENCE = 10.0  # seconds that a maker's rounds may take
HEADINGS = ("model", "signal", "cosine", "error", "response", "rounds", "passes", "time")


@dataclass(frozen=True)
class Case:
    """A model bound to people, and a query that wants class 1 but lies three quarters of the way to class 2."""

    name: str
    training: Any
    labels: NDArray[np.int64]
    query: Array
    target: Array


def makers(labels: NDArray[np.int64]) -> dict[str, Signal]:
    return {
        "implicit": Implicit(),
        "neumann, 10 terms": Neumann(10),
        "neumann, 100 terms": Neumann(100),
        "unrolled, 50 steps": Unrolled(50),
        "unrolled, 200 steps": Unrolled(200),
        "unrolled, 200 steps, no momentum": Unrolled(200, momentum=0.0),
        "alternating, 1 step": Alternating(),
        "alternating, 10 steps": Alternating(10),
        "gradient matching": GradientMatching(),
        "hypernetwork, affine": Hypernetwork(groups=labels),
        "hypernetwork, 8 pairs": Hypernetwork(groups=labels, pairs=8),
    }


def blobs(size: int) -> tuple[Array, NDArray[np.int64]]:
    random = np.random.default_rng(0)
    centres, labels = 0.9 * random.standard_normal((10, 10)), random.integers(0, 10, size)
    return centres[labels] + random.standard_normal((size, 10)), labels


def cases() -> Iterator[Case]:
    features, labels = iris()
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    classes, values = np.eye(3)[labels], labels[:, None].astype(np.float64)
    yield case("softmax regression, iris", LinearTraining, SoftmaxRegression(), features, labels, classes)
    many, theirs = blobs(5_000)
    yield case("softmax regression, 5,000 × 10", LinearTraining, SoftmaxRegression(), many, theirs, np.eye(10)[theirs])
    yield case("linear SVM, iris", LinearTraining, LinearSVM(), features, labels, classes)
    yield case("ridge, iris", LinearTraining, Ridge(), features, labels, values)
    yield case("Gaussian naive Bayes, iris", AutodiffTraining, GaussianNaiveBayes(), features, labels, classes)
    yield case("MLP of 8 tanh units, iris", AutodiffTraining, MLP(hidden=(8,)), features, labels, classes)
    frozen, trained = PrototypeNetwork((8, 2)), PrototypeNetwork((8, 2), train_embedding=True)
    yield case("prototypes, frozen network, iris", AutodiffTraining, frozen, features, labels, classes)
    yield case("prototypes, trained network, iris", AutodiffTraining, trained, features, labels, classes)


def case(name: str, kind: Any, model: Any, features: Array, labels: NDArray[np.int64], targets: Array) -> Case:
    training = kind(model, features, targets, np.full(len(labels), 1.0 / len(labels)))
    query = 0.25 * features[labels == 1].mean(axis=0) + 0.75 * features[labels == 2].mean(axis=0)
    return Case(name, training, labels, query, targets[np.flatnonzero(labels == 1)[0]])


@dataclass(frozen=True)
class Measured:
    """What a maker made of a case."""

    gradient: Array
    first: int
    later: int
    response: float
    rounds: float


class Bench:
    """One case: its refit without moves, and everything that is measured from there."""

    def __init__(self, case: Case) -> None:
        self.case, self.training = case, case.training
        self.outcome = refit(self.training, None, case.query, case.target, None, TIGHT)
        self.memory = Memory(self.outcome.fit.parameters)
        self.exact = Implicit(TIGHT).differentiate(self.training, self.outcome, None).gradient

    def refit(self, moves: Array) -> Outcome:
        """Refit truly after moves."""
        return refit(self.training, moves, self.case.query, self.case.target, self.memory, 1e-8)

    def respond(self, gradient: Array) -> Array:
        """Move everyone by the whole budget against the gradient."""
        return Norm(2.0).maximise(-gradient, np.full(self.training.size, BUDGET))

    def gain_of_rounds(self, maker: Signal) -> float:
        """Run the outer loop, in which only the members move."""
        members = self.training.weights
        limits = FeasibleBalls(Norm(2.0), np.append(np.full(members.size, BUDGET), 0.0), np.append(members, 1.0))
        start = np.zeros((members.size + 1, self.training.dimensions))
        settings = DescentSettings("spectral", ROUNDS, 1e-8, time.monotonic() + PATIENCE)
        objective = SingleRefit(self.training, maker, self.case.query, self.case.target)
        reached = descend(objective, limits, start, settings)
        return self.outcome.loss - min(reached.losses)

    def measure(self, maker: Signal) -> Measured:
        """Make two gradients, one response and some rounds; a later round's gradient is made a fifth of the way on."""
        before = self.training.passes
        step = maker.differentiate(self.training, self.outcome, self.memory)
        first = self.training.passes - before
        a_round_later = self.refit(0.2 * self.respond(step.gradient))
        before = self.training.passes
        maker.differentiate(self.training, a_round_later, step.memory)
        later = self.training.passes - before
        response = self.outcome.loss - self.refit(self.respond(step.gradient)).loss
        return Measured(step.gradient, first, later, response, self.gain_of_rounds(maker))

    def rows(self, timings: int) -> Iterator[tuple[str, ...]]:
        """Measure all makers and write them down."""
        known, measured, reasons = makers(self.case.labels), {}, {}
        for name, maker in known.items():
            reason = maker.refusal(self.training)
            try:
                if reason is None:
                    measured[name] = self.measure(maker)
            except NumericsError as problem:
                reason = str(problem)
            if reason is not None:
                reasons[name] = "refused" if "closed form" in reason else "diverged"

        def first_gradient(maker: Signal) -> Callable[[], Any]:
            return lambda: maker.differentiate(self.training, self.outcome, self.memory)

        times = take_turns({name: first_gradient(known[name]) for name in measured}, timings)
        whole = measured["implicit"].rounds
        for name in known:
            if name in reasons:
                yield self.case.name, name, *["–"] * (len(HEADINGS) - 3), reasons[name]
                continue
            of, ratio = measured[name], float(np.median(times.ratio(name, "implicit")))
            cosine = float((of.gradient * self.exact).sum() / np.linalg.norm(of.gradient) / np.linalg.norm(self.exact))
            error = float(np.linalg.norm(of.gradient - self.exact) / np.linalg.norm(self.exact))
            shares = f"{of.response / whole:.3f}", f"{of.rounds / whole:.3f}"
            costs = f"{of.first}, {of.later}", f"{ratio:.1f} ×" if ratio < 10 else f"{ratio:.0f} ×"
            yield self.case.name, name, f"{cosine:.3f}", f"{error:.0e}", *shares, *costs


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.signals", description="Signal makers side by side.")
    parser.add_argument("--timings", type=int, default=5, help="timings of each maker; the median counts")
    parser.add_argument("--only", default="", help="measure only models whose names contain this")
    options = parser.parse_args()
    print("| " + " | ".join(HEADINGS) + " |")
    print("| --- | --- " + "| ---: " * (len(HEADINGS) - 2) + "|")
    for one in cases():
        if options.only not in one.name:
            continue
        for cells in Bench(one).rows(options.timings):
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()

"""The twins of scikit-learn's estimators: a refit of theirs from scratch, beside the estimator's own fit.

Both go to the same gradient norm: the estimator is fitted, the norm of the twin's training gradient at its answer is
measured, and the twin's refit ends there (or at 1e-10, where a closed form leaves nothing but rounding). A refit from
scratch begins with binding the twin to the people, as the estimator's begins with checking and copying them. What
planning does most, a refit after a small move, is shown beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

import oar
from benchmarks.rows import Effort, Row, skipped
from benchmarks.timing import take_turns
from oar.problem import as_model

Array = NDArray[np.float64]
FINEST = 1e-10
MOST = 2.0
MOVE = 0.01


def rows(effort: Effort) -> Iterator[Row]:
    if find_spec("jax") is None:
        yield skipped("all of it", "JAX is not installed: pip install 'oar-recourse[jax]'")
        return
    adult, plain, several = like_adult(), blobs(2), blobs(5)
    lbfgs, newton = (
        LogisticRegression(solver=solver, tol=1e-8, max_iter=5_000) for solver in ("lbfgs", "newton-cholesky")
    )
    for people, estimator in (
        (adult, lbfgs),
        (adult, newton),
        (plain, lbfgs),
        (plain, newton),
        (several, lbfgs),
        (adult, RidgeClassifier()),
        (plain, RidgeClassifier()),
        (adult, LinearSVC(dual=False, tol=1e-6, max_iter=10_000)),
        (plain, LinearSVC(dual=False, tol=1e-6, max_iter=10_000)),
        (adult, GaussianNB()),
        (plain, GaussianNB()),
    ):
        yield _beside(people, estimator, effort.rounds)


def like_adult(size: int = 45_000, seed: int = 0) -> oar.Population:
    """Six numbers and 82 switches, most of them rare, standardised; a quarter of the people are of the second class."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(size, 6))
    switches = rng.random((size, 82)) < rng.beta(0.5, 4.0, 82).clip(0.005, 0.9)
    return _people(np.column_stack([numbers, switches]), 2, -1.6, rng)


def blobs(classes: int, size: int = 10_000, seed: int = 1) -> oar.Population:
    """Twenty numbers."""
    rng = np.random.default_rng(seed)
    return _people(rng.normal(size=(size, 20)), classes, 0.0, rng)


def _people(features: Array, classes: int, lean: float, rng: np.random.Generator) -> oar.Population:
    """Standardise, which makes gradients comparable, and draw labels from a logistic model."""
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    logits = features @ rng.normal(size=(features.shape[1], classes)) * 0.4 + lean * np.arange(classes)
    return oar.Population(features, (logits + rng.gumbel(size=logits.shape)).argmax(axis=1))


def _beside(people: oar.Population, estimator: Any, rounds: int) -> Row:
    twin = as_model(estimator)
    features, labels = people.features, people.labels
    tolerance = max(_residual(twin, people), FINEST)

    def from_scratch() -> Any:
        training = twin.training(people)
        found = training.fit(training.moved(None), training.start(), tolerance)
        assert found.converged, (estimator, found.residual, tolerance)
        return found

    training = twin.training(people)
    begun = training.fit(training.moved(None), training.start(), tolerance)
    moved = training.moved(MOVE * np.random.default_rng(0).normal(size=features.shape))
    times = take_turns(
        {
            "scikit-learn": partial(estimator.fit, features, labels),
            "twin": from_scratch,
            "after a move": lambda: training.fit(moved, begun.parameters, tolerance),
        },
        rounds,
    )
    solver = getattr(estimator, "solver", "") if isinstance(estimator, LogisticRegression) else ""
    classes = f", {len(people.classes)} classes" if len(people.classes) > 2 else ""
    name = f"{twin.name}{f' ({solver})' if solver else ''}, {people.size:,} × {people.dimensions}{classes}"
    context = f"gradient {tolerance:.0e}; {times.shown('twin', 'scikit-learn', 'after a move')}"
    return Row(f"twin's refit / {name}", times.ratio("twin", "scikit-learn"), "×", MOST, context)


def _residual(twin: Any, people: oar.Population) -> float:
    """Return the norm of the twin's training gradient at the estimator's own answer; features are standardised."""
    training, known = twin.training(people), twin.fit(people).core
    if not isinstance(known, np.ndarray):
        return 0.0  # a closed form, which leaves none
    return float(np.linalg.norm(training.risk_gradient(known.ravel(), training.moved(None))[1]))

"""The kinds of problems: small ones, by name, each made of Iris, of German credit, or of numbers drawn from a seed.

A kind is a function of a folder for files; whoever wants a kind of its own adds a function here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import oar
from oar.models import MLP, Custom, GaussianNaiveBayes, LinearSVM, PrototypeNetwork, Ridge, Scaled, SoftmaxRegression
from oar.online import ExponentialMeans, FullRefit, OnlineProblem, Stream

Make = Callable[[Path], Any]
KINDS: dict[str, Make] = {}

LINEAR = SoftmaxRegression(l2=1e-2)
FLOWERS = ["sepal length", "sepal width", "petal length", "petal width"]


def kind(name: str) -> Callable[[Make], Make]:
    """Register a kind of problem under its name in the matrix."""

    def add(make: Make) -> Make:
        KINDS[name] = make
        return make

    return add


def iris() -> tuple[np.ndarray, np.ndarray]:
    """Return all 150 flowers: features and species."""
    found = oar.datasets.iris()
    return found.features, found.labels


def between(toward: int = 2, share: float = 0.35) -> np.ndarray:
    """Return a flower on the way from the second species to another."""
    features, labels = iris()
    means = [features[labels == species].mean(axis=0) for species in range(3)]
    return share * means[toward] + (1 - share) * means[1]


def flowers(model: Any, action: Any = None, query: Any = None, **more: Any) -> oar.Problem:
    """Return a problem of all flowers."""
    query = oar.Query(between(), 2) if query is None else query
    return oar.Problem(oar.Population(*iris()), model, query, action or oar.Perturb(0.5), **more)


def applicants(model: Any, size: int = 200) -> oar.Problem:
    """Return a problem of some rows of German credit, with the limits that come with it."""
    loans = oar.datasets.german_credit()
    frame = loans.frame.sample(size, random_state=0)
    refused = frame[frame.credit == "bad"].drop(columns="credit").iloc[1]
    people = oar.Population.from_frame(frame, target="credit")
    return oar.Problem(people, model, oar.Query(refused, goal="good"), oar.Perturb(0.5, norm=1, limits=loans.limits))


def in_parts(folder: Path, model: Any) -> oar.Problem:
    """Return a problem of flowers in two Parquet files."""
    features, labels = iris()
    frame = pd.DataFrame(features, columns=FLOWERS).assign(species=labels)
    where = folder / "flowers"
    where.mkdir(exist_ok=True)
    for number in range(2):
        frame.iloc[number::2].to_parquet(where / f"{number}.parquet")
    people = oar.Population.from_parquet(where, target="species")
    return oar.Problem(people, model, oar.Query(between(), 2), oar.Perturb(0.5))


def over_rounds(model: Any, rule: Any) -> Any:
    """Return a problem of flowers that arrive in three rounds, after everybody has been there once."""
    features, labels = iris()
    stream = Stream.of_batches(
        [(features[start::3], labels[start::3]) for start in range(3)], history=(features, labels)
    )
    return OnlineProblem(stream, model, rule, oar.Query(between(), 2), oar.Perturb(0.5))


@kind("nearest centroid")
def _(folder: Path) -> Any:
    return flowers(oar.NearestCentroid())


@kind("softmax regression")
def _(folder: Path) -> Any:
    return flowers(LINEAR)


@kind("linear SVM")
def _(folder: Path) -> Any:
    return flowers(LinearSVM(1e-2))


@kind("naive Bayes")
def _(folder: Path) -> Any:
    return flowers(GaussianNaiveBayes())


@kind("ridge regression")
def _(folder: Path) -> Any:
    features, _ = iris()
    people = oar.Population(features[:, :3], features[:, 3])
    return oar.Problem(people, Ridge(1e-2), oar.Query(between()[:3], 2.0, within=0.1), oar.Perturb(0.3))


@kind("prototypes")
def _(folder: Path) -> Any:
    return flowers(PrototypeNetwork())


@kind("MLP")
def _(folder: Path) -> Any:
    return flowers(MLP(hidden=(4,), l2=1e-2))


@kind("custom JAX")
def _(folder: Path) -> Any:
    import jax
    import jax.numpy as jnp

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        return -jax.nn.log_softmax(x @ parameters["W"] + parameters["b"]) @ y

    def outputs(parameters: Any, x: Any) -> Any:
        return x @ parameters["W"] + parameters["b"]

    def penalty(parameters: Any) -> Any:
        return 1e-2 * (jnp.sum(parameters["W"] ** 2) + jnp.sum(parameters["b"] ** 2))

    start = {"W": np.zeros((4, 3)), "b": np.zeros(3)}
    return flowers(Custom(init=start, loss=loss, outputs=outputs, penalty=penalty, convex=True))


@kind("PyTorch")
def _(folder: Path) -> Any:
    from support.torch_modules import linear_layer

    from oar.models import from_torch

    return flowers(from_torch(linear_layer(4, 3), loss="cross-entropy", penalty=2e-2))


@kind("scikit-learn pipeline")
def _(folder: Path) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return flowers(make_pipeline(StandardScaler(), LogisticRegression()))


@kind("random forest")
def _(folder: Path) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return flowers(oar.BlackBox(RandomForestClassifier(n_estimators=10, random_state=0)))


@kind("table, softmax")
def _(folder: Path) -> Any:
    return applicants(Scaled(LINEAR))


@kind("table, centroids")
def _(folder: Path) -> Any:
    return applicants(oar.NearestCentroid())


@kind("Parquet, centroids")
def _(folder: Path) -> Any:
    return in_parts(folder, oar.NearestCentroid())


@kind("Parquet, softmax")
def _(folder: Path) -> Any:
    return in_parts(folder, LINEAR)


@kind("Parquet, behind a scaler")
def _(folder: Path) -> Any:
    return in_parts(folder, Scaled(LINEAR))


@kind("several queries")
def _(folder: Path) -> Any:
    queries = np.array([between(share=share) for share in (0.3, 0.35, 0.4)])
    return flowers(LINEAR, query=oar.Query(queries, 2))


@kind("members who ask")
def _(folder: Path) -> Any:
    return flowers(LINEAR, query=oar.Query(oar.Members([70, 77]), 2))


@kind("relabel")
def _(folder: Path) -> Any:
    return flowers(LINEAR, oar.Relabel(most=15))


@kind("withhold")
def _(folder: Path) -> Any:
    return flowers(LINEAR, oar.Withhold(most=15))


@kind("moves and labels")
def _(folder: Path) -> Any:
    return flowers(LINEAR, [oar.Perturb(0.3), oar.Relabel(most=5)])


@kind("the most useful members")
def _(folder: Path) -> Any:
    return flowers(LINEAR, oar.Perturb(0.8, participants=oar.Best(50)))


@kind("side effects to avoid")
def _(folder: Path) -> Any:
    return flowers(LINEAR, keep=oar.Keep(changed=0.1))


@kind("rounds, centroids")
def _(folder: Path) -> Any:
    return over_rounds(oar.NearestCentroid(), ExponentialMeans(0.5))


@kind("rounds, softmax")
def _(folder: Path) -> Any:
    return over_rounds(LINEAR, FullRefit())


@kind("rounds of a table")
def _(folder: Path) -> Any:
    loans = oar.datasets.german_credit()
    frame = loans.frame.sample(150, random_state=0)
    refused = frame[frame.credit == "bad"].drop(columns="credit").iloc[1]
    people = oar.Population.from_frame(frame, target="credit")
    stream = Stream(people, np.arange(len(frame)) % 3)
    action = oar.Perturb(0.5, norm=1, limits=loans.limits)
    return OnlineProblem(stream, Scaled(LINEAR), FullRefit(), oar.Query(refused, goal="good"), action)

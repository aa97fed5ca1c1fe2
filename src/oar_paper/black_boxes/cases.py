"""The study of models seen from outside: which people, who asks, and which models the operator may have.

Of every data set a seeded sample is trained on. Of the tables a random share takes part, and those ask whom a logistic
regression refuses, at evenly spaced ranks of its probability of the goal; they are not among the people. On MNIST's
embedding everyone takes part, and who asks is the paper's query, between two digits. Tables are seen as coordinates by
every model, so that all learn from the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oar.actions import Perturb
from oar.datasets import adult, german_credit, mnist_embedding
from oar.datasets.dataset import TableDataset
from oar.people import Population
from oar.problem import Query
from oar_paper.case import ALPHA

SHARE = 0.15  # of a table's people who take part: with all of them, every way of planning succeeds


@dataclass(frozen=True, eq=False)
class OutsideCase:
    """A data set, with what members may do and who asks.

    Attributes:
        key, title: its name in files and figures.
        public: people of the same kind who are not trained on: what an outsider could know.
    """

    key: str
    title: str
    people: Population
    public: Population
    action: Perturb
    queries: tuple[Query, ...]


@dataclass(frozen=True)
class Contender:
    """A model of the operator's: how it is made, and whether it can be differentiated through (`known`)."""

    key: str
    title: str
    make: Callable[[], Any]
    known: bool


def contenders() -> tuple[Contender, ...]:
    """Return the models, from the most to the least transparent."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def boosted() -> Any:
        from xgboost import XGBClassifier

        return XGBClassifier(n_estimators=60, max_depth=4, learning_rate=0.15, n_jobs=1)

    return (
        Contender(
            "logistic", "Logistic regression", lambda: make_pipeline(StandardScaler(), LogisticRegression()), True
        ),
        Contender(
            "mlp",
            "MLP (16 tanh units)",
            lambda: make_pipeline(
                StandardScaler(),
                MLPClassifier((16,), "tanh", solver="lbfgs", alpha=1.0, max_iter=400, random_state=0),
            ),
            True,
        ),
        Contender("knn", "15 nearest neighbours", lambda: KNeighborsClassifier(15), False),
        Contender("forest", "Random forest", lambda: RandomForestClassifier(60, min_samples_leaf=3), False),
        Contender("xgboost", "XGBoost", boosted, False),
    )


def german_case(size: int, queries: int, seed: int) -> OutsideCase:
    """Return German credit: those who are refused ask for a good rating; 1 standard deviation, flip or switch each."""
    return _table(german_credit(), "German credit", "good", size, queries, seed)


def adult_case(folder: Path, size: int, queries: int, seed: int) -> OutsideCase:
    """Return Adult, from its files: those who are taken to earn little ask to be taken to earn more."""
    return _table(adult(folder), "Adult", ">50K", size, queries, seed)


def mnist_case(size: int, queries: int, seed: int) -> OutsideCase:
    """Return MNIST's embedding with budgets of 0.5: x† = 0.25 μ_goal + 0.75 μ_source for some pairs of digits."""
    data = mnist_embedding()
    order = np.random.default_rng(seed).permutation(len(data.labels))
    first, second = np.sort(order[:size]), np.sort(order[size : 2 * size])
    means = {label: data.features[data.labels == label].mean(axis=0) for label in np.unique(data.labels)}
    pairs = ((1, 2), (7, 9), (3, 5), (0, 6), (4, 9))[:queries]
    return OutsideCase(
        "mnist",
        "MNIST embedding",
        Population(data.features[first], data.labels[first]),
        Population(data.features[second], data.labels[second]),
        Perturb(0.5),
        tuple(Query(ALPHA * means[goal] + (1 - ALPHA) * means[source], goal=goal) for goal, source in pairs),
    )


def _table(data: TableDataset, title: str, goal: str, size: int, queries: int, seed: int) -> OutsideCase:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    everyone = data.population
    order = np.random.default_rng(seed).permutation(everyone.size)
    known, others = np.sort(order[: min(size, everyone.size // 2)]), order[min(size, everyone.size // 2) :]
    people, rows = everyone.some(known), np.asarray(everyone.features, dtype=np.float64)
    judge = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows[known], people.labels)
    odds = judge.predict_proba(rows[others])[:, list(judge.classes_).index(goal)]
    refused = others[odds < 0.5][np.argsort(odds[odds < 0.5], kind="stable")]
    # From the middle of those who are refused to those who nearly are not: of the worst off nobody could tell anything.
    ranks = np.linspace(0.5, 0.95, queries) * (len(refused) - 1)
    asking = refused[ranks.round().astype(np.intp)]
    public = np.sort(np.setdiff1d(others, asking)[:size])
    features = data.frame.drop(columns=[data.target])
    return OutsideCase(
        data.name.replace(" ", "-"),
        title,
        people,
        everyone.some(public),
        Perturb(budget=1.0, norm=1, limits=data.limits, participants=SHARE, seed=seed),
        tuple(Query(features.loc[everyone.index[row]], goal=goal) for row in asking),
    )

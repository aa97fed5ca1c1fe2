"""Black boxes: estimators that count what is done to them or misbehave, and people who are judged by them."""

from __future__ import annotations

import time

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import oar


class CountedTree(ClassifierMixin, BaseEstimator):
    """A tree, in features that may be turned, that counts its trainings in a list of its owner's."""

    def __init__(self, log, angle=0.0, depth=4, breaks_at=None):
        self.log, self.angle, self.depth, self.breaks_at = log, angle, depth, breaks_at

    def __sklearn_clone__(self):
        return CountedTree(self.log, self.angle, self.depth, self.breaks_at)  # the same list, not a copy of it

    def _turned(self, rows):
        rows = np.asarray(rows, dtype=float)
        turn = np.array([[np.cos(self.angle), -np.sin(self.angle)], [np.sin(self.angle), np.cos(self.angle)]])
        return np.hstack([rows[:, :2] @ turn, rows[:, 2:]])

    def fit(self, rows, labels):
        self.log.append(np.array(rows))
        if self.breaks_at is not None and len(self.log) >= self.breaks_at:
            raise RuntimeError("the cluster is on fire")
        self.tree_ = DecisionTreeClassifier(max_depth=self.depth, random_state=0).fit(self._turned(rows), labels)
        self.classes_ = self.tree_.classes_
        return self

    def predict_proba(self, rows):
        return self.tree_.predict_proba(self._turned(rows))

    def predict(self, rows):
        return self.tree_.predict(self._turned(rows))


class CountedNeighbours(ClassifierMixin, BaseEstimator):
    """Counts every call of every clone; answers as nearest neighbours do."""

    fits: list[tuple[int, int]] = []
    asked: list[int] = []

    def __init__(self, n_neighbors=3):
        self.n_neighbors = n_neighbors

    @classmethod
    def reset(cls):
        cls.fits, cls.asked = [], []

    def fit(self, X, y):
        type(self).fits.append(np.shape(X))
        self._inner = KNeighborsClassifier(self.n_neighbors).fit(self._seen(np.asarray(X)), y)
        self.classes_ = self._inner.classes_
        return self

    def _seen(self, X):
        return X

    def predict_proba(self, X):
        type(self).asked.append(len(X))
        return self._inner.predict_proba(X)

    def predict(self, X):
        type(self).asked.append(len(X))
        return self._inner.predict(X)


class Random(CountedNeighbours):
    """Random, by its seed."""

    def __init__(self, random_state=None, n_neighbors=3):
        self.random_state = random_state
        self.n_neighbors = n_neighbors

    def _seen(self, X):
        return X + np.random.default_rng(self.random_state).normal(0, 0.5, X.shape)


class IgnoresItsSeed(Random):
    """Random whatever its seed."""

    def _seen(self, X):
        return X + np.random.default_rng(time.perf_counter_ns()).normal(0, 1.0, X.shape)


class ChangesItsInputs(CountedNeighbours):
    """Centres the rows that it is given, in place."""

    def fit(self, X, y):
        X -= np.mean(X, axis=0)
        return super().fit(X, y)


class LabelsOnly(BaseEstimator):
    """Has nothing but predict."""

    def fit(self, X, y):
        self._inner = KNeighborsClassifier(3).fit(X, y)

    def predict(self, X):
        return self._inner.predict(X)


class FailsAfter(CountedNeighbours):
    """Cannot be trained more than so many times."""

    left = 3

    def fit(self, X, y):
        if type(self).left <= 0:
            raise MemoryError("the cluster is on fire")
        type(self).left -= 1
        return super().fit(X, y)


def crowd(size=80, seed=0, dimensions=2, noise=0.4):
    """Return two classes, on either side of a line."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(size, dimensions))
    labels = np.where(features[:, :2].sum(axis=1) + noise * rng.normal(size=size) > 0, "yes", "no")
    return oar.Population(features, labels)


def ring(size=90, seed=0):
    """Return a class inside of another: no linear surrogate can represent it."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(size, 2))
    return oar.Population(features, np.where((features**2).sum(axis=1) < 1.0, "in", "out"))


def problem(box, action=None, people=None, query=(-0.7, -0.5), goal="yes", **more):
    people = crowd() if people is None else people
    asked = np.zeros(people.dimensions)
    asked[:2] = query
    return oar.Problem(people, box, oar.Query(asked, goal=goal), oar.Perturb(0.4) if action is None else action, **more)

"""Black boxes for tests: estimators that count their own calls, fail, are slow, or are unlike any surrogate."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.tree import DecisionTreeClassifier

import oar


class Spy(ClassifierMixin, BaseEstimator):
    """A tree, in features that may be turned, that counts its trainings in a list of its owner's."""

    def __init__(self, log, angle=0.0, depth=4, breaks_at=None):
        self.log, self.angle, self.depth, self.breaks_at = log, angle, depth, breaks_at

    def __sklearn_clone__(self):
        return Spy(self.log, self.angle, self.depth, self.breaks_at)  # the same list, not a copy of it

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

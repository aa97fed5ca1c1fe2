"""Estimators that misbehave, or that count what is done to them."""

from __future__ import annotations

import time

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import KNeighborsClassifier


class Spy(ClassifierMixin, BaseEstimator):
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


class Random(Spy):
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


class ChangesItsInputs(Spy):
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


class FailsAfter(Spy):
    """Cannot be trained more than so many times."""

    left = 3

    def fit(self, X, y):
        if type(self).left <= 0:
            raise MemoryError("the cluster is on fire")
        type(self).left -= 1
        return super().fit(X, y)

"""What goes between the benchmark and a peer's process: files in a folder, readable by any version of pandas.

people.csv        everybody, in ranks: an ordinal is the number of its level, booleans are the words True and False
labels.csv        1 for who has the goal, else 0
applicants.csv    for whom counterfactuals are asked
task.json         intercept, and a slope or a weight for each level of each column; immutable columns; seconds allowed
found.csv         counterfactuals, with the number of the applicant; rewritten after each of them
seconds.json      the time that each of the finished applicants took

Peers explain the scikit-learn pipeline through its coefficients rather than through a refit or a pickle: environments
have other versions of scikit-learn, or none, and a wrapper gives all of them the same classifier to the last bits. It
also predicts faster than a pipeline does, which is to the peers' advantage.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pandas as pd


class Task:
    """What a peer is asked, read from a folder."""

    def __init__(self, folder):
        """Read everything."""
        self.folder = Path(folder)
        settings = json.loads((self.folder / "task.json").read_text(encoding="utf-8"))
        self.columns, self.immutable = settings["columns"], settings["immutable"]
        self.intercept, self.allowed = settings["intercept"], settings["seconds"]
        self.numbers = [name for name, column in self.columns.items() if "slope" in column]
        self.words = [name for name, column in self.columns.items() if "levels" in column]
        self.people, self.applicants = (self._table(name) for name in ("people", "applicants"))
        self.labels = pd.read_csv(self.folder / "labels.csv")["label"].to_numpy(int)

    def _table(self, name):
        # "none" is a level here, and True and False are words.
        path = self.folder / f"{name}.csv"
        return pd.read_csv(path, dtype={word: str for word in self.words}, keep_default_na=False)

    def run(self, explain):
        """Ask `explain(number)` for each applicant's counterfactual, a dict or None; write down what took how long.

        No applicant is begun once the time is used up. Only calls of `explain` are on the clock.
        """
        found, seconds = [], []
        for number in range(len(self.applicants)):
            if sum(seconds) > self.allowed:
                break
            began = time.perf_counter()
            answer = explain(number)
            seconds.append(time.perf_counter() - began)
            if answer is not None:
                found.append({"applicant": number, **answer})
            pd.DataFrame(found, columns=["applicant", *self.columns]).to_csv(self.folder / "found.csv", index=False)
            (self.folder / "seconds.json").write_text(json.dumps(seconds), encoding="utf-8")


class FrameClassifier:
    """The classifier on frames in words, in the form of scikit-learn: class 1 has the goal."""

    def __init__(self, task):
        """Keep what is needed of a task."""
        self.task, self.classes_ = task, np.array([0, 1])

    def predict_proba(self, frame):
        """Return (n, 2) probabilities."""
        scores = np.full(len(frame), self.task.intercept)
        for name, column in self.task.columns.items():
            values = frame[name]
            if "slope" in column:
                scores += column["slope"] * values.to_numpy().astype(float)
            else:
                scores += values.astype(object).map(column["levels"]).to_numpy().astype(float)
        return _both(scores)

    def predict(self, frame):
        """Return 1 for who gets the goal."""
        return self.predict_proba(frame).argmax(axis=1)


class CodeClassifier:
    """The classifier on arrays of numbers, in which a word is the number of its level."""

    def __init__(self, task):
        """Lay weights out as arrays."""
        self.intercept = task.intercept
        self.slopes = np.array([column.get("slope", 0.0) for column in task.columns.values()])
        self.levels = {
            place: list(task.columns[name]["levels"]) for place, name in enumerate(task.columns) if name in task.words
        }
        self.weights = {
            place: np.array([task.columns[name]["levels"][level] for level in self.levels[place]])
            for place, name in enumerate(task.columns)
            if place in self.levels
        }
        self.names = list(task.columns)

    def codes(self, frame):
        """Return a frame as numbers."""
        columns = []
        for place, name in enumerate(self.names):
            values = frame[name]
            if place in self.levels:
                values = values.map({level: code for code, level in enumerate(self.levels[place])})
            columns.append(values.to_numpy().astype(float))
        return np.column_stack(columns)

    def row(self, codes):
        """Return one row of codes in words."""
        return {
            name: self.levels[place][int(codes[place])] if place in self.levels else float(codes[place])
            for place, name in enumerate(self.names)
        }

    def predict_proba(self, codes):
        """Return (n, 2) probabilities."""
        scores = self.intercept + codes.astype(float) @ self.slopes
        for place, weights in self.weights.items():
            scores = scores + weights[codes[:, place].astype(int)]
        return _both(scores)


def _both(scores):
    chances = 1 / (1 + np.exp(-scores))
    return np.column_stack([1 - chances, chances])

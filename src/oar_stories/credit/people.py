"""The people of German credit as a world's arrivals, and what individual recourse tells them.

Features are the table's coordinates in cost, as plans of tables have them: a standard deviation of a number is 1 long,
and so is a switch of category (two flags, each divided by √2). Advice is as NICE gives it (Brughmans, Leyman & Martens
2023): of the people who were granted credit and repaid it, the nearest one is looked up, and its columns are copied,
the most useful first, until the deployed model grants credit. What nobody can be asked to change is never copied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.datasets import german_credit
from oar.models import SoftmaxRegression
from oar.people import Population
from oar.worlds.protocol import Array, Caps, Crowd, Deed, Rows, View

BAD, GOOD = 0, 1
GOOD_LABEL = "good"
SAME, NEW = "same people", "new applicants"
OLDER, YOUNGER = "over 25", "25 or younger"
SWITCH = 1 / np.sqrt(2)  # of each of the two flags that a switch of category changes


@dataclass(frozen=True, eq=False)
class Loans:
    """The table, in cost.

    Attributes:
        features: (1000, 52). codes: (1000,), 0 for "bad", 1 for "good". classes: their labels.
        groups: (1000,), by age. names: of the coordinates.
        columns: the coordinates of each column that can be changed.
        drift: (52,), by how much a year makes loans larger and longer: `drift` times this.
    """

    features: Array
    codes: Rows
    classes: tuple[str, ...]
    groups: NDArray[np.str_]
    names: tuple[str, ...]
    columns: tuple[NDArray[np.intp], ...]
    drift: Array

    @property
    def population(self) -> Population:
        """Return them as people."""
        return Population.of_codes(self.features, self.codes, self.classes)


@cache
def loans() -> Loans:
    """Return German credit, in cost."""
    table = german_credit()
    people = table.population
    raw, names = np.asarray(people.features, dtype=np.float64), tuple(people.names or ())
    of_column = [name.split("=")[0] for name in names]
    flags = np.array(["=" in name for name in names])
    whole = {column.name: column.kind == "boolean" for column in table.schema}
    scales = np.where(flags, 1 / SWITCH, np.where([whole[name] for name in of_column], 1.0, raw.std(axis=0)))
    fixed = {name for name, limit in table.limits.columns.items() if limit.immutable}
    changing = [name for name in dict.fromkeys(of_column) if name not in fixed]
    drift = np.array([float(name in ("amount", "duration")) for name in names])
    return Loans(
        features=(raw - raw.mean(axis=0)) / scales,
        codes=people.codes(0, people.size).astype(np.intp),
        classes=people.classes,
        groups=np.where(raw[:, names.index("age")] <= 25, YOUNGER, OLDER),
        names=names,
        columns=tuple(np.flatnonzero([name == column for name in of_column]) for column in changing),
        drift=drift,
    )


@cache
def _best_fit() -> Array:
    return np.asarray(SoftmaxRegression(l2=1e-3).fit(loans().population))[0]


def nature(features: Array) -> Any:
    """Return the labels that the logistic regression of the whole table finds likelier: the oracle's."""
    found = features @ _best_fit()[:-1] + _best_fit()[-1] > 0
    return np.array(loans().classes, dtype=object)[found.astype(np.intp)]


def asking() -> int:
    """Return who asks: somebody who did repay and is refused, more clearly than three quarters of those like that."""
    table = loans()
    scores = table.features @ _best_fit()[:-1] + _best_fit()[-1]
    wronged = np.flatnonzero((scores <= 0) & (table.codes == GOOD))
    return int(wronged[np.argsort(scores[wronged], kind="stable")[wronged.size // 4]])


@dataclass(frozen=True)
class Advised:
    """Applicants whom the model refuses are told what to change, and a share of them does.

    Attributes:
        follow: how many of those who are advised do as they are told; all advice is followed up, whoever took it.
        budget: how far advice may send people, in cost; whoever would have to go further gets none.
    """

    follow: float
    budget: float = 6.0
    name: str = field(default="applicants", init=False)

    @property
    def caps(self) -> Caps:
        """Return what they may do."""
        return Caps(budget=self.budget, norm=2)

    def members(self, crowd: Crowd, number: int, rng: np.random.Generator) -> Rows:
        """Return everyone."""
        return np.arange(crowd.size)

    def act(self, view: View) -> Deed:
        """Look up advice for whom the model refuses, and move those who follow it."""
        rows, weights = view.crowd.features, np.asarray(view.deployed.parameters)[0]
        refused = np.flatnonzero(rows @ weights[:-1] + weights[-1] <= 0)
        moves = np.zeros_like(rows)
        moves[refused] = nearest_granted(rows[refused], view.past[-1], weights, loans().columns)
        moves[np.linalg.norm(moves, axis=1) > self.budget] = 0.0
        advised = moves.any(axis=1)
        promised = np.where(advised, GOOD, -1).astype(np.intp)
        follows = advised & (view.rng.random(len(rows)) < self.follow)
        note = {"refused": int(refused.size), "advised": int(advised.sum()), "followed": int(follows.sum())}
        return Deed(moves=np.where(follows[:, None], moves, 0.0), advice=(rows + moves, promised), note=note)


def nearest_granted(rows: Array, people: Population, weights: Array, columns: tuple[NDArray[np.intp], ...]) -> Array:
    """Return moves (m, d) to what a linear model grants, by copying columns of the nearest who was granted and repaid.

    Of a linear model what a column adds to the logit does not depend on the others, so that the most useful ones first
    are the fewest that do. 0 for who is not granted credit even with all of them.
    """
    features = np.asarray(people.features)
    granted = features[(features @ weights[:-1] + weights[-1] > 0) & (people.codes(0, people.size) == GOOD)]
    moves = np.zeros_like(rows)
    if not len(granted) or not len(rows):
        return moves
    squares = (rows**2).sum(axis=1)[:, None] - 2 * rows @ granted.T + (granted**2).sum(axis=1)
    toward = granted[squares.argmin(axis=1)] - rows
    gains = np.stack([toward[:, places] @ weights[:-1][places] for places in columns], axis=1)
    order = np.argsort(-gains, axis=1, kind="stable")
    missing = -(rows @ weights[:-1] + weights[-1])
    reached = np.cumsum(np.take_along_axis(gains, order, axis=1), axis=1) > missing[:, None]
    count = np.where(reached.any(axis=1), reached.argmax(axis=1) + 1, 0)
    copied = np.argsort(order, axis=1) < count[:, None]
    for number, places in enumerate(columns):
        moves[:, places] = np.where(copied[:, [number]], toward[:, places], 0.0)
    return moves

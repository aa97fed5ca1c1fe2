"""Students of the school district, who act alone before they are assigned, or together after it.

A class applies and is assigned by the model that is deployed. A year later it is on record who succeeded where, and
students report their activities again; that is what the model is retrained on.

Individual action is before the assignment: high-achieving 𝒩₂ students whom the model refuses take up activities, as few
hours as it takes. Collective action is after it: students of ℋ₁ report fewer hours than they have, never fewer than
nought. Whose hours count is either a rule of thumb, the same hours for all of them, or what OAR's signal says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oar.people import Population
from oar.worlds.collective import CollectiveView
from oar.worlds.deployed.predictions import predictions
from oar.worlds.policies.immediate import slopes_of
from oar.worlds.protocol import Array, Caps, Crowd, Deed, Rows, View
from oar_stories.class_probability import chances
from oar_stories.school.people import ACHIEVEMENT, ACTIVITIES, H1, N2, SCHOOLS, SchoolDistrict

FIRST = SCHOOLS.index(H1)
LEAST = 1e-12  # of a chance, so that its odds are finite
STEP = 0.25  # hours: nobody counts in minutes
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Applicants:
    """High-achieving 𝒩₂ students, each for itself: whom the model would refuse takes up hours before it applies.

    Attributes:
        hours: how many may be taken up: the budget. share: of these students, how many think of it.
        high: achievement from which on a student is called high-achieving.
        since: the year in which they begin to act, 0, 1, ….
    """

    hours: float = 4.0
    share: float = 0.7
    high: float = 7.0
    since: int = 1
    name: str = field(default="applicants", init=False)
    before_decision = True

    @property
    def caps(self) -> Caps:
        """Return what they may do: hours within the budget."""
        return Caps(budget=self.hours)

    def members(self, crowd: Crowd, number: int, rng: np.random.Generator) -> Rows:
        """Return who thinks of it."""
        return np.flatnonzero(high_second(crowd, self.high) & (rng.random(crowd.size) < self.share))

    def act(self, view: View) -> Deed:
        """Take up the fewest hours that suffice, or none."""
        rows = view.crowd.features[view.mine]
        moves = np.zeros_like(rows)
        if view.number < self.since:
            return Deed()
        refused = ~assigned_first(view, rows)
        for steps in range(steps_within(self.hours), 0, -1):  # downwards, so that the least remains
            enough = refused & assigned_first(view, with_hours(rows, steps * STEP))
            moves[enough, ACTIVITIES] = steps * STEP
        return Deed(moves=moves)


@dataclass(frozen=True)
class TheSameForAll:
    """All members leave out the same hours, as few as it takes until a refit gives activities no weight.

    Attributes:
        district: where they live. since: the year in which they begin to act, 0, 1, ….
    """

    district: SchoolDistrict
    since: int = 1

    def __call__(self, view: CollectiveView) -> Deed:
        """Return what members leave out."""
        if view.number < self.since:
            return Deed()
        return fewest(view, self.district, np.ones(view.mine.size, dtype=bool))


@dataclass(frozen=True)
class BySignal:
    """Members whose hours OAR's signal asks for leave hours out; for all others it is best to stay.

    The signal is that of `oar.worlds.OneShot`: the goal loss of those who ask, differentiated through the operator's
    own next update. Of all moves only one is open to members: fewer hours. The best answer within the budget is then to
    leave out all of it where the loss grows with one's hours, and nothing elsewhere. That is `in_full`; else they
    leave out as few hours as it takes until a refit gives activities no weight: the goal loss alone would go on until
    activities count against people.

    Attributes:
        district: where they live. since: the year in which they begin to act, 0, 1, ….
        in_full: whether everyone who is asked leaves out the whole budget.
    """

    district: SchoolDistrict
    since: int = 1
    in_full: bool = False

    def __call__(self, view: CollectiveView) -> Deed:
        """Return what members leave out."""
        if view.number < self.since or not view.mine.size:
            return Deed()
        asked = slopes_of(view)[:, ACTIVITIES] > 0  # the loss grows with their hours
        if self.in_full:
            return Deed(moves=left_out(view, asked, view.collective.caps.budget))
        return fewest(view, self.district, asked)


def left_out(view: CollectiveView, who: Mask, hours: float) -> Array:
    """Return the moves (m, d) of members who leave out so many hours, or all they have."""
    rows = view.crowd.features[view.mine]
    moves = np.zeros_like(rows)
    moves[:, ACTIVITIES] = np.where(who, -np.minimum(hours, rows[:, ACTIVITIES]), 0.0)
    return moves


def fewest(view: CollectiveView, district: SchoolDistrict, who: Mask) -> Deed:
    """Return what these members do: all leave out as few hours as it takes until a refit gives activities no weight.

    How few is found by refits, which are the operator's own: halving the steps between none and the budget, because
    the weight of activities falls with every hour that successful students of ℋ₁ leave out. If the budget is not
    enough, it is the budget.
    """
    seed = int(view.rng.integers(2**32))

    def still_counts(steps: int) -> bool:
        features = view.crowd.features.copy()
        features[view.mine] += left_out(view, who, steps * STEP)
        people = Population.of_codes(features, view.crowd.codes, SCHOOLS)
        rng = np.random.default_rng(seed)
        state = view.operator.retrain(view.deployed, people, view.number, lambda _: people, rng)
        return per_hour(view.operator.model, state.parameters, district) > 0

    return Deed(moves=left_out(view, who, STEP * first_that_suffices(still_counts, view.collective.caps.budget)))


def steps_within(budget: float) -> int:
    """Return how many steps a budget of hours allows."""
    return int(budget / STEP + 1e-9)  # what is a whole number but for rounding is one


def first_that_suffices(too_few: Callable[[int], bool], budget: float) -> int:
    """Return the least number of steps that are not too few, by bisection; the most that the budget allows if none."""
    least, most = 0, steps_within(budget)
    while least < most:
        middle = (least + most) // 2
        least, most = (middle + 1, most) if too_few(middle) else (least, middle)
    return most


def high_second(crowd: Crowd, high: float) -> Mask:
    """Return who is a high-achieving student of 𝒩₂."""
    return np.asarray((crowd.groups == N2) & (crowd.features[:, ACHIEVEMENT] >= high))


def assigned_first(view: View, features: Array) -> Mask:
    """Return whom the deployed model assigns to ℋ₁."""
    return predictions(view.operator.model, view.deployed.parameters, features) == FIRST


def with_hours(features: Array, more: float) -> Array:
    """Return features with so many more hours of activities."""
    moved = features.copy()
    moved[:, ACTIVITIES] += more
    return moved


def per_hour(model: object, parameters: object, district: SchoolDistrict) -> float:
    """Return what a weekly hour of activities adds to the log-odds of ℋ₁, for a student at the bar.

    Of a linear model that is its weight, whoever the student is; of others it is taken around the mean student.
    """
    middle = sum(district.hours) / 2
    points = np.array([[district.bar, middle - 0.5], [district.bar, middle + 0.5]])
    first = np.clip(chances(model, parameters, points, FIRST), LEAST, 1 - LEAST)
    odds = np.log(first) - np.log(1 - first)
    return float(odds[1] - odds[0])

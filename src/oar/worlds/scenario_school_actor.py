"""What a year's class does: apply, go to school, and hand in what the district will train on.

A class applies with its features and is assigned by the model that is deployed. `guided` of the places go by that
assignment, all others by address. A year later it is on record who succeeded where, and students report their
activities again; that is what the model is retrained on.

Individual action is before the assignment: high-achieving 𝒩₂ students whom the model refuses take up activities, as few
hours as it takes. Collective action is after it: students of ℋ₁ report fewer hours than they have, as few fewer as it
takes until a refit gives activities no weight, and never below nought.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oar.people import Population
from oar.worlds.judging import predictions
from oar.worlds.parts import Array, Caps, Crowd, Deed, Rows, View
from oar.worlds.scenario_chance import chances
from oar.worlds.scenario_school_people import ACHIEVEMENT, ACTIVITIES, H1, N2, SCHOOLS, SchoolDistrict

FIRST = SCHOOLS.index(H1)
LEAST = 1e-12  # of a chance, so that its odds are finite
STEP = 0.25  # hours: nobody counts in minutes
WAYS = ("nobody", "individual", "collective")
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Students:
    """The class of a year, as one actor: what all of them report, and what is on record of them.

    Attributes:
        district: where they live.
        way: "nobody", "individual" or "collective": who acts.
        hours: how far one's hours may be changed: the budget.
        share: of those who could act, how many do.
        guided: share of places that go by the model; all others go by address.
        high: achievement from which on a student is called high-achieving.
        since: the year in which they begin to act, 0, 1, ….
    """

    district: SchoolDistrict
    way: str = "nobody"
    hours: float = 4.0
    share: float = 0.7
    guided: float = 0.5
    high: float = 7.0
    since: int = 1
    name: str = field(default="students", init=False)

    @property
    def caps(self) -> Caps:
        """Return what they may do: hours within the budget, and any record, for that is how labels come about here."""
        return Caps(budget=self.hours, norm=2, labels=self.district.per_round)

    def members(self, crowd: Crowd, number: int, rng: np.random.Generator) -> Rows:
        """Return everyone."""
        return np.arange(crowd.size)

    def act(self, view: View) -> Deed:
        """Apply, attend, report."""
        crowd, rng = view.crowd, view.rng
        drawn = rng.random((2, crowd.size))  # whose place goes by the model, and who takes part; in every way the same
        by_address = self.district.by_address(crowd, rng)
        acting = view.number >= self.since
        willing = drawn[1] < self.share
        moves = self.taken_up(view, willing) if acting and self.way == "individual" else np.zeros(crowd.size)
        applied = with_hours(crowd.features, moves)
        attends = np.where(drawn[0] < self.guided, assigned_first(view, applied), by_address)
        codes = self.district.on_record(crowd, attends)
        if acting and self.way == "collective":
            moves = self.left_out(view, attends & willing, codes)
        deltas = np.zeros_like(crowd.features)
        deltas[:, ACTIVITIES] = moves
        return Deed(moves=deltas if moves.any() else None, codes=codes, note={"acting": int((moves != 0).sum())})

    def taken_up(self, view: View, willing: Mask) -> Array:
        """Return the hours (n,) that refused high-achieving 𝒩₂ students take up: the least that suffice, or none."""
        crowd, tried = view.crowd, np.arange(STEP, self.hours + STEP / 2, STEP)
        hours = np.zeros(crowd.size)
        refused = np.flatnonzero(willing & high_second(crowd, self.high) & ~assigned_first(view, crowd.features))
        for more in tried[::-1]:  # from the most to the least, so that the least is what remains
            enough = assigned_first(view, with_hours(crowd.features[refused], np.full(refused.size, more)))
            hours[refused[enough]] = more
        return hours

    def left_out(self, view: View, members: Mask, codes: Rows) -> Array:
        """Return by how much (n,) members change the hours that they report: down, by as little as it takes.

        How much it takes is found by refits: halving the steps between none and the budget, because the weight of
        activities falls with every hour that ℋ₁'s students leave out.
        """
        hours = view.crowd.features[:, ACTIVITIES]
        seed = int(view.rng.integers(2**32))

        def changed(steps: int) -> Array:
            return np.where(members, -np.minimum(steps * STEP, hours), 0.0)

        def still_counts(steps: int) -> bool:
            people = Population.of_codes(with_hours(view.crowd.features, changed(steps)), codes, SCHOOLS)
            rng = np.random.default_rng(seed)
            state = view.operator.retrain(view.deployed, people, view.number, lambda _: people, rng)
            return per_hour(view.operator.model, state.parameters, self.district) > 0

        least, most = 0, int(self.hours / STEP + 1e-9)
        while least < most:
            middle = (least + most) // 2
            least, most = (middle + 1, most) if still_counts(middle) else (least, middle)
        return changed(most)


def high_second(crowd: Crowd, high: float) -> Mask:
    """Return who is a high-achieving student of 𝒩₂."""
    return np.asarray((crowd.groups == N2) & (crowd.features[:, ACHIEVEMENT] >= high))


def assigned_first(view: View, features: Array) -> Mask:
    """Return whom the deployed model assigns to ℋ₁."""
    return predictions(view.operator.model, view.deployed.parameters, features) == FIRST


def with_hours(features: Array, more: Array) -> Array:
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

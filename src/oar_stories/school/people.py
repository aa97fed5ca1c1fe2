"""The school district of the paper's introduction: two neighbourhoods, two high schools, and a proxy.

What causes what:

    neighbourhood ──▶ activities            𝒩₁ has the sports facilities
    achievement   ──▶ success in ℋ₁         whoever is well prepared gets through its Advanced Placement courses
    neighbourhood ──▶ school attended ──▶ what is on record

Achievement is distributed alike in both neighbourhoods, and activities have no effect on success: given achievement,
they are independent of it. They nevertheless predict what is *on record*, the label that the district trains on: ℋ₁
for who attended ℋ₁ and succeeded, ℋ₂ for everybody else. Most of 𝒩₂ never had the chance, so activities, a sign of the
neighbourhood, are a sign of the record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from oar.errors import OptionError
from oar.people import Population
from oar.worlds.protocol import Array, Crowd, Rows

N1, N2 = "N1", "N2"
SCHOOLS = H1, H2 = ("H1", "H2")
FEATURES = ("achievement", "activities")  # grade points from 0 to 10; hours a week
ACHIEVEMENT, ACTIVITIES = 0, 1


@dataclass(frozen=True)
class SchoolDistrict:
    """Yearly classes of students, of whom it depends on the deployed model which school they attend.

    Who arrives has the truth as its code, ℋ₁ for who would succeed there, and its neighbourhood as its group. Once the
    model has assigned schools, the code is what is on record, and the group is the school attended.

    Attributes:
        per_round: students a year.
        grades: mean and standard deviation of achievement, in both neighbourhoods; cut off at 0 and 10.
        hours: mean weekly hours of activities in 𝒩₁ and in 𝒩₂; skewed as counts are, and never below 0.
        bar: achievement at which success in ℋ₁ is an even chance.
        luck: standard deviation of what else decides success, in grade points.
        transfers: share of 𝒩₂ that attends ℋ₁ where schools are chosen by address; all of 𝒩₁ does.
        guided: share of places that go by the model; all others go by address.
    """

    per_round: int = 400
    grades: tuple[float, float] = (6.5, 1.4)
    hours: tuple[float, float] = (8.0, 3.0)
    bar: float = 6.0
    luck: float = 0.6
    transfers: float = 0.2
    guided: float = 0.5

    classes = SCHOOLS
    names = FEATURES
    dimensions = len(FEATURES)
    fresh = True

    def __post_init__(self) -> None:
        """Refuse what is no district."""
        if isinstance(self.per_round, bool) or not isinstance(self.per_round, int) or self.per_round < 20:
            raise OptionError(f"people: must be a whole number of at least 20 students a year, got {self.per_round!r}.")
        for name in ("transfers", "guided"):
            if not 0 <= getattr(self, name) <= 1:
                raise OptionError(f"{name}: must be a share from 0 to 1, got {getattr(self, name)!r}.")
        if not (min(self.hours) > 0 and self.luck > 0 and self.grades[1] > 0):
            raise OptionError("hours, luck and the spread of grades must be above 0.")

    def draw(self, number: int, rng: np.random.Generator) -> Crowd:
        """Return the class of a year: everyone is somebody new."""
        size = self.per_round
        second = rng.random(size) < 0.5
        achievement = np.clip(rng.normal(*self.grades, size), 0, 10)
        # Gamma: mean and skew as counts of weekly hours have them; shape 9 in 𝒩₁, 3 in 𝒩₂, where most have few.
        hours = np.where(second, rng.gamma(3, self.hours[1] / 3, size), rng.gamma(9, self.hours[0] / 9, size))
        succeeds = achievement + rng.normal(0, self.luck, size) > self.bar
        return Crowd(
            features=np.column_stack([achievement, hours]),
            codes=np.where(succeeds, SCHOOLS.index(H1), SCHOOLS.index(H2)).astype(np.intp),
            classes=SCHOOLS,
            groups=np.where(second, N2, N1),
            persons=np.arange(size) + number * size,
            names=FEATURES,
        )

    def label(self, features: Array, crowd: Crowd, rows: Rows, number: int, rng: np.random.Generator) -> Rows:
        """Return the label at these features: one's own where achievement is as it was, else the likelier one.

        Nobody is on record as a success in ℋ₁ who attends ℋ₂.
        """
        first = (features[:, ACHIEVEMENT] > self.bar) & (crowd.groups[rows] != H2)
        likelier = np.where(first, SCHOOLS.index(H1), SCHOOLS.index(H2))
        same = features[:, ACHIEVEMENT] == crowd.features[rows, ACHIEVEMENT]
        return np.where(same, crowd.codes[rows], likelier).astype(np.intp)

    def decided(self, crowd: Crowd, predicted: Rows, number: int, rng: np.random.Generator) -> Crowd:
        """Return the class as it is on record once it went to the schools that the model or its address gave it."""
        guided = rng.random(crowd.size) < self.guided
        attends = np.where(guided, predicted == SCHOOLS.index(H1), self.by_address(crowd, rng))
        return replace(crowd, codes=self.on_record(crowd, attends), groups=np.where(attends, H1, H2))

    def by_address(self, crowd: Crowd, rng: np.random.Generator) -> np.ndarray:
        """Return who attends ℋ₁ where addresses decide: all of 𝒩₁, and of 𝒩₂ those who transfer."""
        return (crowd.groups == N1) | (rng.random(crowd.size) < self.transfers)

    def on_record(self, crowd: Crowd, attends_first: np.ndarray) -> Rows:
        """Return the labels that the district sees: ℋ₁ for who attended it and succeeded, ℋ₂ for everybody else."""
        first, second = SCHOOLS.index(H1), SCHOOLS.index(H2)
        return np.where(attends_first & (crowd.codes == first), first, second).astype(np.intp)

    def history(self, rng: np.random.Generator, classes: int = 1) -> Population:
        """Return the last classes before there was a model: schools by address, labels as on record."""
        crowds = [self.draw(0, rng) for _ in range(classes)]
        codes = [self.on_record(crowd, self.by_address(crowd, rng)) for crowd in crowds]
        features = np.concatenate([crowd.features for crowd in crowds])
        return Population.of_codes(features, np.concatenate(codes), SCHOOLS)

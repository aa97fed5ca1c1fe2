"""The school district's settings, and the worlds that they make: one an arm, which differ in who acts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oar.actions import Perturb
from oar.checks import choose
from oar.defences import ClippedInfluence
from oar.errors import OptionError
from oar.models import NearestCentroid, SoftmaxRegression
from oar.online import Window
from oar.problem import Query
from oar.worlds.collective import Collective
from oar.worlds.operators.plain import Operator
from oar.worlds.people.random_streams import stream
from oar.worlds.world import World
from oar_stories.school.actors import Applicants, BySignal, TheSameForAll, high_second
from oar_stories.school.people import H1, N2, SchoolDistrict

MODELS = {"softmax": lambda: SoftmaxRegression(l2=1e-3), "nearest-centroid": NearestCentroid}
STUDENTS = "students"  # the collective's name
STAND_INS = 40  # who asks for those of years to come
ENOUGH = 0.5  # of them, how many must be assigned to ℋ₁


@dataclass(frozen=True)
class Arm:
    """An arm of the experiment: who acts, and whether the operator defends itself."""

    name: str
    way: str
    defended: bool
    words: str


NOBODY, INDIVIDUALS = "nobody", "individuals"
SIGNAL, SIGNAL_IN_FULL, ALIKE = "signal", "signal in full", "alike"  # how a collective acts
ARMS = (
    Arm("nobody", NOBODY, False, "nobody acts"),
    Arm("individual", INDIVIDUALS, False, "individuals act"),
    Arm("collective", SIGNAL, False, "collective acts"),
    Arm("collective, in full", SIGNAL_IN_FULL, False, "collective, up to its budget"),
    Arm("collective, all alike", ALIKE, False, "collective, all alike"),
    Arm("defended", SIGNAL, True, "collective, district defends"),
    Arm("defended, all alike", ALIKE, True, "all alike, district defends"),
    Arm("defended, nobody", NOBODY, True, "nobody acts, district defends"),
)


@dataclass(frozen=True)
class SchoolSettings:
    """The settings of the school district.

    Attributes:
        rounds: years. people: students a year. repeats: districts that are simulated, each with its own seed.
        share: of those who could act, how many do. budget: by how many weekly hours each may change its activities.
        since: the year, counted from 1, in which acting begins.
        model: "softmax" or "nearest-centroid". window: classes that a refit reads, the newest.
        guided: share of places that go by the model; all others go by address. transfers: share of 𝒩₂ that attends
            ℋ₁ where addresses decide.
        most: how hard the defence is (`oar.defences.ClippedInfluence`): the lower, the harder.
    """

    rounds: int = 12
    people: int = 600
    repeats: int = 8
    share: float = 0.7
    budget: float = 4.0
    since: int = 3
    model: str = "softmax"
    window: int = 2
    guided: float = 0.5
    transfers: float = 0.2
    high: float = 7.0
    most: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for name, least in (("rounds", 2), ("people", 20), ("repeats", 1), ("since", 1), ("window", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise OptionError(f"--{name}: must be a whole number of at least {least}, got {value!r}.")
        for name in ("share", "guided", "transfers"):
            if not 0 <= getattr(self, name) <= 1:
                raise OptionError(f"--{name}: must be a share from 0 to 1, got {getattr(self, name)!r}.")
        if not 0 <= self.budget < float("inf"):
            raise OptionError(f"--budget: must be a number of at least 0, got {self.budget!r}.")
        choose("--model", self.model, MODELS)

    @property
    def district(self) -> SchoolDistrict:
        """Return where students live."""
        return SchoolDistrict(per_round=self.people, transfers=self.transfers, guided=self.guided)

    def query(self, seed: int) -> Query:
        """Return who asks: high-achieving 𝒩₂ students of another class, for those of years to come."""
        crowd = self.district.draw(0, stream(seed, "stand-ins"))
        asking = crowd.features[high_second(crowd, self.high)]
        if not len(asking):
            raise OptionError(f"--people: must be enough for a high-achieving student in {N2}, got {self.people}.")
        return Query(asking[:STAND_INS], goal=H1, share=ENOUGH)

    def world(self, arm: Arm, seed: int) -> World:
        """Return an arm's world."""
        district, query = self.district, self.query(seed)
        together = [Collective(STUDENTS, query, Perturb(self.budget), share=self.share, who=H1)]
        alone = [Applicants(hours=self.budget, share=self.share, high=self.high, since=self.since - 1)]
        acts_together = self.policy(arm) is not None
        return World(
            arrivals=district,
            operator=Operator(
                MODELS[self.model](),
                Window(self.window),
                defence=ClippedInfluence(self.most) if arm.defended else None,
            ),
            collective=together if acts_together else None,
            others=alone if arm.way == INDIVIDUALS else [],
            query=None if acts_together else query,
            labels="keep",  # hours have no effect on success, so what is on record does not depend on them
            history=district.history(stream(seed, "history"), self.window),
        )

    def policy(self, arm: Arm) -> Any:
        """Return what an arm's collective does; None where there is none."""
        district, since = self.district, self.since - 1
        policies = {
            SIGNAL: BySignal(district, since),
            SIGNAL_IN_FULL: BySignal(district, since, in_full=True),
            ALIKE: TheSameForAll(district, since),
        }
        return policies.get(arm.way)

"""The school district, year by year: nobody acts, individuals act, a collective acts, and the district defends itself.

Every arm is one world with the same students and the same chances; what differs is who acts, and whether the operator
defends itself. All numbers are read off the rounds of `oar.worlds.simulate`, whose models are real refits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.defences import ClippedInfluence
from oar.errors import OptionError, choose
from oar.models import NearestCentroid, SoftmaxRegression
from oar.worlds.judging import predictions
from oar.worlds.operator import Operator
from oar.worlds.parts import Array, Crowd
from oar.worlds.record import Round
from oar.worlds.scenario import OnStage, Scenario, Told, averages
from oar.worlds.scenario_school_actor import FIRST, Mask, Students, high_second, per_hour
from oar.worlds.scenario_school_people import ACHIEVEMENT, ACTIVITIES, H1, N1, SchoolDistrict
from oar.worlds.simulate import simulate
from oar.worlds.streams import stream
from oar.worlds.world import World

MODELS = {"softmax": lambda: SoftmaxRegression(l2=1e-3), "nearest-centroid": NearestCentroid}
MEASURES = ("share", "share_N1", "accuracy", "per_hour", "acting", "hours")


@dataclass(frozen=True)
class Arm:
    """Who acts, and whether the operator defends itself."""

    name: str
    way: str
    defended: bool
    words: str


ARMS = (
    Arm("nobody", "nobody", False, "nobody acts"),
    Arm("individual", "individual", False, "individuals act"),
    Arm("collective", "collective", False, "collective acts"),
    Arm("defended", "collective", True, "collective acts, district defends"),
    Arm("defended, nobody", "nobody", True, "nobody acts, district defends"),
)


@dataclass(frozen=True)
class SchoolSettings:
    """What can be set.

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
        return SchoolDistrict(per_round=self.people, transfers=self.transfers)

    def world(self, arm: Arm, seed: int) -> World:
        """Return an arm's world."""
        district = self.district
        return World(
            arrivals=district,
            operator=Operator(
                MODELS[self.model](),
                window_rule(self.window),
                defence=ClippedInfluence(self.most) if arm.defended else None,
            ),
            others=[
                Students(
                    district,
                    arm.way,
                    hours=self.budget,
                    share=self.share,
                    guided=self.guided,
                    high=self.high,
                    since=self.since - 1,
                )
            ],
            labels="keep",  # nobody is labelled by the world: students hand in what is on record, whatever they move
            history=district.history(stream(seed, "history"), self.window),
        )


def window_rule(window: int) -> Any:
    """Return the rule that refits on the newest classes."""
    from oar.online import Window

    return Window(window)


@dataclass(frozen=True, eq=False)
class Year:
    """One class of one arm, to be drawn.

    Attributes:
        crowd: as they are. reported: (n, 2), as they handed it in. assigned: who was assigned to ℋ₁.
        parameters: of the model that assigned them. share: of high-achieving 𝒩₂ that it assigned to ℋ₁.
    """

    crowd: Crowd
    reported: Array
    assigned: Mask
    parameters: Any
    share: float


@dataclass(frozen=True, eq=False)
class Played:
    """An arm of the first district, to be drawn: its model, and its years."""

    model: Any
    years: tuple[Year, ...]


def run_school(settings: SchoolSettings, seed: int, on_stage: OnStage) -> Told:
    """Run every arm in several districts."""
    from oar.worlds.draw_school import draw_school, draw_school_year

    rows: list[dict[str, Any]] = []
    played: dict[str, Played] = {}
    steps, done = len(ARMS) * settings.repeats, 0
    for repeat in range(settings.repeats):
        for arm in ARMS:
            on_stage(f"district {repeat + 1}: {arm.words}", done, steps)
            world = settings.world(arm, 1000 * seed + repeat)
            years = []
            for each in simulate(world, None, rounds=settings.rounds, seed=1000 * seed + repeat):
                year, measured = seen(each, world.operator.model, arm, settings)
                rows.append({"arm": arm.name, "repeat": repeat, "year": each.number + 1, **measured})
                years.append(year)
            if not repeat:
                played[arm.name] = Played(world.operator.model, tuple(years))
            done += 1
    on_stage("drawing", steps, steps)
    means = averages(rows, ("arm", "year"), MEASURES)
    facts = {
        "arms": {
            arm.name: {
                "about": arm.words,
                "years": [{"year": year, **means[arm.name, year]} for year in range(1, settings.rounds + 1)],
            }
            for arm in ARMS
        }
    }
    return Told(
        rows=rows,
        facts=facts,
        header=("arm", "share of high-achieving N2 in H1", "activities' weight", "accuracy", "acting", "hours each"),
        lines=[_line(arm, means[arm.name, settings.rounds]) for arm in ARMS],
        summary=_summary(settings, means),
        still=lambda: draw_school(settings, means, played),
        film=lambda number: draw_school_year(settings, played, number),
        frames=settings.rounds,
    )


def seen(played: Round, model: Any, arm: Arm, settings: SchoolSettings) -> tuple[Year, dict[str, Any]]:
    """Return a year to be drawn, and what is measured of it: of how the class was assigned by the model it met."""
    crowd, (students,) = played.crowd, played.acts
    moves = np.zeros_like(crowd.features) if students.deed.moves is None else students.deed.moves
    reported = crowd.features + moves
    # Individuals change before they apply; a collective after it was assigned.
    applied = reported if arm.way == "individual" else crowd.features
    parameters = played.deployed.parameters
    assigned = predictions(model, parameters, applied) == FIRST
    plainly = predictions(model, parameters, crowd.features) == FIRST
    second = high_second(crowd, settings.high)
    first = (crowd.groups == N1) & (crowd.features[:, ACHIEVEMENT] >= settings.high)
    hours = np.abs(moves[:, ACTIVITIES])
    measured = {
        "share": _mean(assigned[second]),
        "share_N1": _mean(assigned[first]),
        "accuracy": _mean(plainly == (crowd.codes == FIRST)),
        "per_hour": per_hour(model, parameters, settings.district),
        "acting": _mean(hours > 0),
        "hours": _mean(hours[hours > 0]),
    }
    return Year(crowd, reported, assigned, parameters, measured["share"]), measured


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _line(arm: Arm, measured: Mapping[str, Any]) -> tuple[str, ...]:
    mean = {name: part["mean"] for name, part in measured.items()}
    low, high = measured["share"]["least"], measured["share"]["greatest"]
    return (
        arm.words,
        f"{mean['share']:.0%} ({low:.0%} to {high:.0%})",
        f"{mean['per_hour']:+.2f}".replace("-", "−"),
        f"{mean['accuracy']:.0%}",
        f"{mean['acting']:.0%}",
        f"{mean['hours']:.1f}" if mean["acting"] else "–",
    )


def _summary(settings: SchoolSettings, means: Mapping[Any, Any]) -> list[str]:
    """Say what came out, and what did not."""
    last = {arm.name: means[arm.name, settings.rounds] for arm in ARMS}

    def of(arm: str, what: str = "share") -> float:
        return float(last[arm][what]["mean"])

    said = [
        f"In year {settings.rounds}, {of('nobody'):.0%} of high-achieving N2 students are assigned to {H1} if nobody "
        f"acts, {of('individual'):.0%} if individuals do, {of('collective'):.0%} if {H1}'s students under-report "
        f"together, and {of('defended'):.0%} if the district defends itself against that."
    ]
    weight = f"{of('individual', 'per_hour'):+.2f} with individual action and {of('collective', 'per_hour'):+.2f} with"
    said.append(
        f"The weight of an hour of activities is {of('nobody', 'per_hour'):+.2f} without action, {weight} collective "
        "action.".replace("-", "−")
    )
    if of("individual") >= of("collective"):
        said.append(
            "Individual action got more of those who asked in; it has to be repeated by every class, and leaves the "
            "proxy in the model."
        )
    if of("collective") <= of("nobody"):
        said.append("Collective action did not raise the share here.")
    if of("defended") >= of("collective"):
        said.append("The defence did not lower the share here.")
    if of("defended, nobody", "accuracy") < of("nobody", "accuracy"):
        said.append(
            f"The defence costs: where nobody acts, accuracy is {of('defended, nobody', 'accuracy'):.0%} with it and "
            f"{of('nobody', 'accuracy'):.0%} without."
        )
    return said


SCHOOL = Scenario(
    "school",
    "the paper's school district: a proxy for the neighbourhood, and students who under-report it together",
    SchoolSettings(),
    {"rounds": 7, "people": 150, "repeats": 2},
    run_school,
)

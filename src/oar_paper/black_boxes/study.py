"""The power that is left to a collective where the operator's model is a black box.

For every data set, model and query the same members with the same limits plan in several ways, and every plan is
judged by the same audit: the operator's own training, as often as it takes where it is random.

    white box          the twin of the model is differentiated through; exact for nearest neighbours
    surrogates         models of another kind, on the people's own data: no true training at all
    public surrogates  the same, trained on other people of the same kind
    search             true trainings alone, from staying put
    both               the same number of them, from the surrogates' plan
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oar.errors import OARError
from oar.estimators import BlackBox
from oar.plans import Result
from oar.plans.plan import MemberPlan
from oar.problem import Problem, Query
from oar.recourse import collective
from oar.referee import audit
from oar.solvers import DirectSearch, ProjectedGradient, Surrogate
from oar_paper.black_boxes.cases import Contender, OutsideCase, adult_case, contenders, german_case, mnist_case

WAYS = ("white box", "surrogates", "public surrogates", "search", "both")


@dataclass(frozen=True)
class OutsideSettings:
    """The settings that, with the data, determine the study.

    Attributes:
        size: how many people are trained on. queries: how many ask, one at a time, of each data set.
        refits: true trainings that a search may use. audits: those that judge random training.
        adult: the folder with Adult's files; None leaves it out.
        models: keys of the models that are studied; all of them where there are none.
    """

    quick: bool
    seed: int
    size: int
    queries: int
    refits: int
    audits: int
    adult: Path | None = None
    models: tuple[str, ...] = ()

    @property
    def contenders(self) -> list[Contender]:
        """The models that are studied."""
        return [one for one in contenders() if one.key in self.models or not self.models]


def outside_settings(
    quick: bool = False, seed: int = 0, refits: int = 40, adult: Path | None = None
) -> OutsideSettings:
    """Return the settings of a full or a quick run."""
    if quick:
        return OutsideSettings(True, seed, 120, 1, min(refits, 8), 4, adult)
    return OutsideSettings(False, seed, 500, 3, refits, 10, adult)


@dataclass(frozen=True)
class Attempt:
    """One plan, audited.

    Attributes:
        data, model, way: of what, in which way. query: which of those who ask.
        before, after: the goal loss. claimed: what its planner expected.
        success: as audited; rate: the share of refits in which the goal is reached, where training is random.
        trainings: true trainings that planning took.
        failure: why there is no plan, or "".
    """

    data: str
    model: str
    way: str
    query: int
    before: float = np.nan
    after: float = np.nan
    claimed: float = np.nan
    success: bool = False
    success_before: bool = False
    rate: float | None = None
    trainings: int = 0
    failure: str = ""


@dataclass(frozen=True)
class Cell:
    """One model on one data set: attempts by way, one for each who asks."""

    data: str
    model: str
    attempts: dict[str, tuple[Attempt, ...]]

    def fall(self, way: str) -> float:
        """Return by how much the goal loss falls on average; NaN where that way is not there."""
        tried = [one for one in self.attempts.get(way, ()) if not one.failure]
        return float(np.mean([one.before - one.after for one in tried])) if tried else np.nan

    def kept(self, way: str) -> float:
        """Return the share of the white box's fall that this way keeps; NaN where there is no white box."""
        whole = self.fall("white box")
        return self.fall(way) / whole if whole > 0 else np.nan

    @property
    def already(self) -> int:
        """The number of those who ask who have their goal before any move."""
        return sum(one.success_before for one in next(iter(self.attempts.values())))

    def successes(self, way: str) -> int:
        """Return for how many of those who ask it succeeds."""
        return sum(one.success for one in self.attempts.get(way, ()))


@dataclass(frozen=True)
class Outside:
    """The whole study."""

    settings: OutsideSettings
    titles: dict[str, str]
    cells: list[Cell]

    @property
    def attempts(self) -> list[Attempt]:
        """All of them, in order."""
        return [one for cell in self.cells for tried in cell.attempts.values() for one in tried]


def outside_stages(settings: OutsideSettings) -> tuple[str, ...]:
    """Return what `find_outside` announces, in order."""
    return tuple(f"{name}: {one.title}" for name in _makers(settings) for one in settings.contenders)


def find_outside(settings: OutsideSettings, on_cell: Callable[[int], None] | None = None) -> Outside:
    """Plan and audit everything; `on_cell(number)` is called before every cell."""
    titles: dict[str, str] = {}
    cells: list[Cell] = []
    for make in _makers(settings).values():
        case = make()
        titles[case.key] = case.title
        for contender in settings.contenders:
            if on_cell is not None:
                on_cell(len(cells))
            titles[contender.key] = contender.title
            cells.append(_cell(case, contender, settings))
    return Outside(settings, titles, cells)


def _makers(settings: OutsideSettings) -> dict[str, Callable[[], OutsideCase]]:
    size, queries, seed = settings.size, settings.queries, settings.seed
    found: dict[str, Callable[[], OutsideCase]] = {
        "German credit": lambda: german_case(size, queries, seed),
        "MNIST embedding": lambda: mnist_case(size, queries, seed),
    }
    if settings.adult is not None:
        folder = settings.adult
        found["Adult"] = lambda: adult_case(folder, size, queries, seed)
    return found


def _cell(case: OutsideCase, contender: Contender, settings: OutsideSettings) -> Cell:
    each = [list(_attempts(case, contender, number, settings)) for number in range(len(case.queries))]
    ways = {one.way: None for tried in each for one in tried}
    return Cell(
        case.key, contender.key, {way: tuple(one for tried in each for one in tried if one.way == way) for way in ways}
    )


def _attempts(case: OutsideCase, contender: Contender, number: int, settings: OutsideSettings) -> Iterator[Attempt]:
    query, seed = case.queries[number], settings.seed
    solvers: dict[str, Any] = {
        "surrogates": Surrogate(seed=seed),
        "public surrogates": Surrogate(public=case.public, seed=seed),
        "search": DirectSearch(refits=settings.refits, start="nothing", seed=seed),
        "both": DirectSearch(refits=settings.refits, seed=seed),
    }

    def attempt(way: str, plan: Callable[[Problem], Result]) -> Attempt:
        problem = _problem(case, contender, query, settings)
        try:
            found = plan(problem)
        except OARError as reason:
            return Attempt(case.key, contender.key, way, number, failure=str(reason))
        told = found.audit
        if told.violations:
            return Attempt(case.key, contender.key, way, number, told.loss_before, failure="; ".join(told.violations))
        return Attempt(
            case.key,
            contender.key,
            way,
            number,
            told.loss_before,
            told.loss,
            found.proposal.claimed_loss,
            told.success,
            told.success_before,
            None if told.rate is None else told.rate.share,
            found.proposal.passes if way in solvers else 0,
        )

    if contender.known or (contender.key == "knn" and case.key == "mnist"):
        yield attempt("white box", lambda problem: _white_box(problem, case, contender, query))
    for way, solver in solvers.items():
        yield attempt(way, lambda problem, solver=solver: collective(problem, solver=solver, progress=False))  # type: ignore[misc]


def _problem(case: OutsideCase, contender: Contender, query: Query, settings: OutsideSettings) -> Problem:
    box = BlackBox(contender.make(), sees="coordinates", refits=settings.audits, seed=settings.seed)
    return Problem(case.people, box, query, case.action)


def _white_box(problem: Problem, case: OutsideCase, contender: Contender, query: Query) -> Result:
    """Return the plan of whoever knows the model, audited like all others."""
    if not contender.known:
        return collective(problem, progress=False)
    known = Problem(case.people, contender.make(), query, case.action)
    quick = ProjectedGradient(restarts=0) if known.limits is None and getattr(known.model, "convex", False) else "auto"
    found = collective(known, solver=quick, progress=False)
    plan = found.plan
    assert isinstance(plan, MemberPlan)
    from dataclasses import replace

    judged = replace(plan, problem=problem, parameters=None, signal=None)
    return Result(problem, replace(found.proposal, plan=judged), audit(judged))

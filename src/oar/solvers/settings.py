"""Solvers as users name them: a string for the default settings, or an immutable bag of settings; and effort.

Effort is one table, `EFFORTS`, that every solver reads where its settings leave a number open. What solves exactly, or
takes a single step, has nothing to try more of: any effort is accepted there, and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from oar.checks import check_flag, check_whole, choose, is_number, is_whole, with_near_names
from oar.errors import DataError, OptionError
from oar.problem import Problem

Settings = TypeVar("Settings")
ENDLESS = 10**9  # steps, which no search takes
SEARCH = {"max_steps": 2_000, "tolerance": 1e-8}  # as `ProjectedGradient` says, where nothing is refitted in a loop


class Usual(int):
    """A default that effort may scale: equal to the number that a user may give, and told from it."""


@with_near_names
@dataclass(frozen=True)
class EffortLevel:
    """The amount of search of solvers where their settings do not set it; explicit settings take precedence.

    Attributes:
        name: what it is called.
        starts: times as many random starts as usual, of moves of members and query.
        fewest_restarts: restarts at the least, where random ones can be made. most_restarts: at the most.
        steps: times as many steps at the most. tolerance: times the usual gap at which a search ends.
        refits: times as many trainings of a black box, and refits to choose labels and leavers.
        plans: how many plans for fewer members `oar.minimal_coalition` makes at the most.
        patience: how many random starts in a row may gain less than a thousandth of the loss before no more are made.
        trials: the name of the effort of plans that only have to tell whether the goal is within reach.
        endless: whether a limit of time, where there is one, takes the place of the number of steps.
        repeats: whether models that are refitted in a loop are first planned for with normal effort, and the search
            continues from there: a thorough plan is then never worse than a normal one.
    """

    name: str
    starts: float = 1.0
    fewest_restarts: int = 0
    most_restarts: float = np.inf
    steps: float = 1.0
    tolerance: float = 1.0
    refits: float = 1.0
    plans: int = 40
    patience: float = np.inf
    trials: str = "quick"
    endless: bool = True
    repeats: bool = False

    def __post_init__(self) -> None:
        """Refuse levels that cannot be."""
        for name in ("starts", "steps", "tolerance", "refits"):
            if not is_number(getattr(self, name)) or not 0 <= getattr(self, name) < np.inf:
                raise DataError(f"{name}: must be a finite number ≥ 0, got {getattr(self, name)!r}.")
        check_whole("fewest_restarts", self.fewest_restarts, 0)
        check_whole("plans", self.plans, 0)
        for name in ("most_restarts", "patience"):
            if not is_number(getattr(self, name)) or not getattr(self, name) >= 0:
                raise DataError(f"{name}: must be a number ≥ 0, got {getattr(self, name)!r}.")
        choose("trials", self.trials, ("quick", "normal", "thorough"))
        check_flag("endless", self.endless)
        check_flag("repeats", self.repeats)

    def loop(self, usual: dict[str, Any], random: bool = True, timed: bool = False) -> dict[str, Any]:
        """Return usual settings of a loop, scaled; `random` says whether random starts can be made.

        Where the time is limited (`timed`), the time ends a search, and not the number of its steps.
        """
        restarts = round(self.starts * usual.get("restarts", 0))
        fewest = self.fewest_restarts if random else 0
        scaled = {
            "max_steps": ENDLESS if timed and self.endless else max(1, round(self.steps * usual["max_steps"])),
            "tolerance": self.tolerance * usual["tolerance"],
            "restarts": int(min(max(restarts, fewest), self.most_restarts)),
        }
        return {name: scaled[name] for name in usual}

    def settled(self, settings: Settings) -> Settings:
        """Return settings with all defaults scaled that the user has not set."""
        scales = {"random_starts": self.starts, "refits": self.refits}
        scaled = {
            name: max(int(name == "refits"), round(scales[name] * value))
            for name, value in vars(settings).items()
            if isinstance(value, Usual) and scales[name] != 1
        }
        return replace(settings, **scaled) if scaled else settings  # type: ignore[type-var]


EFFORTS = {
    level.name: level
    for level in (
        EffortLevel("quick", starts=0, steps=0.5, tolerance=10, refits=1 / 3, plans=3),
        EffortLevel("normal", patience=2),
        EffortLevel(
            "thorough", 4, fewest_restarts=4, steps=2, tolerance=0.1, refits=4, plans=120, repeats=True, trials="normal"
        ),
    )
}


@with_near_names
@dataclass(frozen=True)
class Exact:
    """The exact solver: the global optimum in closed form (nearest centroid)."""


@with_near_names
@dataclass(frozen=True)
class Paper:
    """The paper's heuristic: one gradient, normalised to the budget."""


@with_near_names
@dataclass(frozen=True)
class ProjectedGradient:
    """Projected gradient descent with spectral steps; where models are refitted in the loop, the loss never increases.

    Args:
        max_steps: iterations at the most; for nearest centroid and the query's own move, of each of its two searches.
            None means 2,000; where models are refitted in the loop, 500 for many people and 20 for models with many
            minima.
        tolerance: stop when the gap is at most this times the loss. None means 1e-8; where models are refitted in the
            loop, 1e-7 for few people, 1e-6 for many, and 1e-5 for models with many minima.
        random_starts: for nearest centroid and the query's own move: pairs of random starts in addition to the fixed
            ones.
        restarts: for models that are refitted in the loop: the largest number of random starts in addition to the fixed
            ones; none are added once fourteen starts have all ended in the same loss. None means at most 24 for few
            people (n·d ≤ 2,000) and a linear model; at most 8 for few people and another convex model, and for more
            people (n·d ≤ 20,000) and a linear one; and none elsewhere. With normal effort these are made only where the
            first start does not end with a closed certificate, and only until two in a row gain next to nothing.
        time_limit: for models that are refitted in the loop: seconds after which no further step is begun.
        seed: the seed of the random starts.
    """

    max_steps: int | None = None
    tolerance: float | None = None
    random_starts: int = Usual(8)
    restarts: int | None = None
    time_limit: float = np.inf
    seed: int = 0
    response: ClassVar[str] = "spectral"
    line_search: ClassVar[str] = "armijo"

    def __post_init__(self) -> None:
        """Refuse settings that cannot be."""
        check_settings(self, whole=("max_steps", "random_starts", "seed"))

    @property
    def most_steps(self) -> int:
        """`max_steps`, where nothing is refitted in a loop."""
        return given_settings(self).get("max_steps", 2_000)

    @property
    def smallest_gap(self) -> float:
        """`tolerance`, where nothing is refitted in a loop."""
        return given_settings(self).get("tolerance", 1e-8)


@with_near_names
@dataclass(frozen=True)
class FrankWolfe:
    """Frank-Wolfe steps: every member moves a common share of the way to its best response to the signal.

    Args:
        max_steps: accepted steps at the most. None means 500, and 20 for models with many minima.
        tolerance: stop when the gap is at most this times the loss. None means 1e-5.
        restarts: random starts in addition to the fixed ones; None as in `ProjectedGradient`.
        time_limit: seconds after which no further step is begun.
        seed: the seed of the random starts.
        line_search: the line search for this share, on true refits: "armijo" (the first that lowers the loss enough) or
            "exact" (the best, at about ten times the refits a step).
    """

    max_steps: int | None = None
    tolerance: float | None = None
    restarts: int | None = None
    time_limit: float = np.inf
    seed: int = 0
    line_search: str = "armijo"
    response: ClassVar[str] = "frank-wolfe"

    def __post_init__(self) -> None:
        """Refuse settings that cannot be."""
        check_settings(self, whole=("max_steps", "seed"))
        choose("line_search", self.line_search, ("armijo", "exact"))


@with_near_names
@dataclass(frozen=True)
class OneShot:
    """One signal, one full response, one refit: fast, and keeps most of the gain while budgets are small."""

    response: ClassVar[str] = "frank-wolfe"
    line_search: ClassVar[str] = "armijo"
    max_steps: ClassVar[int] = 1
    tolerance: ClassVar[float] = 0.0
    time_limit: ClassVar[float] = np.inf
    restarts: ClassVar[int] = 0
    seed: ClassVar[int] = 0


def check_settings(settings: Any, whole: tuple[str, ...]) -> None:
    """Refuse settings that cannot be: counts that are no whole numbers, a tolerance or time limit below 0."""
    given = {"restarts": 0, "max_steps": 0, "tolerance": 0.0} | given_settings(settings)
    for name in (*whole, "restarts"):
        value = given.get(name)
        if not is_whole(value) or value < 0:
            raise DataError(f"{name}: must be a whole number ≥ 0, got {value!r}.")
    if not (is_number(given["tolerance"]) and 0 <= given["tolerance"] < np.inf):
        raise DataError(f"tolerance: must be a finite number ≥ 0, got {settings.tolerance!r}.")
    if not is_number(settings.time_limit) or not settings.time_limit >= 0:
        raise DataError(f"time_limit: must be a number of seconds ≥ 0, got {settings.time_limit!r}.")


def given_settings(settings: Any) -> dict[str, Any]:
    """Return what settings do not leave open."""
    return {name: value for name, value in vars(settings).items() if value is not None}


def no_restarts(settings: ProjectedGradient) -> None:
    """Refuse settings of refits in a loop where there are none."""
    if settings.restarts or settings.time_limit < float("inf"):
        raise OptionError(
            "restarts and time_limit: are for refits in a loop, and nothing is refitted in a loop here; leave them out."
        )


def starts_at_random(problem: Problem) -> str:
    """Return why the query's own move is not looked for from random starts, or ""."""
    if problem.limits is not None:
        return "on a table every value is tried instead"
    if problem.several:
        return "several people ask, and none has a move of its own"
    model = problem.model
    if model.linear:
        return f"the query's loss is convex in its own move for {model.name}, and one start is enough"
    return ""


def no_idle_draws(settings: Any, why: str) -> None:
    """Refuse settings of random starts where nothing starts at random; `why` not, or "" where the query's move does."""
    drawn = getattr(settings, "random_starts", 0)
    if why and drawn != ProjectedGradient.random_starts and isinstance(settings, ProjectedGradient):
        raise OptionError(f"random_starts: does nothing here, because {why}; leave it out, got {drawn!r}.")
    if settings.seed != type(settings).seed and not settings.restarts and (why or not drawn):
        because = why or "random_starts is 0"
        raise OptionError(
            f"seed: is that of random starts, of which there are none here, because {because}; leave it out, got "
            f"{settings.seed!r}."
        )

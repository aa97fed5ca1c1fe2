"""Solvers as users name them: a string for the default settings, or an immutable bag of settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.errors import DataError, OptionError, choose, with_near_names
from oar.solvers.black_box.settings import DirectSearch, Surrogate


@with_near_names
@dataclass(frozen=True)
class Exact:
    """The closed-form global optimum (nearest centroid)."""


@with_near_names
@dataclass(frozen=True)
class Paper:
    """The paper's heuristic: one gradient, normalised to the budget."""


@with_near_names
@dataclass(frozen=True)
class ProjectedGradient:
    """Projected gradient with spectral steps; where models are refitted in the loop, the loss never rises.

    Args:
        max_steps: iterations at the most; for nearest centroid and the query's own move, of each of its two searches.
            None means 2,000; where models are refitted in the loop, 500 for many people and 20 for models with many
            minima.
        tolerance: stop when the gap is at most this times the loss. None means 1e-8; where models are refitted in the
            loop, 1e-7 for few people, 1e-6 for many, and 1e-5 for models with many minima.
        random_starts: for nearest centroid and the query's own move: pairs of random starts beside the fixed ones.
        restarts: for models that are refitted in the loop: random starts at the most beside the fixed ones; none are
            added once fourteen starts have all ended in the same loss. None means 24 for few people (n·d ≤ 2,000) and a
            linear model; 8 for few people and another convex model, and for more people (n·d ≤ 20,000) and a linear
            one; and none elsewhere.
        time_limit: for models that are refitted in the loop: seconds after which no further step is begun.
        seed: the seed of the random starts.
    """

    max_steps: int | None = None
    tolerance: float | None = None
    random_starts: int = 8
    restarts: int | None = None
    time_limit: float = np.inf
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings that cannot be."""
        check_settings(self, whole=("max_steps", "random_starts", "seed"))

    @property
    def most_steps(self) -> int:
        """`max_steps`, where nothing is refitted in a loop."""
        return 2_000 if self.max_steps is None else self.max_steps

    @property
    def smallest_gap(self) -> float:
        """`tolerance`, where nothing is refitted in a loop."""
        return 1e-8 if self.tolerance is None else self.tolerance


@with_near_names
@dataclass(frozen=True)
class FrankWolfe:
    """Damped best response: everyone aims at its full move against the signal, and all go a common share of the way.

    Args:
        max_steps: accepted steps at the most. None means 500, and 20 for models with many minima.
        tolerance: stop when the gap is at most this times the loss. None means 1e-5.
        restarts: random starts beside the fixed ones; None as in `ProjectedGradient`.
        time_limit: seconds after which no further step is begun.
        seed: the seed of the random starts.
        line_search: how the share is found, on true refits: "armijo" (the first that lowers the loss enough) or "exact"
            (the best, at about ten times the refits a step).
    """

    max_steps: int | None = None
    tolerance: float | None = None
    restarts: int | None = None
    time_limit: float = np.inf
    seed: int = 0
    line_search: str = "armijo"

    def __post_init__(self) -> None:
        """Refuse settings that cannot be."""
        check_settings(self, whole=("max_steps", "seed"))
        choose("line_search", self.line_search, ("armijo", "exact"))


@with_near_names
@dataclass(frozen=True)
class OneShot:
    """One signal, one full response, one refit: the fast mode, which keeps most of the gain while budgets are small."""


def check_settings(settings: Any, whole: tuple[str, ...]) -> None:
    """Refuse settings that cannot be: counts that are no whole numbers, a tolerance or time limit below 0."""
    for name in (*whole, "restarts"):
        value = getattr(settings, name)
        if value is None and name in ("restarts", "max_steps"):
            continue
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 0:
            raise DataError(f"{name}: must be a whole number ≥ 0, got {value!r}.")
    if settings.tolerance is not None and not (_is_number(settings.tolerance) and 0 <= settings.tolerance < np.inf):
        raise DataError(f"tolerance: must be a finite number ≥ 0, got {settings.tolerance!r}.")
    if not _is_number(settings.time_limit) or not settings.time_limit >= 0:
        raise DataError(f"time_limit: must be a number of seconds ≥ 0, got {settings.time_limit!r}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


Solver = Exact | Paper | ProjectedGradient | FrankWolfe | OneShot | Surrogate | DirectSearch
NAMES: dict[str, type[Solver]] = {
    "exact": Exact,
    "projected-gradient": ProjectedGradient,
    "frank-wolfe": FrankWolfe,
    "one-shot": OneShot,
    "paper": Paper,
    "surrogate": Surrogate,
    "direct-search": DirectSearch,
}


def as_solver(solver: Any, default: Solver, allowed: tuple[type[Solver], ...]) -> Any:
    """Read a solver's name or settings; "auto" and its name are the default. Refuse what this question cannot use."""
    known = {name: kind for name, kind in NAMES.items() if kind in allowed}
    if isinstance(solver, str):
        if solver in NAMES and solver not in known:
            listing = ", ".join(repr(name) for name in ("auto", *known))
            raise OptionError(f"solver: {solver!r} does not apply here; use one of {listing}.")
        name = choose("solver", solver, ["auto", *known])
        return default if name == "auto" or known[name] is type(default) else known[name]()
    if not isinstance(solver, allowed):
        kinds = ", ".join(f"oar.solvers.{kind.__name__}" for kind in allowed)
        raise OptionError(f"solver: must be 'auto', {', '.join(map(repr, known))}, or one of {kinds}; got {solver!r}.")
    return solver

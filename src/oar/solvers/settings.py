"""Solvers as users name them: a string for the default settings, or an immutable bag of settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.errors import DataError, OptionError, choose


@dataclass(frozen=True)
class Exact:
    """The closed-form global optimum (nearest centroid)."""


@dataclass(frozen=True)
class Paper:
    """The paper's heuristic: one gradient, normalised to the budget."""


@dataclass(frozen=True)
class ProjectedGradient:
    """Projected gradient with spectral steps and a non-monotone line search.

    Args:
        max_steps: iterations at the most; for the query's own move, of each of its two searches.
        tolerance: stop when the gap is at most this times the loss.
        random_starts: for the query's own move: pairs of random starts beside the fixed ones.
        seed: the seed of the random starts.
    """

    max_steps: int = 2_000
    tolerance: float = 1e-8
    random_starts: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings that cannot be."""
        for name in ("max_steps", "random_starts", "seed"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 0:
                raise DataError(f"{name}: must be a whole number ≥ 0, got {value!r}.")
        number = isinstance(self.tolerance, int | float | np.number) and not isinstance(self.tolerance, bool)
        if not number or not 0 <= self.tolerance < np.inf:
            raise DataError(f"tolerance: must be a number ≥ 0, got {self.tolerance!r}.")


Solver = Exact | Paper | ProjectedGradient
NAMES: dict[str, type[Solver]] = {"exact": Exact, "projected-gradient": ProjectedGradient, "paper": Paper}


def as_solver(solver: Any, default: Solver, allowed: tuple[type[Solver], ...]) -> Solver:
    """Read a solver's name or settings; "auto" is the default. Refuse what this question cannot use."""
    known = {name: kind for name, kind in NAMES.items() if kind in allowed}
    if isinstance(solver, str):
        if solver in NAMES and solver not in known:
            listing = ", ".join(repr(name) for name in ("auto", *known))
            raise OptionError(f"solver: {solver!r} does not apply here; use one of {listing}.")
        name = choose("solver", solver, ["auto", *known])
        return default if name == "auto" else known[name]()
    if not isinstance(solver, allowed):
        kinds = ", ".join(f"oar.solvers.{kind.__name__}" for kind in allowed)
        raise OptionError(f"solver: must be 'auto', {', '.join(map(repr, known))}, or one of {kinds}; got {solver!r}.")
    return solver

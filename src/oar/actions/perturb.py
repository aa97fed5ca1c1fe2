"""Perturbations of members' own features: each participant i may choose any δ_i with ‖δ_i‖_p ≤ ε_i."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.actions.limits.limit import as_limits
from oar.actions.participation import Best, brief, check_participants, participation_mask
from oar.actions.sets.norms import Allowance, Norm
from oar.checks import with_near_names
from oar.errors import DataError
from oar.people import Population
from oar.people.tables.arrays import row_values
from oar.typing import Budget, LimitsLike, NormLike, Participants

LARGEST_BUDGET = 1e200  # past that, sums of moves overflow


@with_near_names
@dataclass(frozen=True, eq=False)
class Perturb:
    """Bounded moves of the members' own features.

    Args:
        budget: ε, one number for all or one for each person; in the units of the features, or of a table, in cost (a
            standard deviation of a number, a flip, or a switch of category costs 1 unless limits say otherwise).
        norm: 1, 2 or numpy.inf.
        participants: who takes part: None (everyone), a boolean mask, a share between 0 and 1 (drawn at random), a
            group by columns (a dict of columns to a value, a list of values, or a range (lowest, highest) of numbers;
            all of them must match), a function from the Population to a mask, or `oar.Best(m)`, the m most useful ones.
        seed: with a share: the seed of the draw (0 if left out).
        limits: for a table: the limits of its columns, as `oar.Limits`, a mapping of columns to `oar.Limit`, or a TOML
            file. None leaves only the schema's limits: integers stay integers, and categories are switched.

    >>> Perturb(0.5, norm="inf", participants=0.2, seed=7)
    Perturb(budget=0.5, norm=∞, participants=0.2, seed=7)
    """

    budget: Any
    norm: Any = 2
    participants: Participants = None
    seed: int | None = None
    limits: Any = None

    if TYPE_CHECKING:  # what it takes; the fields are what becomes of it

        def __init__(
            self,
            budget: Budget,
            norm: NormLike = 2,
            participants: Participants = None,
            seed: int | None = None,
            limits: LimitsLike = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", Norm.of(self.norm))
        check_participants(self.participants, self.seed)
        object.__setattr__(self, "limits", as_limits(self.limits))
        if is_single_budget(self.budget):
            object.__setattr__(self, "budget", check_budget(self.budget, "budget"))

    def allowance(self, people: Population) -> Allowance:
        """Say what each of these people may do; raises where shapes disagree."""
        mask = participation_mask(self.participants, self.seed, people)
        single = is_single_budget(self.budget)
        budgets = float(self.budget) if single else row_values(self.budget, people.size, people.index, "budget")
        if isinstance(self.participants, Best):  # of whom those count whose data do, and where budgets differ, theirs
            able = (people.row_weights > 0) & (True if mask is None else mask) & (single | (np.asarray(budgets) > 0))
            self.participants.check(int(able.sum()))
        if not single:
            check_budget(np.max(budgets), "budget")
        return Allowance(self.norm, budgets, mask)

    def __repr__(self) -> str:
        words = {"budget": brief, "participants": brief, "limits": lambda limits: f"<{len(limits.columns)} columns>"}
        given = {name: value for name, value in vars(self).items() if value is not None}
        return f"Perturb({', '.join(f'{name}={words.get(name, str)(value)}' for name, value in given.items())})"


def is_single_budget(budget: Any) -> bool:
    """Report whether this is one number rather than one for each person."""
    try:
        return np.ndim(budget) == 0
    except ValueError:  # rows of different lengths
        return False


def check_budget(budget: Any, argument: str) -> float:
    """Return a budget as a float; raise unless it is a finite number ≥ 0."""
    try:
        if isinstance(budget, bool | str):
            raise TypeError
        value = float(budget)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{argument}: must be a number ≥ 0 (or one for each person), got {budget!r}.") from None
    if not 0.0 <= value <= LARGEST_BUDGET:
        raise DataError(f"{argument}: must be finite and ≥ 0 (and at most {LARGEST_BUDGET:g}), got {budget}.")
    return value

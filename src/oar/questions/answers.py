"""Answers to what people really ask, each with an audited result that shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oar.errors import Status
from oar.plans import Result


@dataclass(frozen=True, eq=False)
class BudgetAnswer:
    """How far each participant must be able to go.

    Attributes:
        value: the infimum of the budgets that suffice: any larger one does, and at the value itself the goal at
            best ties. Where budgets differ between people: the factor on all of them. inf if impossible.
        status: ACHIEVED (audited just above the value), ALREADY (no move is needed), or IMPOSSIBLE (proved).
        binding: the class that is beaten last, or None.
        explanation: the answer in words.
        result: the audited collective result just above the value; None if impossible.
    """

    value: float
    status: Status
    binding: Any
    explanation: str
    result: Result | None

    def __float__(self) -> float:
        """The value."""
        return self.value


@dataclass(frozen=True, eq=False)
class CoalitionAnswer:
    """How few members suffice at the given budget, and who.

    Attributes:
        size: the least number of members; None if even all eligible ones do not suffice.
        by_class: how many of each class.
        members: (n,) mask of such a coalition; a Series for a DataFrame.
        status: ACHIEVED (audited), ALREADY (no member is needed), or IMPOSSIBLE (proved).
        explanation: the answer in words.
        result: the audited collective result of just these members; None if impossible.
    """

    size: int | None
    by_class: dict[Any, int]
    members: Any
    status: Status
    explanation: str
    result: Result | None

    def __int__(self) -> int:
        """The size; raises if there is none."""
        if self.size is None:
            raise ValueError(f"no coalition suffices: {self.explanation}")
        return self.size


@dataclass(frozen=True, eq=False)
class ShareAnswer:
    """From which share of participants on the collective does better than the individual at the same budget.

    A share is one of each class's reach (members' weights times budgets): of heads, where those are equal.

    Attributes:
        share: if this share of each class's eligible members takes part, the collective's exact loss equals the
            individual's; any larger share does strictly better. None if all eligible members do worse.
        at_most: the share that would be enough even if the individual's loss were as low as its proved bound; None
            if all eligible members would not be. Equal to `share` where the individual's optimum is proved.
        goal_share: the share above which the collective reaches the goal itself; None if all do not.
        status: ACHIEVED (audited with whole members), or IMPOSSIBLE.
        explanation: the answer in words.
        individual: the audited individual result.
        result: the audited collective result with that share, rounded up to whole members; None if impossible.
    """

    share: float | None
    at_most: float | None
    goal_share: float | None
    status: Status
    explanation: str
    individual: Result
    result: Result | None

    def __float__(self) -> float:
        """The share; raises if there is none."""
        if self.share is None:
            raise ValueError(f"there is no break-even: {self.explanation}")
        return self.share

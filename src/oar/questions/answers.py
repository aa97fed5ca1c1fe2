"""Answers to what people really ask, each with an audited result that shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oar.errors import OptionError, Status
from oar.pictures.notebook import ShownAsText
from oar.plans import Result


@dataclass(frozen=True, eq=False)
class BudgetAnswer(ShownAsText):
    """The answer to how far each participant must be able to go.

    Attributes:
        value: where `exact`, the infimum of the budgets that suffice: any larger one does, and at the value itself the
            goal at best ties. Otherwise the smallest budget that was found to suffice. Where budgets differ between
            people: the factor on all of them. inf if impossible, or if none was found.
        status: ACHIEVED (audited, where `exact` just above the value), ALREADY (no move is needed), IMPOSSIBLE
            (proved), or NOT_FOUND.
        binding: the class that is beaten last, or None.
        explanation: the answer in words.
        result: the audited collective result at the value, or just above it; None if impossible. Where none was found
            to suffice, that of the largest budget which was tried.
        at_least: a budget that is proved to be needed: none below it reaches the goal. 0 where nothing is proved.
        exact: whether `at_least` is proved to be the value itself, to six digits.
    """

    value: float
    status: Status
    binding: Any
    explanation: str
    result: Result | None
    at_least: float = 0.0
    exact: bool = False

    def __str__(self) -> str:
        """The answer in words."""
        return self.explanation

    def __float__(self) -> float:
        """The value."""
        return self.value


@dataclass(frozen=True, eq=False)
class CoalitionAnswer(ShownAsText):
    """The answer to how few members suffice at the given budget, and who they are.

    Attributes:
        size: the least number of members, or where that is not `exact`, the least that was found; None if even all
            eligible ones do not suffice.
        by_class: how many of each class; empty where values are regressed.
        members: (n,) mask of such a coalition; a Series for a DataFrame.
        status: ACHIEVED (audited), ALREADY (no member is needed), IMPOSSIBLE (proved), or NOT_FOUND.
        explanation: the answer in words.
        result: the audited collective result of just these members; None if impossible. Where no coalition was found to
            suffice, that of all eligible members.
        at_least: how many members are proved to be needed; 0 where none is.
        exact: whether the size is proved to be the least.
    """

    size: int | None
    by_class: dict[Any, int]
    members: Any
    status: Status
    explanation: str
    result: Result | None
    at_least: int = 0
    exact: bool = False

    def __str__(self) -> str:
        """The answer in words."""
        return self.explanation

    def __int__(self) -> int:
        """The size; raises if there is none."""
        if self.size is None:
            raise OptionError(f"no coalition suffices: {self.explanation}")
        return self.size


@dataclass(frozen=True, eq=False)
class ShareAnswer(ShownAsText):
    """From which share of participants on the collective does better than the individual at the same budget.

    For nearest centroid on plain features a share is one of each class's reach (members' weights times budgets): of
    heads, where those are equal. Elsewhere members of each class are drawn at random, and it is a share of heads.

    Attributes:
        share: for nearest centroid on plain features: if this share of each class's eligible members takes part, the
            collective's exact loss equals that of the individual's best move found; any larger share does strictly
            better. Elsewhere: the smallest share that was found to do strictly better. None if all eligible members do
            worse, or were not found to do better.
        at_most: the share that would be enough even if the individual's loss were as low as its proved bound; None
            if all eligible members would not be. Equal to `share` where the individual's optimum is proved.
        goal_share: the share above which the collective reaches the goal itself, or the smallest that was found to;
            None if all do not.
        status: ACHIEVED (audited with whole members), IMPOSSIBLE, or NOT_FOUND.
        explanation: the answer in words.
        individual: the audited individual result.
        result: the audited collective result with that share, rounded up to whole members; None if impossible. Where
            no share was found to do, that of all eligible members.
        exact: whether both optima that are compared are proved: the collective's and the individual's.
    """

    share: float | None
    at_most: float | None
    goal_share: float | None
    status: Status
    explanation: str
    individual: Result
    result: Result | None
    exact: bool = False

    def __str__(self) -> str:
        """The answer in words."""
        return self.explanation

    def __float__(self) -> float:
        """The share; raises if there is none."""
        if self.share is None:
            raise OptionError(f"there is no break-even: {self.explanation}")
        return self.share

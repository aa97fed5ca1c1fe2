"""Goals that are more than one label or one value, as a query states them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from oar.checks import with_near_names
from oar.errors import DataError


@with_near_names
@dataclass(frozen=True, init=False)
class AnyBut:
    """A goal: any class but these.

    >>> AnyBut("rejected")
    AnyBut('rejected')
    """

    labels: tuple

    def __init__(self, *labels: Any) -> None:
        if not labels:
            raise DataError("AnyBut: must name at least one label that will not do, got none.")
        object.__setattr__(self, "labels", labels)

    def __repr__(self) -> str:
        return f"AnyBut({', '.join(map(repr, self.labels))})"


@with_near_names
@dataclass(frozen=True)
class Between:
    """A goal for models that predict values: a range, its ends included; None is an open end.

    With two ends, plans aim at the middle. With one, they aim past it by one standard deviation of the people's own
    values, and gain nothing beyond that.

    >>> Between(low=10.0)
    Between(low=10.0, high=None)
    """

    low: float | ArrayLike | None = None
    high: float | ArrayLike | None = None

    def __post_init__(self) -> None:
        if self.low is None and self.high is None:
            raise DataError("Between: must have a low or a high end, got neither.")


@dataclass(frozen=True)
class GoalText:
    """A goal in words, as it is published where it is more than one label or value."""

    text: str

    def __repr__(self) -> str:
        return self.text


@with_near_names
@dataclass(frozen=True, eq=False)
class Members:
    """Query subjects who are members themselves, and are predicted at the features that they contribute.

    A member's move then changes both the model and that member's own features. With `stay`, they do not take part, and
    are predicted at their unmoved features; as query subjects they are not counted as bystanders. Without `Members`, a
    query is a separate person, even if it equals somebody's row.

    Args:
        who: a boolean mask of the people, positions, or of a DataFrame labels of its index.
        stay: whether they do not move.
    """

    who: ArrayLike | Mapping[str, object]
    stay: bool = False

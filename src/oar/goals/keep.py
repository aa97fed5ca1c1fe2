"""Bounds on side effects: which predictions may change or be lost, and how much worse a model may get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.checks import is_number, with_near_names
from oar.errors import DataError, OptionError
from oar.goals.held_out import HeldOutData, held_out_people
from oar.people import Population
from oar.people.groups import grouped
from oar.typing import Frame, Groups, PeopleLike

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@with_near_names
@dataclass(frozen=True, eq=False)
class Keep:
    """Limits on a plan's side effects; the audit checks them, and no plan that breaks them is a success.

    Args:
        changed: the largest share of the bystanders whose predicted class may change. Bystanders are the people whose
            own data do not change, and who are not query subjects (`oar.Members`).
        lost: of those with the goal's prediction, the largest share who may lose it: among the movers, predicted at
            their moved features, and among the bystanders, each of the two separately.
        groups: with `changed` or `lost`: a column's name, several names, or one value for each person; then the limit
            holds for every group separately.
        worse: the largest fall of accuracy, or rise of the mean squared error where values are predicted.
        held_out: with `worse`: the people on whom the model is scored, an `oar.Population` or for a table a DataFrame
            with its target; None means the unmoved people themselves.

    >>> Keep(changed=0.01, worse=0.005)
    Keep(changed=0.01, worse=0.005)
    >>> Keep(lost=0.05)
    Keep(lost=0.05)
    """

    changed: float | None = None
    worse: float | None = None
    groups: Any = None
    held_out: Any = None
    lost: float | None = None

    if TYPE_CHECKING:  # what it takes; the fields are what becomes of it

        def __init__(
            self,
            changed: float | None = None,
            worse: float | None = None,
            groups: Groups | None = None,
            held_out: PeopleLike | Frame | None = None,
            lost: float | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Refuse limits that cannot be, and settings that would do nothing."""
        if self.changed is None and self.worse is None and self.lost is None:
            raise OptionError("Keep: must limit something, got neither changed nor lost nor worse.")
        for name in ("changed", "lost"):
            share = getattr(self, name)
            if share is not None and not (is_number(share) and 0 <= share <= 1):
                raise DataError(f"{name}: must be a share between 0 and 1, got {share!r}.")
        if self.worse is not None and not (is_number(self.worse) and 0 <= self.worse < np.inf):
            raise DataError(f"worse: must be a number ≥ 0, got {self.worse!r}.")
        for name, needed in (("groups", ("changed", "lost")), ("held_out", ("worse",))):
            if getattr(self, name) is not None and all(getattr(self, one) is None for one in needed):
                raise OptionError(f"{name}: is only used with {' or '.join(needed)}; give that too, or leave it out.")

    def resolved(self, people: Population, regresses: bool) -> SideEffectLimits:
        """Read groups and held-out people; raise where they do not fit the people."""
        for name in ("changed", "lost"):
            if regresses and getattr(self, name) is not None:
                raise OptionError(f"{name}: counts predicted classes, and values are predicted here; use worse.")
        group = None if self.groups is None else grouped(people, self.groups)
        scored = None if self.held_out is None else held_out_people(people, regresses, self.held_out)
        return SideEffectLimits(self, group, scored)

    def __repr__(self) -> str:
        """Show what was set, data by their size."""
        said = {"changed": self.changed, "lost": self.lost, "worse": self.worse}
        parts = [f"{name}={value}" for name, value in said.items() if value is not None]
        if self.groups is not None:
            parts.append(f"groups={self.groups!r}" if isinstance(self.groups, str) else "groups=…")
        if self.held_out is not None:
            parts.append("held_out=…")
        return f"Keep({', '.join(parts)})"


class SideEffects(NamedTuple):
    """The predictions of everyone, before and after a plan; nobody who asks as `oar.Members` counts.

    Attributes:
        stays, moves: (n,) who is a bystander, and whose data change.
        changed: (n,) whose predicted class changes, at their own features as they were.
        had, has: (n,) who is predicted what is asked for: before, and after it where their own moves take them.
    """

    stays: Mask
    moves: Mask
    changed: Mask
    had: Mask
    has: Mask


class SideEffectLimits(NamedTuple):
    """Limits with their people: everyone's group as a Series, or None; and who is scored, or None for the people."""

    limits: Keep
    group: Any
    scored: HeldOutData | None

    def broken(self, seen: SideEffects, before: float, after: float) -> list[str]:
        """Return what is broken, in words, from everyone's predictions.

        Scores before and after are accuracies, or mean squared errors with their signs turned: higher is better.
        """
        limits, stays = self.limits, seen.stays
        found = []
        if limits.changed is not None:
            found += self._over(limits.changed, stays, seen.changed, "the bystanders", "change")
        if limits.lost is not None:
            loses = seen.had & ~seen.has
            for who, inside in (("movers", seen.moves), ("bystanders", stays)):
                named = f"the {who} who had a prediction that is asked for"
                found += self._over(limits.lost, inside & seen.had, loses, named, "are lost")
        if limits.worse is not None and before - after > limits.worse:
            found.append(f"the model gets worse by {before - after:.4g}, limit {limits.worse:g}")
        return found

    def _over(self, limit: float, inside: Mask, hit: Mask, who: str, what: str) -> list[str]:
        """Say which groups of those inside (n,) are hit (n,) in a larger share than the limit."""
        found = []
        for name, part in self._parts(inside):
            share = float(hit[part].mean()) if part.any() else 0.0
            if share > limit:
                found.append(f"predictions of {share:.2%} of {who}{name} {what}, limit {limit:.2%}")
        return found

    def _parts(self, inside: Mask) -> list[tuple[str, Mask]]:
        if self.group is None:
            return [("", inside)]
        values = self.group.to_numpy(dtype=object)
        named = f"{self.group.name} = " if self.group.name else ""
        return [(f" with {named}{value}", inside & (values == value)) for value in self.group.unique()]


class Anchors(NamedTuple):
    """People whom a plan is to leave as they are predicted: rows (a, d), targets (a, o), and how much that counts."""

    rows: Array
    targets: Array
    weight: float

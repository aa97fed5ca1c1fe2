"""What a plan must not do to others: how many predictions may change, and how much worse the model may get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.actions.limits import is_number
from oar.errors import DataError, OptionError, with_near_names
from oar.goals.held_out import HeldOut, held_out_people
from oar.people import Population
from oar.people.grouping import grouped

Array = NDArray[np.float64]


@with_near_names
@dataclass(frozen=True, eq=False)
class Keep:
    """Limits on a plan's side effects; the audit checks them, and no plan that breaks them is a success.

    Args:
        changed: the share of the bystanders whose predicted class may change, at most. Bystanders are the people whose
            own data stay as they are, and who do not ask as `oar.Members`.
        groups: with `changed`: a column's name, several names, or one value for each person; then the limit holds for
            every group by itself.
        worse: by how much accuracy may fall, or the mean squared error rise where values are predicted.
        held_out: with `worse`: the people by whom the model is scored, an `oar.Population` or of a table a DataFrame
            with its target; None means the people themselves, as they were before any move.

    >>> Keep(changed=0.01, worse=0.005)
    Keep(changed=0.01, worse=0.005)
    """

    changed: float | None = None
    worse: float | None = None
    groups: Any = None
    held_out: Any = None

    def __post_init__(self) -> None:
        """Refuse limits that cannot be, and settings that would do nothing."""
        if self.changed is None and self.worse is None:
            raise OptionError("Keep: must limit something, got neither changed nor worse.")
        if self.changed is not None and not (is_number(self.changed) and 0 <= self.changed <= 1):
            raise DataError(f"changed: must be a share between 0 and 1, got {self.changed!r}.")
        if self.worse is not None and not (is_number(self.worse) and 0 <= self.worse < np.inf):
            raise DataError(f"worse: must be a number ≥ 0, got {self.worse!r}.")
        for name, needed in (("groups", "changed"), ("held_out", "worse")):
            if getattr(self, name) is not None and getattr(self, needed) is None:
                raise OptionError(f"{name}: is only used with {needed}; give that too, or leave it out.")

    def resolved(self, people: Population, regresses: bool) -> Kept:
        """Read groups and held-out people; raise where they do not fit the people."""
        if regresses and self.changed is not None:
            raise OptionError("changed: counts predicted classes, and values are predicted here; use worse.")
        group = None if self.groups is None else grouped(people, self.groups)
        scored = None if self.held_out is None else held_out_people(people, regresses, self.held_out)
        return Kept(self, group, scored)

    def __repr__(self) -> str:
        """Show what was set, data by their size."""
        said = {"changed": self.changed, "worse": self.worse}
        parts = [f"{name}={value}" for name, value in said.items() if value is not None]
        if self.groups is not None:
            parts.append(f"groups={self.groups!r}" if isinstance(self.groups, str) else "groups=…")
        if self.held_out is not None:
            parts.append("held_out=…")
        return f"Keep({', '.join(parts)})"


class Kept(NamedTuple):
    """Limits with their people: everyone's group as a Series, or None; and who is scored, or None for the people."""

    limits: Keep
    group: Any
    scored: HeldOut | None

    def broken(self, changed: NDArray[np.bool_], stays: NDArray[np.bool_], before: float, after: float) -> list[str]:
        """Return what is broken, in words, from whose predicted class changes (n,) and who is a bystander (n,).

        Scores before and after are accuracies, or mean squared errors with their signs turned: higher is better.
        """
        found, limits = [], self.limits
        if limits.changed is not None:
            for name, inside in self._parts(stays):
                share = float(changed[inside].mean()) if inside.any() else 0.0
                if share > limits.changed:
                    found.append(
                        f"predictions of {share:.2%} of the bystanders{name} change, limit {limits.changed:.2%}"
                    )
        if limits.worse is not None and before - after > limits.worse:
            found.append(f"the model gets worse by {before - after:.4g}, limit {limits.worse:g}")
        return found

    def _parts(self, stays: NDArray[np.bool_]) -> list[tuple[str, NDArray[np.bool_]]]:
        if self.group is None:
            return [("", stays)]
        values = self.group.to_numpy(dtype=object)
        named = f"{self.group.name} = " if self.group.name else ""
        return [(f" with {named}{value}", stays & (values == value)) for value in self.group.unique()]


class Anchors(NamedTuple):
    """People whom a plan is to leave as they are predicted: rows (a, d), targets (a, o), and how much that counts."""

    rows: Array
    targets: Array
    weight: float

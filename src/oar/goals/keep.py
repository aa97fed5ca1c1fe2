"""Bounds on side effects: which predictions may change or be lost, and how much worse a model may get."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.checks import check_that, is_number, is_text, with_near_names
from oar.errors import OptionError
from oar.goals.held_out import HeldOutData, held_out_people
from oar.models.training import Array
from oar.people import Population
from oar.people.groups import grouped
from oar.typing import Frame, Groups, PeopleLike

Mask = NDArray[np.bool_]
SHARE = 1.0, "a share between 0 and 1"
BOUNDS = {"changed": SHARE, "lost": SHARE, "worse": (sys.float_info.max, "a number ≥ 0")}  # the largest, in words


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
    groups: Groups | None = None
    held_out: PeopleLike | Frame | None = None
    lost: float | None = None

    def __post_init__(self) -> None:
        given = self.given
        if given.keys().isdisjoint(BOUNDS):
            raise OptionError("Keep: must limit something, got neither changed nor lost nor worse.")
        for name, (most, what) in BOUNDS.items():
            bound = given.get(name, 0.0)
            check_that(is_number(bound) and 0 <= bound <= most, name, what, bound)
        for name, needed in (("groups", ("changed", "lost")), ("held_out", ("worse",))):
            if name in given and given.keys().isdisjoint(needed):
                raise OptionError(f"{name}: is only used with {' or '.join(needed)}; give that too, or leave it out.")

    @property
    def given(self) -> dict[str, Any]:
        """The settings that say something, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def resolved(self, people: Population, regresses: bool) -> SideEffectLimits:
        """Read groups and held-out people; raise where they do not fit the people."""
        for name in ("changed", "lost"):
            if regresses and name in self.given:
                raise OptionError(f"{name}: counts predicted classes, and values are predicted here; use worse.")
        group = None if self.groups is None else grouped(people, self.groups)
        scored = None if self.held_out is None else held_out_people(people, regresses, self.held_out)
        return SideEffectLimits(self, group, scored)

    def __repr__(self) -> str:
        said = {name: getattr(self, name) for name in BOUNDS}
        said |= {"groups": repr(self.groups) if is_text(self.groups) else "…", "held_out": "…"}
        return f"Keep({', '.join(f'{name}={value}' for name, value in said.items() if name in self.given)})"


class SideEffects(NamedTuple):
    """The predictions of everyone, before and after a plan; nobody who asks as `oar.Members` counts."""

    stays: Mask  # stays, moves: (n,) who is a bystander, and whose data change
    moves: Mask
    changed: Mask  # (n,) whose predicted class changes, at their own features as they were
    had: Mask  # had, has: (n,) who is predicted what is asked for: before, and after it where their own moves take them
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
        changed, lost, worse = (self.limits.given.get(name, np.inf) for name in BOUNDS)
        found = self._over(changed, seen.stays, seen.changed, "the bystanders", "change")
        for who, inside in (("movers", seen.moves), ("bystanders", seen.stays)):
            named = f"the {who} who had a prediction that is asked for"
            found += self._over(lost, inside & seen.had, seen.had & ~seen.has, named, "are lost")
        if before - after > worse:
            found.append(f"the model gets worse by {before - after:.4g}, limit {worse:g}")
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

"""A plan that changes labels, or has members leave, beside moves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError
from oar.people.wording import counted
from oar.plans.cards.card import Card
from oar.plans.moves.table_out import lever_cells
from oar.plans.plan import MemberPlan
from oar.retraining.contribution import Contribution


@dataclass(frozen=True, eq=False, repr=False)
class LeverPlan(MemberPlan):
    """Everyone's move, everyone's label, and who leaves.

    Attributes:
        targets: class shares (n, k) in the order of the classes, or values (n, m) where those are regressed.
        away: (n,), who takes its data away.
    """

    targets: NDArray[np.float64] = None  # type: ignore[assignment]  # fields before it have defaults
    away: NDArray[np.bool_] = None  # type: ignore[assignment]

    def contribution(self) -> Contribution:
        """Return what everyone hands in if all do as planned: moves, targets and weights."""
        weights = np.where(self.away, 0.0, self.problem.people.row_weights)
        return replace(super().contribution(), targets=self.targets, weights=weights)

    def labels(self) -> Any:
        """Return everyone's label after the plan, as labels were given: one a person, or rows of shares or values.

        Soft labels that are planned for people with single labels are rows, with a column for each class. With the
        caller's index, where there was one.
        """
        people, rows = self.problem.people, self.targets
        if not people.has_label_rows:
            if self.problem.regresses:
                return people.column(rows[:, 0].copy())
            if np.isin(rows, (0.0, 1.0)).all():
                return people.column(people.relabelled(rows.argmax(axis=1).astype(np.int32)))
        if people.index is None:
            return rows.copy()
        import pandas

        columns = range(rows.shape[1]) if self.problem.regresses else list(people.classes)
        return pandas.DataFrame(rows.copy(), index=people.index, columns=columns)

    def leavers(self) -> Any:
        """Return who leaves: n booleans, a Series where there is an index."""
        return self.problem.people.column(self.away.copy())

    def lever_cells(self) -> list[Any]:
        """Return the rows of `changes` that are about labels and leavers, by the positions of people."""
        return lever_cells(self, self.targets, self.away)

    def _actors(self) -> list[str]:
        people = self.problem.people
        labels = people.target_rows(self.problem.regresses)
        relabelled, leavers = int((labels != self.targets).any(axis=1).sum()), int(self.away.sum())
        return [
            *super()._actors(),
            counted(relabelled, "label changes", "labels change"),
            counted(leavers, "member leaves", "members leave"),
        ]

    def card(self) -> Card:
        """Refuse: a card tells members how to move, and nothing else."""
        raise DataError(
            "plan: it changes labels or has members leave, which a card cannot tell; hand members their rows of "
            "plan.moves(), plan.labels() and plan.leavers()."
        )

    def followed(self, card: Card) -> MemberPlan:
        """Refuse, as there is no card for such a plan."""
        raise DataError("card: must belong to a plan of moves alone, and this plan also changes labels or weights.")

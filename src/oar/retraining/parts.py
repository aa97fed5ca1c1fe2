"""Retraining on people who are not in memory: what they hand in are rows in parts, and every refit reads them.

Moves may be an array, or rows in parts (`oar.people.parts.rows`), as a plan hands them out; so may targets. Weights,
and who acts, are one number a person. What is computed is what `OwnTraining` computes, in memory of O(chunk) beside.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.models.training import Array
from oar.people.parts.population import StreamedPopulation
from oar.people.parts.rows import RowsInParts, formula_of
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import OwnTraining, TrainedRefit


class RefitInParts(TrainedRefit):
    """A refit to people in parts, which predicts for rows in parts, too."""

    def predict(self, rows: Any) -> NDArray[Any]:
        """Return class codes or values, of an array of people (m, d) or of everyone."""
        predict = super().predict
        return rows.each(predict) if isinstance(rows, RowsInParts) else predict(rows)


class TrainingInParts(OwnTraining):
    """Retraining by a model's own training, whose passes are sums over parts."""

    kind = RefitInParts

    @property
    def people(self) -> StreamedPopulation:
        """Everybody."""
        return self.problem.people  # type: ignore[return-value]

    @cached_property
    def before(self) -> Contribution:
        """What people hand in as they are."""
        still: Any = self.features * 0.0
        return Contribution(still, self.people.target_rows(self.problem.regresses), self.people.row_weights)

    def trainable(self, contribution: Contribution, least: float = 0.0) -> bool:
        """Report the same; where everyone hands in the same labels as before, nothing is read."""
        return contribution.beyond(self.before).only_moves or super().trainable(contribution, least)

    def _rows(self, targets: Any) -> Any:
        model: Any = self.problem.model
        rows = RowsInParts(self.people, formula_of(targets), targets.shape[1])
        return rows.made(partial(_compared, model), width=len(self.problem.goal_target))


def _compared(model: Any, rows: Array) -> Array:
    return np.ascontiguousarray(model.target_rows(rows))

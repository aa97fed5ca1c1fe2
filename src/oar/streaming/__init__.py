"""People who are not in memory: refits, signals and responses as sums over parts, each read where it is."""

from __future__ import annotations

from typing import Any

from oar.actions.sets.norms import Allowance
from oar.models.wrap.scaled import Scaled
from oar.people.parts.population import StreamedPopulation
from oar.streaming.passes import SignalPath, Spec, Stride
from oar.streaming.training import NOBODY_MOVES, StreamedTraining

__all__ = ["Spec", "Stride", "StreamedTraining", "SignalPath", "training_in_parts"]


def training_in_parts(model: Any, people: StreamedPopulation, allowance: Allowance = NOBODY_MOVES) -> Any:
    """Bind a model to people in parts; what a signal path's steps are projected into is `allowance`."""
    if model.plain_means:
        from oar.streaming.centroids import CentroidsInParts

        return CentroidsInParts(model, people)
    if isinstance(model, Scaled):
        from oar.streaming.scaled import ScaledInParts

        return ScaledInParts(model, people, allowance)
    return StreamedTraining(model, people, allowance)

"""A model bound to the people of a round, with θ in the units of the features as given, so that rounds can share it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError
from oar.models import Centroids, Scaled
from oar.models.linear.losses import Linear
from oar.online.rules.protocol import Update
from oar.online.training.given_units import FeatureUnits
from oar.online.training.padding import PaddedTraining, gains, padded
from oar.people import Population

Array = NDArray[np.float64]


def bind(model: Any, people: Population) -> Any:
    """Return the model's `Training` for these people. θ is one vector, of the same meaning whoever they are.

    Only `Scaled` models keep the units of the people that they are bound to (`shares_units` says so).
    """
    if gains(model, people.size):
        return PaddedTraining(_bound(model, padded(people)), people.size)
    return _bound(model, people)


def _bound(model: Any, people: Population) -> Any:
    if isinstance(model, Linear):
        return FeatureUnits.of(model, people)
    return model.training(people)


def shares_units(model: Any) -> bool:
    """Report whether θ means the same in every round."""
    return not isinstance(model, Scaled)


def own_form(training: Any, flat: Array) -> Any:
    """Return θ as the model's own predict and goal_loss take it: centroids, a matrix (W, b), or a pytree."""
    return training.parameters(flat)


def flat_form(training: Any, given: Any, argument: str) -> Array:
    """Return parameters, in the model's own form or already one vector, as one vector θ (p,)."""
    if isinstance(given, Centroids):
        given = given.positions
    if isinstance(given, np.ndarray | list) or not hasattr(training, "flat"):
        try:
            array = np.array(given, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise DataError(f"{argument}: must be numbers, got an object of type {type(given).__name__}.") from None
        flat = array.ravel()
        if array.ndim > 1 and flat.size == training.parameter_count:
            own = own_form(training, flat)
            shape = np.shape(own.positions) if isinstance(own, Centroids) else np.shape(own)
            if shape and shape != array.shape:  # as of a matrix that was transposed
                raise DataError(
                    f"{argument}: must have the model's own shape {shape}, or be one vector of {flat.size} numbers, "
                    f"got shape {array.shape}."
                )
    else:
        flat = np.array(training.flat(given))
    if flat.shape != (training.parameter_count,) or not np.isfinite(flat).all():
        raise DataError(
            f"{argument}: must be the model's {training.parameter_count} parameters, all finite, got "
            f"{flat.size} of which {int((~np.isfinite(flat)).sum())} are not."
        )
    return flat


def update_of(
    model: Any,
    people: Population,
    newest: NDArray[np.bool_],
    number: int,
    before: Array | None = None,
    moves: Array | None = None,
) -> Update:
    """Return one round's work: `people` are all whom the rule reads, `newest` (m,) who of them has just arrived."""
    training = bind(model, people)
    return Update(number, before, training, training.moved(moves), newest, class_labels(model, people))


def class_labels(model: Any, people: Population) -> tuple[Any, ...]:
    """Return the labels in the order of their codes; nothing where values are predicted."""
    return () if model.regresses else people.classes

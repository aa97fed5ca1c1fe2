"""Batches, each a population or a pair (features, labels), as one population of everyone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError, OptionError
from oar.people import Population
from oar.people.labels import label_array


def as_batch(given: Any, argument: str) -> Population:
    """Return a batch as people; `argument` is what messages call it."""
    if isinstance(given, Population):
        return given
    if isinstance(given, tuple | list) and len(given) == 2:
        try:
            return Population(*given)
        except DataError as reason:
            raise DataError(f"{argument}: {reason}") from None
    raise DataError(
        f"{argument}: must be an oar.Population or a pair (features, labels), got an object of type "
        f"{type(given).__name__}."
    )


def joined(batches: Sequence[Population], names: Sequence[str]) -> Population:
    """Return everyone, batch after batch; classes are those that occur anywhere. `names` are the batches' own."""
    first = batches[0]
    for batch, name in zip(batches, names, strict=True):
        if batch.encoding is not None:
            raise OptionError(
                f"{name}: must have plain features over time, got a table with a schema; hand in its coordinates "
                "(people.features) with its labels."
            )
        if batch.dimensions != first.dimensions:
            raise DataError(
                f"{name}: must have as many features as the others, {first.dimensions} (as {names[0]}), got "
                f"{batch.dimensions}."
            )
        if batch.names != first.names:
            raise DataError(
                f"{name}: must have the same columns in the same order as {names[0]}, {first.names}, got {batch.names}."
            )
    features: Any = np.concatenate([np.asarray(batch.features, dtype=np.float64) for batch in batches])
    if first.names is not None:
        import pandas

        features = pandas.DataFrame(features, columns=list(first.names))
    weights = None
    if any(batch.weights is not None for batch in batches):
        each = [np.ones(batch.size) if batch.weights is None else batch.weights for batch in batches]
        weights = np.concatenate(each)
    return Population(features, _labels(batches, names), weights)


def _labels(batches: Sequence[Population], names: Sequence[str]) -> NDArray[Any]:
    """Return everyone's labels as they were given."""
    first = batches[0]
    for batch, name in zip(batches, names, strict=True):
        columns = batch.has_label_rows and batch.classes != first.classes
        if columns or batch.has_label_rows != first.has_label_rows:
            raise DataError(f"{name}: must have labels as {names[0]} has them: all single, or all the same columns.")
    if first.has_label_rows:
        if first.classes != tuple(range(len(first.classes))):
            raise DataError(
                f"{names[0]}: must have label columns without names, as an array, got {first.classes}; or join the "
                "tables yourself and use oar.online.Stream(people, when)."
            )
        return np.concatenate([batch.labels for batch in batches])
    if len({batch.labels.dtype.kind for batch in batches}) == 1:
        return np.concatenate([batch.labels for batch in batches])
    return label_array([label for batch in batches for label in batch.labels.tolist()])  # 1 and "1" stay apart

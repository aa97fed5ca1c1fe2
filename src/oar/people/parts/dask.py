"""People in Dask collections: a part for each partition, which stays with the worker that holds it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oar.errors import DataError
from oar.people.parts.dask_engine import DaskEngine, chosen_engine, need_dask
from oar.people.parts.part import Part, Rows, as_numbers, checked_weights
from oar.people.parts.population import StreamedPopulation
from oar.people.wording import repeated


@dataclass(frozen=True, eq=False)
class DaskPart(Part):
    """One partition: `held` is the future of its arrays, or on a worker these arrays themselves."""

    number: int
    size: int
    held: Any = None
    arrays: Any = None
    names: tuple[str, ...] = ()

    @property
    def name(self) -> str:  # type: ignore[override]
        """The part's name in messages."""
        return f"partition {self.number}"

    def read(self) -> Rows:
        """Return features, labels and weights, which are in memory here."""
        return replace(self.read_labels(), features=as_numbers(self.arrays[0], self.name), names=self.names)

    def read_labels(self) -> Rows:
        """Return labels and weights alone."""
        _, labels, weights = self.arrays
        return Rows((), np.asarray(labels), checked_weights(weights, self.name), self.name)


def dask_people(features: Any, labels: Any, weights: Any, client: Any) -> StreamedPopulation:
    """Return people in a Dask array or DataFrame."""
    need_dask()
    engine = chosen_engine("dask", client)
    assert isinstance(engine, DaskEngine)
    frame = hasattr(features, "map_partitions") and hasattr(features, "columns")
    partitions, names, target = _of_frame(features, labels, weights) if frame else _of_array(features, labels, weights)
    from dask import delayed

    held = engine.client.compute([delayed(_as_arrays)(*one) for one in partitions])
    shapes = engine.client.gather(engine.client.map(_shape, held))
    for number, (rows, width, labelled, weighted) in enumerate(shapes):
        if labelled != rows or weighted != rows:
            raise DataError(
                f"labels: partitions must match those of the features, got {labelled} labels for {rows} people in "
                f"partition {number}; rechunk or repartition one of them."
            )
        if width != shapes[0][1]:
            raise DataError(f"features: must be as many in all partitions, got {width} in partition {number}.")
    parts = [
        DaskPart(number, rows, future, names=names or ())
        for number, (future, (rows, *_)) in enumerate(zip(held, shapes, strict=True))
    ]
    return StreamedPopulation(parts, int(shapes[0][1]), names, target, weights is not None, engine, "a Dask collection")


def _as_arrays(features: Any, labels: Any, weights: Any) -> tuple[Any, Any, Any]:
    numbers = as_numbers(features, "a partition") if hasattr(features, "columns") else np.asarray(features)
    return numbers, np.asarray(labels), None if weights is None else np.asarray(weights)


def _shape(held: tuple[Any, Any, Any]) -> tuple[int, int, int, int]:
    features, labels, weights = held
    if features.ndim != 2:
        raise DataError(f"features: must be two-dimensional (people × features), got shape {features.shape}.")
    return (*features.shape, len(labels), len(labels if weights is None else weights))


def _of_array(features: Any, labels: Any, weights: Any) -> tuple[list[Any], None, None]:
    if not (hasattr(features, "rechunk") and hasattr(features, "to_delayed")) or features.ndim != 2:
        raise DataError(
            f"features: must be a Dask array (people × features) or a Dask DataFrame, got {type(features).__name__}."
        )
    rows = features.rechunk({1: -1})

    def alongside(values: Any, argument: str) -> list[Any]:
        if values is None:
            return [None] * rows.numblocks[0]
        if not hasattr(values, "to_delayed"):
            raise DataError(f"{argument}: must be a Dask array like the features, got {type(values).__name__}.")
        if values.ndim != 1:
            raise DataError(f"{argument}: must be one-dimensional, one for each person, got shape {values.shape}.")
        known = not any(np.isnan(size) for size in (*rows.chunks[0], *values.chunks[0]))
        if known and values.shape[0] != rows.shape[0]:
            raise DataError(f"{argument}: must be one for each of the {rows.shape[0]} people, got {values.shape[0]}.")
        return list((values.rechunk((rows.chunks[0],)) if known else values).to_delayed().ravel())

    labelled, weighted = alongside(labels, "labels"), alongside(weights, "weights")
    if len(labelled) != rows.numblocks[0] or len(weighted) != rows.numblocks[0]:
        raise DataError("labels: must have as many chunks as the features; rechunk one of them.")
    return list(zip(rows.to_delayed().ravel(), labelled, weighted, strict=True)), None, None


def _of_frame(frame: Any, labels: Any, weights: Any) -> tuple[list[Any], tuple[str, ...], str | None]:
    if twice := repeated(frame.columns):
        raise DataError(f"features: columns must have different names, got {twice[0]!r} twice; rename one.")
    named = {argument: name for argument, name in (("labels", labels), ("weights", weights)) if isinstance(name, str)}
    for argument, name in named.items():
        if name not in frame.columns:
            raise DataError(
                f"{argument}: must be a column of the features, one of {list(frame.columns)}, got {name!r}."
            )
    taken = list(named.values())
    names = [name for name in frame.columns if name not in taken]
    wrong = [name for name in names if frame[name].dtype.kind not in "biuf"]
    if wrong:
        raise DataError(f"features: every column must be numeric, got {wrong[0]!r} of type {frame[wrong[0]].dtype}.")

    # One list of partitions for all columns: Dask joins small files otherwise for each choice of columns
    pieces = frame.to_delayed()

    def alongside(values: Any) -> list[Any]:
        if values is None:
            return [None] * len(pieces)
        return [piece[values] for piece in pieces] if isinstance(values, str) else list(values.to_delayed())

    columns = [piece[names] for piece in pieces], alongside(labels), alongside(weights)
    if len({len(one) for one in columns}) > 1:
        raise DataError(
            f"labels: must have as many partitions as the features, got {len(columns[1])} for {len(pieces)}; persist "
            "or repartition both, or name columns of one DataFrame."
        )
    target = labels if isinstance(labels, str) else getattr(labels, "name", None)
    return list(zip(*columns, strict=True)), tuple(map(str, names)), target

"""A data set as this package hands it out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oar.actions.limits.limit import Limits
from oar.people import Population, Schema

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features and labels, with the names and the origin that belong to them.

    Every loader returns fresh arrays, so changing them changes nobody else's.

    Attributes:
        name: what it is called.
        features: (n, d) float64, one row a person.
        labels: (n,) int64; label c is called `class_names[c]`.
        feature_names: d names.
        class_names: one name a class.
        source: citation and licence, in one line.
    """

    name: str
    features: NDArray[np.float64]
    labels: NDArray[np.int64]
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    source: str

    def __repr__(self) -> str:
        people, dimensions = self.features.shape
        return f"Dataset({self.name!r}, {people:,} × {dimensions}, {len(self.class_names)} classes)"


@dataclass(frozen=True, eq=False)
class TableDataset:
    """A table of people, with what its columns are and what people can do to them.

    Every loader returns a fresh frame, so changing it changes nobody else's.

    Attributes:
        name: what it is called.
        frame: one row a person, with readable columns and levels.
        target: the column that a model predicts.
        schema: what the other columns are.
        limits: what people can really do to them, a proposal to be edited: the module that made it says why.
        source: citation and licence, in one line.
        weights: the column of training weights; None where all weigh 1.
    """

    name: str
    frame: pandas.DataFrame
    target: str
    schema: Schema
    limits: Limits
    source: str
    weights: str | None = None

    @cached_property
    def population(self) -> Population:
        """The people of the frame, as it is when this is asked for first."""
        return Population.from_frame(self.frame, self.target, schema=self.schema, weights=self.weights)

    def __repr__(self) -> str:
        classes = ", ".join(repr(label) for label in self.frame[self.target].unique())
        return f"TableDataset({self.name!r}, {len(self.frame):,} × {len(self.schema)}, {self.target}: {classes})"


def with_levels(frame: pandas.DataFrame, schema: Schema) -> pandas.DataFrame:
    """Return a frame whose columns of levels are categorical, as a schema has them."""
    import pandas

    kinds = {each.name: pandas.CategoricalDtype(list(each.levels), each.kind == "ordinal") for each in schema}
    return frame.astype({each.name: kinds[each.name] for each in schema if each.levels})

"""The data subjects: features, labels and weights, read chunk by chunk."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oar.checks import read_only, with_near_names
from oar.errors import DataError
from oar.people.class_sums import Sums, of_rows
from oar.people.labels import Codes, LabelCoding, label_array, plain
from oar.people.tables.arrays import (
    CHUNK_ROWS,
    Table,
    as_table,
    as_vector,
    check_index,
    in_memory,
    is_frame,
    is_series,
    weight_values,
)
from oar.people.tables.encoding import Encoding
from oar.people.tables.files import read_table
from oar.people.tables.from_frame import read_frame, with_column
from oar.people.tables.schema import Schema
from oar.people.wording import listed
from oar.typing import Client, Features, FilePath, Frame, Label, Labels, Row, Weights

if TYPE_CHECKING:
    from oar.people.parts.population import StreamedPopulation


@dataclass(frozen=True)
class Chunk:
    """A chunk of consecutive people: positions `start` to `start + len(features)`."""

    start: int
    features: NDArray[np.float64]
    codes: Codes
    weights: NDArray[np.float64] | None
    values: NDArray[np.float64] | None = None  # (n, 1), of people who are read in parts and whose labels are numbers

    @property
    def stop(self) -> int:
        """The position after the last person."""
        return self.start + len(self.features)

    @property
    def row_weights(self) -> NDArray[np.float64]:
        """Everyone's weight (n,), which is 1 where none was given."""
        return np.ones(len(self.features)) if self.weights is None else self.weights


@with_near_names
class Population:
    """The data subjects: the people on whose data the operator trains.

    Args:
        features: (n, d) numbers, an array or a DataFrame; kept as given, never copied or changed.
            Arrays that are read from a population are read-only.
        labels: n labels of any hashable type; or (n, k) numbers: soft labels (rows that are shares of k classes), or
            k-dimensional values to be regressed. The model decides which.
        weights: n non-negative training weights; None means 1 for everybody.

    >>> people = Population([[0.0], [1.0], [4.0]], ["no", "no", "yes"])
    >>> people
    Population(3 people, 1 feature, classes 'no', 'yes')
    """

    streamed = False
    """Whether they are read in parts, and never all in memory."""
    has_label_rows: bool
    """Whether labels are (n, k) numbers rather than one label a person."""

    def stamps(self) -> Any:
        """Return a stamp that changes when the files change; None for people in memory."""
        return None

    def __init__(self, features: Features, labels: Labels, weights: Weights | None = None) -> None:
        """Check everything once; a mistake raises here and changes nothing."""
        self._table = as_table(features)
        labels = in_memory(labels, "labels")
        if is_series(labels):
            check_index(labels, self._table.index, "labels")
        table = isinstance(labels, np.ndarray) and labels.ndim == 2 and labels.shape[1] > 1
        self.has_label_rows = is_frame(labels) or table
        if self.has_label_rows:
            self._take_rows(labels)
        else:
            self._labels = label_array(labels)
            _check_categories(labels)
            self._coding = LabelCoding(self._labels)
            stored = len(self._labels) <= CHUNK_ROWS or not self._coding.in_chunks
            self._codes = self._coding.encode(self._labels) if stored else None
        if len(self._labels) != self.size:
            raise DataError(f"labels: must be one for each of the {self.size} people, got {len(self._labels)}.")
        self.weights = None if weights is None else read_only(weight_values(weights, self.size, self._table.index))
        self._classes_have_weight = self.weights is None and not self.has_label_rows
        self._encoding: Encoding | None = None
        self._target: str | None = None
        self._imputed: NDArray[np.bool_] | None = None
        self._first_weights: NDArray[np.float64] | None = None

    def _take_rows(self, labels: Any) -> None:
        """Take labels (n, k) that are numbers; classes are their columns' names, or their positions."""
        if is_frame(labels):
            check_index(labels, self._table.index, "labels")
        table = as_table(labels, "labels")
        columns: Any = table.names or range(table.values.shape[1])
        self._labels, self._codes = table.values, None
        self._coding = LabelCoding(label_array(list(columns)))
        # Soft labels are read with their columns in the order of the classes.
        self._order: Any = [table.names.index(label) for label in self.classes] if table.names else slice(None)

    @classmethod
    @with_near_names
    def from_frame(
        cls,
        frame: Frame,
        target: str | Labels,
        *,
        schema: Schema | str | Path | None = None,
        weights: str | Weights | None = None,
        missing: str = "refuse",
    ) -> Population:
        """Return the people of a table: numbers, booleans, ordinals and categories, and a column of labels.

        Features are the table's coordinates (`people.encoding`); `people.schema` has the types of the columns.

        Args:
            frame: a DataFrame, one row a person; polars' and pyarrow's tables are read by way of pandas.
            target: the column of labels, or of values to be regressed; or the labels themselves, one for each row, as a
                Series, an array, a list or a table of one column.
            schema: the types of the other columns, as `oar.Schema` or its TOML file; None to infer them (print
                `people.schema`, and correct it).
            weights: a column of training weights, or the weights themselves, as for the target; None means 1 for
                everybody.
            missing: what to do about missing values: "refuse", "drop" these people, or "impute" medians and modes,
                which plans leave as they are (`people.imputed`).
        """
        table, column = with_column(in_memory(frame, "frame"), target, "target")
        table, weighed = with_column(table, weights, "weights")
        coordinates, labels, given, encoding, imputed = read_frame(table, column, schema, weighed, missing)
        people = cls(coordinates, labels, given)
        people._encoding, people._target, people._imputed = encoding, column, imputed
        return people

    @classmethod
    @with_near_names
    def read(
        cls,
        path: FilePath,
        target: str,
        *,
        schema: Schema | str | Path | None = None,
        weights: str | None = None,
        missing: str = "refuse",
        **options: Any,
    ) -> Population:
        """Return the people of a CSV or Parquet file; `options` go to pandas' reader, the others are as above."""
        return cls.from_frame(read_table(path, **options), target, schema=schema, weights=weights, missing=missing)

    @classmethod
    def from_parquet(
        cls,
        path: FilePath,
        target: str,
        *,
        features: Sequence[str] | None = None,
        weights: str | None = None,
        classes: Sequence[Label] | None = None,
        engine: str = "local",
        client: Client | None = None,
    ) -> StreamedPopulation:
        """Return people in Parquet files, which are read in parts: as many people as the disk holds.

        `oar.Population.read` reads a file into memory, with words and categories; here every feature is a number.

        Args:
            path: a file, or a folder of them with the same columns.
            target: the column of labels, or of values to be regressed.
            features: the columns that are features; None means all others.
            weights: a column of training weights; None means 1 for everybody.
            classes: the labels that occur, if they are known; otherwise the data are searched for them.
            engine: "local" (all cores of this machine) or "dask".
            client: the `dask.distributed.Client` that does the work; None with engine="dask" means a local cluster.
        """
        from oar.people.parts.dask_engine import chosen_engine
        from oar.people.parts.parquet import parquet_parts
        from oar.people.parts.population import StreamedPopulation

        doer = chosen_engine(engine, client)
        parts, columns = parquet_parts(path, target, features, weights)
        width, names = len(columns.features), columns.features
        people = StreamedPopulation(parts, width, names, target, weights is not None, doer, str(path))
        return people.knowing(classes)

    @classmethod
    @with_near_names
    def from_memmap(
        cls,
        features: FilePath | ArrayLike,
        labels: FilePath | ArrayLike,
        weights: FilePath | ArrayLike | None = None,
        *,
        names: Sequence[str] | None = None,
        classes: Sequence[Label] | None = None,
    ) -> StreamedPopulation:
        """Return people in arrays on disk, which are read in parts.

        Args:
            features: (n, d) numbers: a `.npy` file's path, a `numpy.memmap`, or any array that can be sliced.
            labels: n labels, likewise.
            weights: n training weights, likewise; None means 1 for everybody.
            names: the features' names, or None.
            classes: the labels that occur, if they are known; otherwise the data are searched for them.
        """
        from oar.people.parts.arrays import in_arrays

        return in_arrays(features, labels, weights, names).knowing(classes)

    @classmethod
    @with_near_names
    def from_dask(
        cls,
        features: Any,
        labels: Any,
        weights: Any = None,
        *,
        client: Client | None = None,
        classes: Sequence[Label] | None = None,
    ) -> StreamedPopulation:
        """Return people in a Dask cluster, which reads and processes them partition by partition.

        Args:
            features: a Dask array (n, d) or a Dask DataFrame of numbers.
            labels: a Dask array or Series of n labels, in partitions that match; of a DataFrame, or a column's name.
            weights: training weights, likewise; None means 1 for everybody.
            client: the `dask.distributed.Client` that does the work; None means the current one, or a local cluster.
            classes: the labels that occur, if they are known; otherwise the data are searched for them.
        """
        from oar.people.parts.dask import dask_people

        return dask_people(features, labels, weights, client).knowing(classes)

    def check_class_weights(self) -> None:
        """Raise a DataError if a class has no weight at all; the data are checked once.

        Classifiers call it. Labels may also be values to be regressed, which need no weight each.
        """
        if self._classes_have_weight:
            return
        argument, kind = ("labels", "column") if self.has_label_rows else ("weights", "class")
        for code, total in enumerate(self._class_totals()):
            if not total > 0:
                raise DataError(
                    f"{argument}: every class needs some weight to be fitted, got a total of {total:g} for {kind} "
                    f"{self.classes[code]!r}; leave it out, or add people who have it."
                )
        self._classes_have_weight = True

    def lacking_classes(self) -> Population:
        """Return the same people where a class that has no weight is no harm: whoever trains on them says otherwise."""
        other = copy.copy(self)
        other._classes_have_weight = True
        return other

    def _class_totals(self) -> NDArray[np.float64]:
        """Return each class's weight; a soft label counts for every class by its share."""
        return self.row_weights @ self.class_rows() if self.has_label_rows else self.class_sums(None)

    @property
    def size(self) -> int:
        """How many people there are."""
        return self._table.values.shape[0]

    @property
    def dimensions(self) -> int:
        """How many features each person has."""
        return self._table.values.shape[1]

    @property
    def classes(self) -> tuple:
        """The labels that occur, in the order of their codes."""
        return self._coding.classes

    def class_rows(self) -> NDArray[np.float64]:
        """Return everyone's class as shares (n, k): one-hot for single labels, as given for soft ones."""
        if self.has_label_rows:
            return self._share_rows(0, self.size)
        rows = np.zeros((self.size, len(self.classes)))
        rows[np.arange(self.size), self.codes(0, self.size)] = 1.0
        return rows

    def _share_rows(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return label rows with their columns in the order of the classes."""
        return np.ascontiguousarray(self._labels[start:stop], dtype=np.float64)[:, self._order]

    def value_rows(self) -> NDArray[np.float64]:
        """Return everyone's label as real values (n, m); raise where labels are not numbers."""
        if self.has_label_rows:
            return np.ascontiguousarray(self._labels, dtype=np.float64)
        try:
            values = np.asarray(self._labels, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise DataError(f"labels: must be numbers to be regressed, got {self._labels[0]!r}.") from None
        return values[:, None]

    def target_rows(self, regresses: bool) -> NDArray[np.float64]:
        """Return everyone's training target: label values where a model regresses, else shares of classes."""
        return self.value_rows() if regresses else self.class_rows()

    @property
    def row_weights(self) -> NDArray[np.float64]:
        """Everyone's training weight (n,), 1 by default."""
        return np.ones(self.size) if self.weights is None else np.asarray(self.weights, dtype=np.float64)

    def numbers(self, position: int) -> NDArray[np.float64]:
        """Return everyone's value (n,) of the feature at this position."""
        return np.asarray(self.features)[:, position]

    def own_labels(self) -> Any:
        """Return everyone's label, or value where labels are numbers to be predicted."""
        return self.labels

    @property
    def rows(self) -> Any:
        """Everyone's features (n, d) as float64."""
        return np.asarray(self.features, dtype=np.float64)

    def rows_moved(self, plan: Any) -> Any:
        """Return everyone's moves (n, d) by a plan."""
        return np.array(plan.moves(), dtype=np.float64)  # a copy: a DataFrame may lend its own

    def with_features(self, features: NDArray[np.float64]) -> Population:
        """Return the same people with other features (n, d), of the same names."""
        other = copy.copy(self)
        other._table = Table(features, self.names, self.index)
        return other

    def like_table(self, other: Population, imputed: NDArray[np.bool_] | None) -> Population:
        """Return the same people as rows of a table of another's schema, whose coordinates their features are."""
        found = copy.copy(self)
        found._encoding, found._target, found._imputed = other._encoding, other._target, imputed
        return found

    def some(self, rows: NDArray[np.intp]) -> Population:
        """Return some of these people, by position; all classes are kept, even those that none of them has.

        Models of classes refuse a class that has no weight, where they need some.
        """
        other = self.with_arrays(lambda values: values[rows])
        other._table = replace(other._table, index=None if self.index is None else self.index[rows])
        other._classes_have_weight = False
        return other

    def with_arrays(self, change: Callable[[NDArray], NDArray]) -> Population:
        """Return the same people with every array of theirs put in place by `change`, which keeps all values."""
        other = copy.copy(self)
        for part in ("_labels", "_codes", "weights", "_first_weights", "_imputed"):
            values = getattr(self, part)
            setattr(other, part, None if values is None else change(values))
        other._table = replace(self._table, values=change(self._table.values))
        return other

    @classmethod
    def of_codes(
        cls, features: Features, codes: NDArray[Any], classes: tuple[Any, ...], weights: Weights | None = None
    ) -> Population:
        """Return people whose labels are given as positions in `classes`, of which some may have nobody.

        `people.classes` are sorted where they can be sorted, as everywhere: their codes may be others.
        """
        # A row for each class makes all of them known; these rows are left out again.
        table, known = as_table(features), len(classes)
        rows = np.asarray(table.values, dtype=np.float64)
        padded: Any = np.vstack([rows, np.zeros((known, rows.shape[1]))])
        if table.names is not None:
            import pandas

            padded = pandas.DataFrame(padded, columns=list(table.names))
        labels = label_array([*(classes[code] for code in codes), *classes])
        given = None if weights is None else np.append(np.asarray(weights, dtype=np.float64), np.ones(known))
        return cls(padded, labels, given).some(np.arange(len(rows)))

    def of_classes(self, classes: tuple[Any, ...], otherwise: NDArray[Any]) -> Population:
        """Return the same people for a model that knows its classes itself, whether anybody has them or not.

        A person with any other label is of class `otherwise` (n,), a position in `classes`, which must be in the order
        of populations.
        """
        if not self.has_label_rows and self._classes_have_weight and self.classes == classes:
            return self
        other = copy.copy(self)
        other._coding, other.has_label_rows = LabelCoding(label_array(list(classes))), False
        other._classes_have_weight, other._codes = True, np.array(otherwise, dtype=np.int32)
        if not self.has_label_rows:
            places = {label: place for place, label in enumerate(classes)}
            known = np.array([places.get(label, -1) for label in self.classes])[self.codes(0, self.size)]
            other._codes = np.where(known >= 0, known, other._codes).astype(np.int32)
        return other

    def contributing(
        self, weights: NDArray[np.float64] | None, rows: NDArray[np.float64], regresses: bool = False
    ) -> Population:
        """Return the same people with other weights and labels; classes, names and index stay.

        Labels are class shares (n, k), in the order of the classes; where a model `regresses`, values (n, m). If they
        were single ones and still can be, they stay single; otherwise they become rows of numbers.
        """
        other = copy.copy(self)
        other.weights = None if weights is None else read_only(weights)
        other._first_weights, other._classes_have_weight = self.first_row_weights, False
        if regresses and not self.has_label_rows:
            other._labels, other._codes = rows[:, 0], None
        elif not regresses and not self.has_label_rows and np.isin(rows, (0.0, 1.0)).all():
            other._codes = rows.argmax(axis=1).astype(np.int32)
            other._labels = self.relabelled(other._codes)
        else:
            other._labels, other._codes, other.has_label_rows, other._order = rows, None, True, slice(None)
        return other

    def relabelled(self, codes: Codes) -> NDArray:
        """Return everyone's label as given, but those whose code is another have that class's."""
        labels = np.array(self._labels)
        for person in np.flatnonzero(codes != self.codes(0, self.size)):
            labels[person] = self.classes[codes[person]]
        return labels

    @property
    def imputed(self) -> NDArray[np.bool_] | None:
        """The mask (n, columns) of a table's imputed values; None where there are none.

        Plans do not change them: nobody can change a value that nobody has given.
        """
        return None if self._imputed is None else read_only(self._imputed)

    @property
    def first_weights(self) -> NDArray[np.float64] | None:
        """The weights before anybody left, used for whatever is fixed before any change, such as a frozen scaler."""
        return self.weights if self._first_weights is None else self._first_weights

    @property
    def first_row_weights(self) -> NDArray[np.float64]:
        """Everyone's weight (n,) before anybody left, 1 by default."""
        return np.ones(self.size) if self.first_weights is None else self.first_weights

    @property
    def present(self) -> Any:
        """The people of positive weight: a mask (n,), or a slice of everybody where no weights were given."""
        return slice(None) if self.weights is None else self.weights > 0

    @property
    def features(self) -> NDArray:
        """The features as given (an array; a DataFrame's values)."""
        return read_only(self._table.values)

    @property
    def labels(self) -> NDArray:
        """The labels as given."""
        return read_only(self._labels)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The DataFrame's column names, or None for a plain array."""
        return self._table.names

    @property
    def encoding(self) -> Encoding | None:
        """The encoding of a table as coordinates; None for plain numbers."""
        return self._encoding

    @property
    def table(self) -> Encoding:
        """The encoding of people read from a table; raises for plain numbers."""
        if self._encoding is None:
            raise DataError(
                "people: must come as a table for this, got features that are numbers; use Population.from_frame."
            )
        return self._encoding

    @property
    def schema(self) -> Schema | None:
        """The types of the table's columns; None for plain numbers."""
        return None if self._encoding is None else self._encoding.schema

    @property
    def target(self) -> str | None:
        """The name of the table's column of labels; None for plain numbers."""
        return self._target

    def vector(self, row: Row, argument: str) -> NDArray[np.float64]:
        """Return one person's features (d,): a row of the table, or numbers in the order of the features."""
        if self._encoding is not None and not isinstance(row, np.ndarray | list | tuple):
            return self._encoding.encode_row(row, argument)
        point = as_vector(row, self.names, self.dimensions, argument)
        if self._encoding is not None:
            self._encoding.check_person(point, argument)
        return point

    @property
    def index(self) -> Any:
        """The DataFrame's index, or None for a plain array."""
        return self._table.index

    @property
    def row_names(self) -> Any:
        """The names of people as a pandas index: the DataFrame's, or positions for a plain array."""
        import pandas

        return pandas.RangeIndex(self.size) if self.index is None else self.index

    @property
    def coding(self) -> LabelCoding:
        """The way from labels to codes; who asks for it takes labels for classes, which must all have some weight."""
        self.check_class_weights()
        return self._coding

    def chunks(self, rows: int = CHUNK_ROWS) -> Iterator[Chunk]:
        """Walk over everyone once, in order; each chunk is O(rows · d) of memory at most."""
        for start in range(0, self.size, rows):
            stop = min(start + rows, self.size)
            yield Chunk(
                start,
                np.ascontiguousarray(self.features[start:stop], dtype=np.float64),
                self.codes(start, stop),
                None if self.weights is None else self.weights[start:stop],
            )

    def find_classes(self, stride: int) -> None:
        """Make sure that the classes are known, by the reading that also gives `feature_sums`: here they are."""

    def feature_sums(self, stride: int) -> Sums:
        """Return the sums of features and weights, class by class: one pass; one in `stride` tells their size."""
        how = len(self.classes), stride
        return added(of_rows(chunk.features, chunk.codes, chunk.weights, *how) for chunk in self.chunks())

    def codes(self, start: int, stop: int) -> Codes:
        """Return the class codes of some consecutive people; of label rows, that of the largest number."""
        if self._codes is not None:
            return read_only(self._codes[start:stop])
        if self.has_label_rows:
            return self._share_rows(start, stop).argmax(axis=1).astype(np.int32)
        return self._coding.encode(self._labels[start:stop])

    def class_sums(self, values: NDArray | None) -> NDArray[np.float64]:
        """Return the weighted sum of one value a person, class by class; None counts each person once."""
        totals, given = np.zeros(len(self.classes)), [each for each in (self.weights, values) if each is not None]
        for start in range(0, self.size, CHUNK_ROWS):
            stop = min(start + CHUNK_ROWS, self.size)
            terms = math.prod((each[start:stop] for each in given), start=np.ones(stop - start))
            totals += np.bincount(self.codes(start, stop), weights=terms, minlength=totals.size)
        return totals

    def column(self, values: NDArray) -> Any:
        """Return one value a person as a Series with the DataFrame's index, or as it is for a plain array."""
        if self.index is None:
            return values
        import pandas

        return pandas.Series(values, index=self.index)

    def __repr__(self) -> str:
        plural = "feature" if self.dimensions == 1 else "features"
        return f"Population({self.size:,} people, {self.dimensions} {plural}, classes {listed(self.classes, 6)})"


def _check_categories(labels: Any) -> None:
    """Refuse a pandas Categorical that declares a category that nobody has."""
    categories = getattr(getattr(labels, "cat", labels), "categories", ())
    present = set(labels) if len(categories) else set()
    for category in categories:
        if category not in present:
            raise DataError(
                f"labels: class {plain(category)!r} has no members, so it cannot be fitted; remove the unused "
                "category (labels.cat.remove_unused_categories()) or add people who have it."
            )


def added(parts: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the sum of several, entry by entry, in their order."""
    total: Any = ()
    for part in parts:
        total = tuple(one + other for one, other in zip(total, part, strict=True)) if total else part
    return total

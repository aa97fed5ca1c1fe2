"""People who are not in memory: read part by part, as often as a question needs it.

Sums over people work as with people in memory. What needs everybody's features at once
says so, and what to do: `people.loaded()` reads them all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.checks import check_that, is_listing
from oar.errors import DataError, OptionError
from oar.people.class_sums import FEW_CLASSES, Sums, of_columns, of_rows
from oar.people.labels import LabelCoding, label_array, plain
from oar.people.parts.part import ContentCheck, Engine, Part, Rows, Threads, sliced
from oar.people.population import Chunk, Population, added
from oar.people.tables.arrays import CHUNK_ROWS
from oar.people.wording import listed

ASKED = "this question, or something that it was asked with,"
MOST_CLASSES = 10_000
WIDE = 1 << 16  # whole numbers within such a range are counted in a table
SUMMED_ROWS = 1 << 14  # of a chunk that is only added up


class NoClassesError(DataError):
    """Labels that cannot be classes; values they may be."""


class StreamedPopulation(Population):
    """People in parts, which an engine reads; made by `Population.from_parquet`, `from_memmap` and `from_dask`."""

    streamed = True
    size: int = 0
    dimensions: int = 0
    names: tuple[str, ...] | None = None
    index: Any = None  # people are called by their position

    def __init__(
        self,
        parts: Sequence[Part],
        dimensions: int,
        names: tuple[str, ...] | None = None,
        target: str | None = None,
        weighted: bool = False,
        engine: Engine | None = None,
        origin: str = "these people",
    ) -> None:
        """Keep where everybody is; nothing is read yet."""
        self.parts = tuple(part for part in parts if part.size)
        if not self.parts:
            raise DataError(f"people: must be at least one, got {origin} with none.")
        self.engine: Engine = engine or Threads()
        ends = np.cumsum([part.size for part in self.parts])
        self.starts = tuple(int(end - part.size) for end, part in zip(ends, self.parts, strict=True))
        self.size, self.dimensions, self.names, self._origin = int(ends[-1]), dimensions, names, origin
        self._target, self.weighted = target, weighted
        self._encoding, self._first_weights, self.has_label_rows = None, None, False
        self._sums: dict[int, tuple[Any, Sums]] = {}  # with the stamps of the parts that they are of
        self._known: dict[str, tuple[Any, Any]] = {}  # likewise
        self._contents: tuple[Any, Any] = (), None  # likewise, a digest for each part
        self.passes = 0

    def __getstate__(self) -> dict[str, Any]:
        """Leave the engine behind, which stays where it is, and sums, which are of the files as they are here."""
        return vars(self) | {"engine": Threads(), "_sums": {}}

    # What is known of labels and weights, after one reading of these columns

    def _kept(self, name: str, read: Callable[[], Any]) -> Any:
        """Return what was read before, unless a file has changed since; where nobody can tell, none has."""
        stamps = self.stamps()
        if name not in self._known or self._known[name][0] != stamps:
            self._known[name] = stamps, read()
        return self._known[name][1]

    @property
    def _counts(self) -> dict[Any, float]:
        """Every label with its weight, in order of appearance."""
        return self._kept("counts", self._counted)

    def _counted(self) -> dict[Any, float]:
        totals: dict[Any, float] = {}
        for found in self.engine.map(_counted, self.parts, self.starts):
            for label, weight in found.items():
                totals[label] = totals.get(label, 0.0) + weight
            _check_labels(totals)
        return totals

    @cached_property
    def _coding(self) -> LabelCoding:  # type: ignore[override]
        _check_widths(self._counts)
        return LabelCoding(label_array(list(self._counts)))

    def knowing(self, classes: Sequence[Any] | None) -> StreamedPopulation:
        """Return the same people with these classes; with None, labels are looked through when they are asked for."""
        if classes is None:
            return self
        other = object.__new__(type(self))  # not by copy, which leaves the engine behind
        other.__dict__.update(self.__dict__)
        labels = is_listing(classes) and all(isinstance(label, Hashable) for label in classes)
        check_that(labels, "classes", "a list of the labels that occur", classes)
        known = [plain(label) for label in classes]
        different = len(set(known)) == len(known) > 0
        check_that(different, "classes", "different labels, at least one", list(classes))
        other.__dict__["_coding"], other._sums, other._known = LabelCoding(label_array(known)), {}, dict(self._known)
        return other

    def _class_totals(self) -> NDArray[np.float64]:
        counts = self._counts
        return np.array([counts.get(label, 0.0) for label in self.classes])

    def check_class_weights(self) -> None:
        """Raise a DataError if a class has no weight at all."""
        if self.weighted or "counts" in self._known:  # else classes were told, and whoever fits will see
            self._classes_have_weight = False
            super().check_class_weights()

    @property
    def total_weight(self) -> float:
        """The sum of everybody's weights."""
        if not self.weighted:
            return float(self.size)
        if "counts" in self._known:
            return float(sum(self._counts.values()))
        return self._kept("total", lambda: float(sum(self.engine.map(_weighing, self.parts, self.starts))))

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """Everybody's weight: one number a person, in memory; None where all weigh 1."""
        if not self.weighted:
            return None
        return self._kept("weights", lambda: np.concatenate([*self.engine.map(_weights, self.parts, self.starts)]))

    @weights.setter
    def weights(self, values: Any) -> None:
        raise self._in_parts("other weights")

    # Reading

    def mapped(
        self, function: Callable[..., Any], *arguments: Any, contents: tuple[str | None, ...] | None = None
    ) -> Iterator[Any]:
        """Yield function(part, start, *arguments) for each part, in order: one pass over the data.

        The first one since a file was changed also notes all parts' contents; a part that has not the one that is given
        is refused before anything is done with it.
        """
        self.passes += 1
        stamps = self.stamps()
        if stamps is not None and (contents is not None or self._contents[0] != stamps):
            return self._noting(function, arguments, stamps, contents)
        return self.engine.map(function, self.parts, self.starts, *arguments)

    def _noting(self, function: Any, arguments: Any, stamps: Any, contents: Any) -> Iterator[Any]:
        known = contents or (None,) * len(self.parts)
        told: Any = zip(self.parts, known, strict=True)
        parts, found = [replace(part, known=one) for part, one in told], []
        for content, result in self.engine.map(ContentCheck(function), parts, self.starts, *arguments):
            found.append(content)
            yield result
        self._contents = stamps, tuple(found)

    def contents(self) -> tuple[str | None, ...] | None:
        """Return a digest of each part's content, as it was noted last; None where files have changed since."""
        return self._contents[1] if self._contents[0] == self.stamps() else None

    def find_classes(self, stride: int) -> None:
        """Find the classes, by the reading that also gives `feature_sums` where these can be kept."""
        if "_coding" not in self.__dict__ and not self.weighted and self.stamps() is not None:
            self.feature_sums(stride)

    def feature_sums(self, stride: int) -> Sums:
        """Return the sums of features and weights, class by class; one in `stride` tells their size.

        One pass, which also finds the classes where they are not known. None where it was done before, and no file has
        changed since.
        """
        stamps = self.stamps()
        if stride in self._sums and stamps is not None and self._sums[stride][0] == stamps:
            return self._sums[stride][1]
        if "_coding" in self.__dict__ or self.weighted:
            found = added(self.mapped(_feature_sums, self._coding, stride))
        else:
            found = self._sums_and_classes(stride, stamps)
        for one in found:
            one.setflags(write=False)
        self._sums[stride] = stamps, found
        return found

    def stamps(self) -> frozenset | None:
        """Return what changes when any part does; None where nobody can tell."""
        found = frozenset(part.stamp() for part in self.parts)
        return None if None in found else found

    def _sums_and_classes(self, stride: int, stamps: Any) -> Sums:
        totals: dict[Any, Sums] = {}
        for found in self.mapped(_label_sums, stride):
            for label, sums in found.items():
                totals[label] = added((totals[label], sums)) if label in totals else sums
            _check_labels(totals)
        counts = {label: float(sums[1]) for label, sums in totals.items()}
        self._known["counts"] = stamps, counts
        return tuple(np.stack(each) for each in zip(*(totals[label] for label in self.classes), strict=True))

    @cached_property
    def _coded(self) -> LabelCoding | None:
        """The way from labels to codes; None where there are more of them than classes can be."""
        try:
            return self._coding
        except NoClassesError:
            return None

    @property
    def classed(self) -> bool:
        """Whether labels can be classes."""
        return self._coded is not None

    @cached_property
    def holds_numbers(self) -> bool:
        """Whether labels are numbers, of whatever kind."""
        first = next(iter(self.engine.map(_read_labels, self.parts[:1], self.starts[:1])))
        return first.labels.dtype.kind in "biuf"

    def chunks(self, rows: int = CHUNK_ROWS) -> Iterator[Chunk]:
        """Walk over everyone once, in order; the next parts are read meanwhile."""
        coding = self._coded
        for read, start in zip(self.mapped(_read), self.starts, strict=True):
            yield from chunks_of(read, start, coding, rows, both=True)

    def class_sums(self, values: NDArray | None) -> NDArray[np.float64]:
        """Return the weighted sum of one value a person, class by class; None counts each person once."""
        if values is None:
            return self._class_totals()
        totals = np.zeros(len(self.classes))
        for read, start in zip(self.engine.map(_read_labels, self.parts, self.starts), self.starts, strict=True):
            size = len(read.labels)
            terms = values[start : start + size] * read.row_weights_of(0, size)
            totals += np.bincount(self._coding.encode(read.labels), weights=terms, minlength=totals.size)
        return totals

    def numbers(self, position: int) -> NDArray[np.float64]:
        """Return everyone's value (n,) of the feature at this position: one pass."""
        return np.concatenate([chunk.features[:, position] for chunk in self.chunks()]).astype(np.float64)

    def own_labels(self) -> Any:
        """Return everyone's label (n,), which takes a pass over labels."""
        return np.concatenate(
            [np.asarray(read.labels) for read in self.engine.map(_read_labels, self.parts, self.starts)]
        )

    @property
    def rows(self) -> Any:
        """Everyone's features, as rows in parts: nothing is read."""
        from oar.people.parts.rows import everyones_features  # which reads this file

        return everyones_features(self)

    def target_rows(self, regresses: bool) -> Any:
        """Return everyone's class shares, or values, as rows in parts: nothing but a label is read."""
        from oar.people.parts.rows import everyones_targets

        if regresses and not self.holds_numbers:
            raise DataError("labels: must be numbers to be regressed, got text.")
        return everyones_targets(self, regresses)

    def codes(self, start: int, stop: int) -> Any:
        """Return the class codes of some consecutive people, a small number for each: labels are read."""
        read = self.engine.map(_read_labels, self.parts, self.starts)
        return np.concatenate([self._coding.encode(part.labels) for part in read])[start:stop]

    def value_rows(self) -> Any:
        """Return everyone's label as a real value, as rows in parts."""
        return self.target_rows(regresses=True)

    def rows_moved(self, plan: Any) -> Any:
        """Return everyone's moves by a plan, as rows in parts: nothing is read."""
        from oar.people.parts.rows import RowsInParts  # which reads this file

        return RowsInParts(self, plan.mover(), self.dimensions)

    def loaded(self) -> Population:
        """Return the same people in memory."""
        features, labels = np.empty((self.size, self.dimensions)), []
        weights: Any = np.empty(self.size) if self.weighted else None
        for read, start in zip(self.mapped(_read), self.starts, strict=True):
            stop = start + len(read.labels)
            features[start:stop] = read.slice(0, stop - start)
            labels.append(read.labels)
            if self.weighted:
                weights[start:stop] = read.weights
        everyones: Any = np.concatenate(labels)
        if everyones.dtype.kind == "O":
            everyones = label_array([plain(label) for label in everyones])
        table: Any = features
        if self.names is not None:
            import pandas

            table = pandas.DataFrame(features, columns=list(self.names))
        return Population(table, everyones, weights)

    def __repr__(self) -> str:
        """Show sizes, and classes where they are known; nothing is read for it."""
        plural = "feature" if self.dimensions == 1 else "features"
        parts = "1 part" if len(self.parts) == 1 else f"{len(self.parts):,} parts"
        told = f", classes {listed(self.classes, 6)}" if "_coding" in self.__dict__ else ""
        return f"Population({self.size:,} people in {parts}, {self.dimensions} {plural}{told})"

    # What would need everybody at once

    def _in_parts(self, what: str) -> OptionError:
        return OptionError(
            f"people: {what} needs everybody in memory, got {self._origin}, which are read in parts; use "
            "people.loaded() if they fit, or a sample of them."
        )

    def _refused(self, *asked: Any, **settings: Any) -> Any:
        """Refuse what would need an array of everybody."""
        raise self._in_parts(ASKED)

    features = labels = property(_refused)
    class_rows = relabelled = _refused
    with_features = some = with_arrays = lacking_classes = of_classes = contributing = _refused


def chunks_of(
    read: Rows, start: int, coding: LabelCoding | None, rows: int = CHUNK_ROWS, both: bool = False
) -> Iterator[Chunk]:
    """Walk over one part's people; labels are codes, or without a coding values, or `both` where they are numbers."""
    size = len(read.labels)
    codes = np.zeros(size, dtype=np.int32) if coding is None else encoded(coding, read)
    values = _values(read)[:, None] if coding is None or (both and read.labels.dtype.kind in "biuf") else None
    for first, last in sliced(size, rows):
        yield Chunk(
            start + first,
            read.slice(first, last),
            codes[first:last],
            read.weights_of(first, last),
            None if values is None else values[first:last],
        )


def _values(read: Rows) -> NDArray[np.float64]:
    """Return a part's labels as values (n,); raise where one is not finite."""
    found = np.asarray(read.labels, dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(found))
    if wrong.size:
        raise DataError(
            f"labels: must be finite, got {found[wrong[0]]} in {read.name}, row {wrong[0]}; drop these people, or say "
            "what their values are."
        )
    return found


def encoded(coding: LabelCoding, read: Rows) -> Any:
    """Return a part's labels as codes (n,); one that is unknown is named with its part."""
    try:
        return coding.encode(read.labels)
    except DataError as error:
        raise DataError(f"{error} It is in {read.name}.") from None


def _feature_sums(part: Part, start: int, coding: LabelCoding, stride: int) -> Sums:
    """Read a part and add it up, class by class."""
    read = part.read()
    return _summed(read, encoded(coding, read), len(coding.classes), stride)


def _label_sums(part: Part, start: int, stride: int) -> dict[Any, Sums]:
    """Read a part and add it up, label by label."""
    read = part.read()
    labels, codes = _numbered(read)
    sums = _summed(read, codes, len(labels), stride)
    return {label: tuple(one[place] for one in sums) for place, label in enumerate(labels) if sums[1][place]}


def _summed(read: Rows, codes: Any, classes: int, stride: int) -> Sums:
    """Add a part up, class by class. Only where a sum is not finite, it is looked why."""
    if isinstance(read.features, tuple) and classes <= FEW_CLASSES:
        total = of_columns(read.features, codes, read.weights, classes, stride)
    else:
        how = classes, stride
        total = added(
            of_rows(read.slice(first, last, checked=False), codes[first:last], read.weights_of(first, last), *how)
            for first, last in sliced(len(codes), SUMMED_ROWS)
        )
    if not all(np.isfinite(one).all() for one in total):
        for first, last in sliced(len(codes), CHUNK_ROWS):
            read.slice(first, last)
    return total


def _read(part: Part, start: int) -> Rows:
    return part.read()


def _read_labels(part: Part, start: int) -> Rows:
    return part.read_labels()


def _weighing(part: Part, start: int) -> float:
    return float(_weights(part, start).sum())


def _weights(part: Part, start: int) -> NDArray[np.float64]:
    read = part.read_labels()
    return read.row_weights_of(0, len(read.labels))


def _counted(part: Part, start: int) -> dict[Any, float]:
    """Return a part's labels with their weights."""
    read = part.read_labels()
    labels, codes = _numbered(read)
    seen = np.bincount(codes, minlength=len(labels))
    totals = np.bincount(codes, weights=read.weights, minlength=len(labels))
    return {labels[int(place)]: float(totals[place]) for place in np.flatnonzero(seen)}


def _numbered(read: Rows) -> tuple[Sequence[Any], Any]:
    """Return a part's labels, and everybody's as a number among these; labels that nobody has may be among them."""
    labels = read.labels
    if labels.dtype.kind in "iu":
        lowest, highest = int(labels.min()), int(labels.max())
        if highest - lowest < WIDE and highest < 2**63:
            shifted = labels if lowest == 0 else np.subtract(labels, lowest, dtype=np.int64, casting="unsafe")
            if highest - lowest < FEW_CLASSES:
                return range(lowest, highest + 1), shifted
            seen = np.bincount(shifted) > 0
            return _not_too_many([int(one) + lowest for one in np.flatnonzero(seen)]), (np.cumsum(seen) - 1)[shifted]
    import pandas

    try:
        codes, known = pandas.factorize(labels)
    except TypeError as error:
        raise DataError(f"labels: must be hashable ({error}) in {read.name}; use text or numbers.") from None
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise DataError(
            f"labels: must not be missing, got a missing one in {read.name}, row {row:,}; drop or label these people."
        )
    return [plain(label) for label in _not_too_many(known)], codes


def _not_too_many(labels: Any) -> Any:
    if len(labels) > MOST_CLASSES:
        raise NoClassesError(
            f"labels: must be at most {MOST_CLASSES:,} classes, got more; values are for models that regress."
        )
    return labels


def _check_labels(labels: Collection[Any]) -> None:
    """Refuse labels that are no classes: words beside numbers, or too many of them."""
    words, others = ([one for one in labels if isinstance(one, str) is kind] for kind in (True, False))
    if words and others:
        raise DataError(
            f"labels: must be of one kind in all parts, got {words[0]!r} and {others[0]!r}; write all of them "
            "as text, or all as numbers."
        )
    if endless := [one for one in others if isinstance(one, float) and not np.isfinite(one)]:
        raise DataError(f"labels: must be finite, got {endless[0]}; drop or label these people.")
    _not_too_many(labels)


def _check_widths(labels: Collection[Any]) -> None:
    """Refuse classes that are the same number, rounded in one file and not in another."""
    seen: dict[float, float] = {}
    for label in labels:
        if isinstance(label, float):
            with np.errstate(over="ignore"):
                other = seen.setdefault(float(np.float32(label)), label)
            if other != label:
                raise NoClassesError(
                    f"labels: must be of one width in all parts, got {other!r} and {label!r}, which are the same in "
                    "float32; write all of them as whole numbers or text, or all as float64."
                )

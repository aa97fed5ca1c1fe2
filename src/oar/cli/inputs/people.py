"""People, their groups and the rows of a query, read from a file and options about its columns."""

from __future__ import annotations

import hashlib
import os
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oar.checks import choose
from oar.cli.inputs.file_dialects import FileDialect
from oar.errors import DataError, OptionError
from oar.people.wording import listed, nearest, shown

if TYPE_CHECKING:
    import pandas

    from oar.actions.limits.limit import Limits
    from oar.people import Population, Schema

MOST_LISTED = 20


@dataclass(frozen=True)
class Layout:
    """The layout of a file, and the role of each column, as options say.

    `features` are columns that the model sees although they look like row numbers or names. `of_card` says whether a
    card says what the features are, and `left_out_if_there` whether a file may lack the columns that are left out, as a
    copy may that was made for an auditor.
    """

    written: FileDialect = FileDialect()
    target: str = ""
    name: str = ""
    left_out: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    weights: str = ""
    schema: Path | Schema | None = None
    missing: str = "refuse"
    plain: bool = False
    of_card: bool = False
    left_out_if_there: bool = False

    def read(self, path: Path, texts: tuple[str, ...] = ()) -> pandas.DataFrame:
        """Return a file as a frame, its people called by the column of names if there is one.

        Names stay texts, as do the columns of `texts`: 004 is not 4.
        """
        frame = self.written.read(path, (*texts, *filter(None, (self.name,))))
        self._check_nameless(frame, path)
        if not self.name:
            return frame
        names = column_of(frame, self.name, "id").map(word).astype(object)
        if frame[self.name].isna().any():
            raise DataError("id: every person must have a name, got an empty cell, or one such as NA.")
        twice = names[names.duplicated()]
        if len(twice):
            raise DataError(f"id: every person must have a name of its own, got {shown(twice.iloc[0])} twice.")
        return frame.assign(**{self.name: names}).set_index(self.name)

    def _check_nameless(self, frame: pandas.DataFrame, path: Path) -> None:
        """Raise for a column without a name of which nobody has said what it is."""
        from oar.people.tables.files import called_by_place
        from oar.people.tables.identities import identities

        if self.of_card:
            return
        said = {self.target, self.name, self.weights, *self.left_out, *self.features}
        for name in (name for name in frame.columns if called_by_place(name) and name not in said):
            why = identities(frame[[name]]).get(name)
            raise DataError(
                f"{path.name}: every column must have a name, got none for {name}{f', which {why}' if why else ''}; "
                f"{self._kept_out(name)}."
            )

    def check_features(self, features: pandas.DataFrame) -> None:
        """Raise where a column counts rows or names people, unless a schema or an option says that it is a feature."""
        from oar.people.tables.identities import identities

        if self.of_card:
            return
        known = loaded(self.schema).names if self.schema else ()
        for name, why in identities(features, (*self.features, *known)).items():
            raise DataError(
                f"DATA: column {shown(name)} is no feature that people could change, it {why}; {self._kept_out(name)}, "
                f"and if it is a feature all the same, --feature {shlex.quote(name)}."
            )

    @staticmethod
    def _kept_out(name: str) -> str:
        quoted = shlex.quote(name)
        return f"use --id {quoted} if it names people (--query is such a name then), or --leave-out {quoted}"

    def without_left_out(self) -> Layout:
        """Return it with a schema of what is not left out: one schema serves with and without a column."""
        from oar.people import Schema

        if not self.schema or not self.left_out or self.plain:
            return self
        kept = tuple(column for column in loaded(self.schema) if column.name not in self.left_out)
        return replace(self, schema=Schema(kept))


def loaded(schema: Path | Schema) -> Schema:
    """Return a schema, read from its file if it is one."""
    from oar.people import Schema

    return schema if isinstance(schema, Schema) else Schema.load(schema)


@dataclass(frozen=True)
class TableInput:
    """A file that is looked at, and how it is laid out; nothing of it is planned for."""

    file: Path
    layout: Layout

    def read(self, schema: Path | None = None) -> tuple[pandas.DataFrame, pandas.DataFrame]:
        """Return a frame without what is left out, and its features; columns of a schema are features anyway."""
        from oar.people.tables.from_frame import features_of

        layout = replace(self.layout, schema=schema)
        layout.written.check(self.file)
        frame = layout.read(self.file)
        for option, columns in (("leave-out", layout.left_out), ("feature", layout.features)):
            for column in columns:
                column_of(frame, column, option)
        frame = frame.drop(columns=list(layout.left_out))
        features = features_of(frame, layout.target or None, layout.weights or None)
        layout.check_features(features)
        return frame, features


@dataclass(frozen=True, eq=False)
class Source:
    """A table of people as it was read: all columns, those that are trained on, and limits that come with the data."""

    frame: pandas.DataFrame
    people: Population
    target: str
    layout: Layout
    file: str
    sha256: str
    limits: Limits | None = None

    def groups(self, column: str, argument: str = "group") -> pandas.Series:
        """Return everyone's value of a column, in the order of the people."""
        values = column_of(self.frame, column, argument)
        return values.loc[self.people.index] if len(values) != self.people.size else values

    def others(self, path: Path) -> tuple[Any, int]:
        """Return people of another file, laid out as this one, to whom the model is not fitted.

        Rows that are among those that it is fitted to, by their name or in every column, are left out, and counted.
        """
        from oar.people import Population

        frame = self.layout.read(path)
        spare = {self.layout.weights, *self.layout.left_out} & set(frame.columns)
        frame = frame.drop(columns=list(spare))
        column_of(frame, self.target, "held-out: the target")
        known = self._known(frame)
        if known.all():
            raise DataError(
                f"held-out: must be people who are not trained on, but every row of {path.name} is among DATA; keep "
                "some of DATA out of it, and give these."
            )
        frame = self._filled(frame[~known], "held-out")
        if self.layout.missing == "drop":
            frame = frame.dropna()
        if not len(frame):
            raise DataError(f"held-out: every row of {path.name} has missing values; fill them in, or leave it out.")
        held = Population(frame.drop(columns=self.target), frame[self.target]) if self.layout.plain else frame
        return held, int(known.sum())

    def _known(self, frame: pandas.DataFrame) -> Any:
        """Report which rows of another file are among those that are trained on."""
        import numpy as np

        trained = self.frame.loc[self.people.index]
        named = np.zeros(len(frame), dtype=bool)
        if self.layout.name:
            named = frame.index.isin(trained.index)
        shared = [name for name in frame.columns if name in trained.columns]
        return named | np.isin(_prints(frame[shared]), _prints(trained[shared]))

    def members(self, column: str, value: str) -> Any:
        """Return a mask of those who have a value in a column, which somebody must."""
        values = self.groups(column, "participants")
        words = values.map(word)
        mask = (words == value).to_numpy()
        if not mask.any():
            known = [str(each) for each in dict.fromkeys(words)]
            raise DataError(
                f"participants: nobody has {shown(value)} in column {shown(column)}, so nobody would take part; its "
                f"values are {listed(known, MOST_LISTED, shown)}.{nearest(value, known)}"
            )
        return mask

    def rows(self, asked: str) -> Any:
        """Return the features of who asks: one row, or several, of these people or of a file."""
        import numpy as np

        found = self.places(asked)
        if found:
            rows = np.asarray(self.people.features, dtype=np.float64)[found]
            return rows[0] if len(found) == 1 else rows
        frame = self.layout.read(Path(asked))
        spare = {self.target, self.layout.weights, *self.layout.left_out} & set(frame.columns)
        frame = self._filled(frame.drop(columns=list(spare)), "query")
        return frame.iloc[0].to_dict() if len(frame) == 1 else frame

    def places(self, asked: str) -> list[int]:
        """Return which of these people ask; nobody of them where the query is a file."""
        path = Path(asked)
        if path.suffix and os.path.isfile(path):
            return []
        places = {word(name): place for place, name in enumerate(self.people.index)}
        names = [part.strip() for part in asked.split(",")]
        for name in names:
            if name not in places:
                raise DataError(self._no_such_row(name))
            if names.count(name) > 1:
                raise DataError(f"query: everyone asks once, got {name!r} twice; leave one out.")
        return [places[name] for name in names]

    def _no_such_row(self, name: str) -> str:
        if name in {word(each) for each in self.frame.index}:
            return f"query: row {name} has missing values and was dropped; use --missing impute, or ask in a file."
        if self.layout.name:
            known = [word(each) for each in self.frame.index]
            return f"query: must be a value of {shown(self.layout.name)} or a file, got {name!r}.{nearest(name, known)}"
        last = len(self.frame) - 1
        return f"query: must be a row from 0 to {last} (the header not counted) or a file that exists, got {name!r}."

    def _filled(self, frame: pandas.DataFrame, argument: str) -> pandas.DataFrame:
        """Return rows of another file, their gaps filled as those of the people, where these are."""
        from oar.people.tables.missing import filled_as

        if self.layout.missing != "impute" or self.people.schema is None:
            return frame
        return filled_as(frame, self.frame.loc[self.people.index], self.people.schema, argument)

    def filled_of(self, asked: str) -> list[str]:
        """Return which columns of those who ask were missing and filled in."""
        import numpy as np

        schema, found = self.people.schema, self.places(asked)
        if schema is None or self.layout.missing != "impute":
            return []
        if not found:
            frame = self.layout.read(Path(asked))
            return [name for name in schema.names if name in frame and frame[name].isna().any()]
        filled = self.people.imputed
        return [] if filled is None else [schema.names[place] for place in np.flatnonzero(filled[found].any(axis=0))]


def read_people(path: Path | None, example: str, layout: Layout) -> Source:
    """Read a file, or data that ship with the package."""
    from oar.people import Population, Schema
    from oar.people.tables.from_frame import features_of

    if example:
        return _example(path, example, layout)
    check_data(path, example)
    assert path is not None
    layout = layout.without_left_out()
    if not layout.target:
        raise OptionError("--target: must be the column that the model predicts, got none.")
    layout.written.check(path)
    frame = layout.read(path)
    column_of(frame, layout.target, "target")
    for name in () if layout.left_out_if_there else layout.left_out:
        column_of(frame, name, "leave-out")
    seen = frame.drop(columns=list(layout.left_out), errors="ignore")
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest() if os.path.isfile(path) else ""
    features = seen.drop(columns=[name for name in (layout.target, layout.weights) if name in seen])
    for name in layout.features:
        column_of(features, name, "feature")
    layout.check_features(features)
    if not layout.plain:
        # A schema says that all its columns are features: what was to be refused has been.
        schema = layout.schema or Schema.infer(features_of(seen, layout.target, layout.weights or None))
        people = Population.from_frame(
            seen, layout.target, schema=schema, weights=layout.weights or None, missing=layout.missing
        )
        return Source(frame, people, layout.target, layout, path.name, sha256)
    if layout.schema is not None:
        raise OptionError("--schema: says what columns are, and with --plain all are numbers; leave one out.")
    if layout.missing == "impute":
        raise OptionError(
            "--missing: must be refuse or drop with --plain, which fills no gaps, got 'impute'; leave out --plain, or "
            "use --missing drop."
        )
    if layout.missing != "refuse":
        choose("missing", layout.missing, ("refuse", "drop"))
        seen = seen.dropna()
    weighed = [layout.weights] if layout.weights else []
    weights = [column_of(seen, name, "weights") for name in weighed]
    people = Population(seen.drop(columns=[layout.target, *weighed]), seen[layout.target], *weights)
    return Source(frame, people, layout.target, layout, path.name, sha256)


def check_data(path: Path | None, example: str) -> None:
    """Raise where there are no people to ask about."""
    if path is None and not example:
        raise OptionError("DATA: must be a file of people, got none; or name --example german-credit.")


def _example(path: Path | None, example: str, layout: Layout) -> Source:
    from oar.datasets import german_credit
    from oar.datasets.credit import FILE

    choose("example", example, ["german-credit"])
    if path is not None:
        raise OptionError("--example: stands in place of DATA, and both were given; leave one out.")
    called = {"name": "id", "left_out": "leave-out", "features": "feature"}
    parts = ("target", "schema", "name", "weights", "plain", "left_out", "features")
    own = [called.get(part, part) for part in parts if getattr(layout, part)]
    for option in (*own, *layout.written.given, *(["missing"] if layout.missing != "refuse" else [])):
        raise OptionError(f"--{option}: the example has its own; leave it out.")
    loans = german_credit()
    digest = hashlib.sha256(Path(str(FILE)).read_bytes()).hexdigest()
    file = Path(str(FILE)).name
    return Source(loans.frame, loans.population, loans.target, layout, file, digest, loans.limits)


def column_of(frame: pandas.DataFrame, name: str, argument: str) -> pandas.Series:
    """Return a column; raise where there is none of that name."""
    if name not in frame.columns:
        known = [str(each) for each in frame.columns]
        hint = nearest(name, known) or f" Its columns are {', '.join(map(shown, known[:MOST_LISTED]))}."
        raise DataError(f"{argument}: must be a column of the data, got {shown(name)}.{hint}")
    return frame[name]


def _prints(frame: pandas.DataFrame) -> Any:
    """Return a number for each row that is the same for the same cells, whether read as 1 or as 1.0."""
    import pandas

    numeric = pandas.api.types.is_numeric_dtype
    cells = {
        name: frame[name].astype("float64") if numeric(frame[name].dtype) else frame[name].astype(str)
        for name in frame.columns
    }
    return pandas.util.hash_pandas_object(pandas.DataFrame(cells), index=False).to_numpy()


def word(value: Any) -> str:
    """Return a value as it would be typed: 17 also where gaps made it 17.0."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)

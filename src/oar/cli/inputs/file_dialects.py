"""The dialect of a table's file: separators between cells, marks in numbers, and words for missing values."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oar.errors import OptionError

if TYPE_CHECKING:
    import pandas

TEXTS = ("sep", "encoding", "decimal", "thousands")  # what makes sense of texts alone
LONG_SEPARATORS = (r"\t", r"\s+")  # as shells hand them on
BINARY = (".parquet", ".pq")
BOOKS = (".xlsx", ".xlsm")


@dataclass(frozen=True)
class FileDialect:
    """The dialect in which a file is written; `na` are words for a missing value, beside those that pandas knows."""

    sep: str = ""
    encoding: str = ""
    decimal: str = ""
    thousands: str = ""
    na: tuple[str, ...] = ()
    sheet: str = ""

    @property
    def given(self) -> tuple[str, ...]:
        """The options that were given."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name))

    def read(self, path: Path, texts: tuple[str, ...] = ()) -> pandas.DataFrame:
        """Return a file as a frame in which the columns of `texts` stay texts; one without a name is "column 1"."""
        from oar.people import read_table
        from oar.people.tables.files import called_by_place

        kind = path.suffix.lower()
        options: dict[str, Any] = {}
        if kind not in (*BINARY, *BOOKS):
            options |= {"sep": "\t" if self.sep == r"\t" else self.sep, "encoding": self.encoding}
        if kind not in BINARY:
            names = [name for text in texts for name in (text, *called_by_place(text))]
            options |= {
                "dtype": dict.fromkeys(names, str),
                "decimal": self.decimal,
                "thousands": self.thousands,
                "na_values": list(self.na),
            }
        if kind in BOOKS:
            options["sheet_name"] = self.sheet
        return read_table(path, by_place=True, **{name: value for name, value in options.items() if value})

    def check(self, path: Path) -> None:
        """Refuse options that would do nothing to the file that they are about, and marks that cannot be."""
        kind = path.suffix.lower()
        idle = TEXTS + ("na", "sheet") if kind in BINARY else ("sep", "encoding") if kind in BOOKS else ("sheet",)
        for name in (name for name in self.given if name in idle):
            what = "Parquet" if kind in BINARY else "a workbook" if kind in BOOKS else "no workbook"
            about = "sheets of an .xlsx file" if name == "sheet" else "texts"
            raise OptionError(f"--{name}: is for {about}, and {path.name} is {what}; leave it out.")
        if len(self.sep) > 1 and self.sep not in LONG_SEPARATORS:
            raise OptionError(
                rf"--sep: must be one character, \t for a tab, or \s+ for any number of blanks, got {self.sep!r}."
            )
        for name in ("decimal", "thousands"):
            mark = getattr(self, name)
            if len(mark) > 1 or mark.isalnum():
                raise OptionError(f"--{name}: must be one mark, such as a comma, got {mark!r}.")
        if self.decimal and self.decimal == self.thousands:
            raise OptionError(f"--decimal and --thousands: must be different marks, got {self.decimal!r} for both.")
        if self.thousands and self.thousands == (self.decimal or "."):
            raise OptionError(
                f"--thousands: is the decimal mark, too, got {self.thousands!r}; say --decimal , where that is a comma."
            )

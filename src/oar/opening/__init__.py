"""Files that are read: regular ones alone, of sizes that were looked at first, with errors that name the file."""

from oar.opening.arrays import read_npz
from oar.opening.documents import naming, read_json, read_text, read_toml
from oar.opening.fields import Fields
from oar.opening.regular import opened, regular
from oar.opening.unpacking import MODEST, RATIO, BoundedReader

__all__ = [
    "MODEST",
    "RATIO",
    "BoundedReader",
    "Fields",
    "naming",
    "opened",
    "read_json",
    "read_npz",
    "read_text",
    "read_toml",
    "regular",
]

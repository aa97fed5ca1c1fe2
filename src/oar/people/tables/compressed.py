"""Compressed texts: opened here rather than by pandas, so that what they unpack to can be bounded."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oar.errors import StorageError
from oar.opening import BoundedReader

OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


@contextmanager
def unpacked(path: Path, options: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield what pandas is to read a text from, and with which options: the path itself where nothing is packed."""
    ending = path.suffix.lower()
    if options.get("compression", "infer") != "infer" or ending not in (*OPENERS, ".zip"):
        yield path, options
        return
    with (
        _zipped(path) if ending == ".zip" else OPENERS[ending](path, "rb") as content,
        io.BufferedReader(BoundedReader(content, str(path), path.stat().st_size)) as source,
    ):
        yield source, options | {"compression": None}


@contextmanager
def _zipped(path: Path) -> Iterator[Any]:
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        if len(members) != 1:
            raise StorageError(f"path: {path} must hold one file, got {len(members)}; unpack it, and name one of them.")
        with archive.open(members[0]) as content:
            yield content

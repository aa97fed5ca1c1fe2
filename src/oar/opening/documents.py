"""JSON and TOML: what a file holds, or one line on why it holds neither."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oar.errors import DataError, OptionError, StorageError
from oar.opening.regular import opened

DEEP = "it is nested too deeply"
MOST = 1 << 28  # bytes: what is read here are settings, and people's own limits


def read_text(path: Any, argument: str = "", most: int = MOST) -> str:
    """Return a file's text, in UTF-8; a mark of that at its beginning is left out."""
    said = f"{argument}: " if argument else ""
    with opened(path, argument) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise StorageError(f"{said}{path} is no such file: it must have at most {most:,} bytes, got more.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise StorageError(
            f"{said}{path} is damaged or no text: it must be UTF-8, got byte {content[error.start]:#04x} at position "
            f"{error.start:,}."
        ) from None


def read_json(path: Any, argument: str = "") -> Any:
    """Return what a JSON file holds; what JSON has no word for (NaN, infinity, a name twice) is refused."""
    text = read_text(path, argument)
    try:
        return parsed_json(text)
    except ValueError as error:
        said = f"{argument}: " if argument else ""
        raise StorageError(
            f"{said}{path} is damaged or truncated ({str(error)[:200]}); ask for a fresh copy."
        ) from None


def parsed_json(text: str) -> Any:
    """Return what a text of JSON says; raise a ValueError for any other."""
    try:
        found = json.loads(text, object_pairs_hook=_once, parse_float=_finite, parse_constant=_finite)
        if "\\ud" in text.lower():
            json.dumps(found, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError(DEEP) from None
    except UnicodeEncodeError as error:
        raise ValueError(f"texts must be Unicode, got half a character, {error.object[error.start]!r}") from None
    return found


@contextmanager
def naming(path: Any) -> Iterator[None]:
    """Prefix errors about a file's content with the file's name."""
    try:
        yield
    except (DataError, OptionError) as error:
        raise type(error)(f"{Path(path).name}: {error}") from None


def read_toml(path: Any, argument: str = "", kind: str = "a TOML file") -> dict[str, Any]:
    """Return what a TOML file holds; `kind` says what it should have been."""
    text = read_text(path, argument)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        said = f"{argument}: " if argument else ""
        reason = DEEP if isinstance(error, RecursionError) else str(error)[:200]
        raise StorageError(f"{said}{path}: must be {kind} ({reason}).") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)[:80]!r} is said twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"numbers must be finite, got {text[:40]}")
    return number

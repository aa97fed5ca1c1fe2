"""Texts that programs and people read: strictly valid JSON, into which no NaN slips, and tables as Markdown."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np

from oar.errors import DataError


def as_plain(value: Any, path: str = "results") -> Any:
    """Return `value` made of dicts, lists, strings, numbers, booleans and None only.

    JSON has no NaN and no infinity: such a number raises, with its place, so that whoever computes it decides what
    it means (usually None).

    >>> as_plain({"losses": np.array([1.0, 0.5]), "reached": np.bool_(True)})
    {'losses': [1.0, 0.5], 'reached': True}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        named = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return as_plain(named, path)
    match value:
        case Mapping():
            return {str(name): as_plain(part, f"{path}.{name}") for name, part in value.items()}
        case np.ndarray() | np.generic():
            return as_plain(value.tolist(), path)
        case list() | tuple():
            return [as_plain(part, f"{path}[{position}]") for position, part in enumerate(value)]
        case Enum():
            return value.value
        case float() if not math.isfinite(value):
            raise DataError(f"{path}: must be a finite number, got {value}; JSON has no word for it, so say None.")
        case None | str() | int() | float():
            return value
    raise DataError(f"{path}: must be numbers, strings or containers of them, got {type(value).__name__}.")


def json_text(value: Any) -> str:
    """Return strictly valid JSON, with rows of numbers kept on one line so that people can read it."""
    return _pretty(as_plain(value), 0) + "\n"


def _pretty(value: Any, depth: int) -> str:
    pad, end = " " * (depth + 1), " " * depth
    match value:
        case dict() if value:
            named = ((json.dumps(name, ensure_ascii=False), part) for name, part in value.items())
            parts = (f"{pad}{name}: {_pretty(part, depth + 1)}" for name, part in named)
            return "{\n" + ",\n".join(parts) + f"\n{end}}}"
        case list() if any(isinstance(part, list | dict) for part in value):
            return "[\n" + ",\n".join(pad + _pretty(part, depth + 1) for part in value) + f"\n{end}]"
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; a bar inside a cell is escaped.

    >>> print(markdown_table(["data", "accuracy"], [["Iris", "92.7 %"]]))
    | data | accuracy |
    | --- | --- |
    | Iris | 92.7 % |
    """
    lines = [_line(header), _line(["---"] * len(header)), *(_line(row) for row in rows)]
    return "\n".join(lines)


def _line(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"

"""The question of a plan as private.json keeps it: files are kept with their contents."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from oar.cli.inputs.file_dialects import FileDialect
from oar.cli.inputs.people import Layout
from oar.cli.inputs.problem import NO_LIMITS, ProblemArguments
from oar.errors import DataError, StorageError
from oar.opening.fields import Fields

PARTS: dict[str, Any] = {"layout": Layout, "written": FileDialect}
LEFT_OUT = ("data", "card_goal", "left_out_if_there")  # people are handed to the auditor by another way

READ: dict[str, Callable[[Fields, str], Any]] = {  # by how dataclasses say it
    "str": Fields.text,
    "bool": Fields.flag,
    "int": lambda content, name: content.whole(name, 0, 2**63 - 1),
    "float": Fields.number,
    "tuple[str, ...]": lambda content, name: tuple(content.texts(name)),
}


def asked_to_json(asked: ProblemArguments) -> dict[str, Any]:
    """Return what was asked, and every file that says some of it."""
    query = asked.query
    found = _to_json(asked)
    if Path(query).suffix and os.path.isfile(query):
        found["query"] = _to_json(Path(query))
    return found


def _to_json(value: Any) -> Any:
    if value == NO_LIMITS:  # a word in place of a file
        return str(value)
    if isinstance(value, Path):
        return {"file": value.name, "content": base64.b64encode(value.read_bytes()).decode()}
    if is_dataclass(value):
        named = {field.name: getattr(value, field.name) for field in fields(value) if field.name not in LEFT_OUT}
        return {name: _to_json(each) for name, each in named.items() if each not in (None, (), "")}
    return list(value) if isinstance(value, tuple) else value


def asked_from_json(content: Any, data: Path | None, folder: Path) -> ProblemArguments:
    """Return what was asked, of the people in a file; files are written into a folder again."""
    try:
        return _from_json(ProblemArguments, Fields(content, "asked"), folder, data=data)
    except (DataError, OSError, ValueError) as error:  # no name of a file, no base 64
        raise StorageError(
            f"private.json: what was asked cannot be read ({error}); use the oar that wrote it, or audit plan.json "
            "with the options of the plan."
        ) from None


def _from_json(kind: Any, content: Fields, folder: Path, **given: Any) -> Any:
    known = {field.name: field.type.removesuffix(" | None") for field in fields(kind) if field.name not in LEFT_OUT}
    return kind(**{name: _value(content, name, known.get(name), folder) for name in content}, **given)


def _value(content: Fields, name: str, kind: str | None, folder: Path) -> Any:
    """Return what a field holds, which must be of the kind that a dataclass says."""
    if kind is None:
        raise DataError(f"field {name!r} is not known")
    if name in PARTS:
        return _from_json(PARTS[name], content.inner(name), folder)
    if kind in READ:
        if not (name == "query" and isinstance(content.any(name), dict)):
            return READ[kind](content, name)
    elif name == "limits" and content.any(name) == str(NO_LIMITS):
        return NO_LIMITS
    file = content.inner(name)
    path = folder / f"{name}-{Path(file.text('file')).name}"
    path.write_bytes(base64.b64decode(file.text("content"), validate=True))
    return str(path) if name == "query" else path

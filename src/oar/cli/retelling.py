"""What was asked on the command line, as private.json keeps it: files are kept with what is in them."""

from __future__ import annotations

import base64
import binascii
import os
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from oar.cli.asking import NO_LIMITS, Asked
from oar.cli.reading import Layout
from oar.cli.writing import Writing
from oar.errors import StorageError

PARTS: dict[str, Any] = {"layout": Layout, "written": Writing}
LEFT_OUT = ("data", "card_goal", "left_out_if_there")  # people are handed to the auditor by another way


def asked_to_json(asked: Asked) -> dict[str, Any]:
    """Return what was asked, and every file that says some of it."""
    query = asked.query
    found = _to_json(asked)
    if query is not None and Path(query).suffix and os.path.isfile(query):
        found["query"] = _to_json(Path(query))
    return found


def _to_json(value: Any) -> Any:
    if value == NO_LIMITS:  # a word in place of a file
        return str(value)
    if isinstance(value, Path):
        return {"file": value.name, "content": base64.b64encode(value.read_bytes()).decode()}
    if is_dataclass(value):
        named = {field.name: getattr(value, field.name) for field in fields(value) if field.name not in LEFT_OUT}
        return {name: _to_json(each) for name, each in named.items() if each not in (None, ())}
    return list(value) if isinstance(value, tuple) else value


def asked_from_json(content: Any, data: Path | None, folder: Path) -> Asked:
    """Return what was asked, of the people in a file; files are written into a folder again."""
    try:
        return _from_json(Asked, {**content, "data": None}, folder, data=data)
    except (KeyError, TypeError, ValueError, AttributeError, binascii.Error) as error:
        raise StorageError(
            f"private.json: what was asked cannot be read ({error}); use the oar that wrote it, or audit plan.json "
            "with the options of the plan."
        ) from None


def _from_json(kind: Any, content: dict[str, Any], folder: Path, **given: Any) -> Any:
    known = {field.name for field in fields(kind)}
    values: dict[str, Any] = {}
    for name, value in content.items():
        if name not in known:
            raise KeyError(name)
        if name in PARTS:
            values[name] = _from_json(PARTS[name], value, folder)
        elif isinstance(value, dict):
            path = folder / f"{name}-{Path(value['file']).name}"
            path.write_bytes(base64.b64decode(value["content"], validate=True))
            values[name] = str(path) if name == "query" else path
        elif name == "limits":
            values[name] = Path(value)
        else:
            values[name] = tuple(value) if isinstance(value, list) else value
    return kind(**(values | given))

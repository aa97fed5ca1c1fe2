"""What tells one problem over time from another: everything that a plan for it depends on, as one short text."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from oar.online.problem import OnlineProblem


def fingerprint(problem: OnlineProblem) -> str:
    """Return a digest of the people and when they arrive, model and rule with their settings, query, goal and limits.

    Functions, as of a user's own model, count by their names.
    """
    stream, everyone, query = problem.stream, problem.everyone, problem.query
    digest = hashlib.sha256()
    parts = (
        (stream.people.features, [str(label) for label in stream.people.labels.tolist()], stream.people.weights),
        (stream.when, stream.who),
        (problem.model, problem.rule, problem.start),
        (everyone.asked.points, everyone.asked.members, everyone.goal_words),
        (query.within, query.probability, query.several, query.share, problem.goal_for),
        (problem.radii, everyone.allowance.norm.p, problem.shared),
    )
    for part in told(parts):
        digest.update(part)
    return digest.hexdigest()


def told(value: Any) -> Iterator[bytes]:
    """Yield a value as bytes, the same wherever it is told: the kind of a thing, then what it is made of."""
    if isinstance(value, bool | np.bool_ | int | np.integer | float | np.floating):
        whole = isinstance(value, int | np.integer) and abs(int(value)) > 2**53  # which floats cannot tell apart
        yield f"{int(value) if whole else float(value)!r};".encode()  # 1 is 1.0
    elif value is None or isinstance(value, str | bytes):
        yield f"{value!r};".encode()
    elif isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        yield f"array{value.shape};".encode()
        yield np.ascontiguousarray(value, dtype=np.float64).tobytes()
    elif isinstance(value, Mapping):
        yield from told([(name, value[name]) for name in sorted(value, key=repr)])
    elif isinstance(value, set | frozenset):
        yield from told(sorted(value, key=repr))
    elif isinstance(value, list | tuple | np.ndarray):
        yield f"{len(value)}:".encode()
        for each in value:
            yield from told(each)
    elif callable(value) and not dataclasses.is_dataclass(value):
        yield f"{getattr(value, '__qualname__', type(value).__qualname__)};".encode()
    else:
        yield f"{type(value).__qualname__}:".encode()
        yield from told(_settings(value))


def _settings(thing: Any) -> dict[str, Any]:
    """Return what a thing was made with; what it keeps to itself (_names) is left out."""
    if dataclasses.is_dataclass(thing):
        return {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing) if field.init}
    return {name: value for name, value in getattr(thing, "__dict__", {}).items() if not name.startswith("_")}

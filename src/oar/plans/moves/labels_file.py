"""Labels and levels in JSON: strings, numbers, booleans, or {"tuple": [...]}."""

from __future__ import annotations

import math
from typing import Any

from oar.errors import DataError
from oar.opening.fields import Fields, said


def label_to_json(label: Any) -> Any:
    """Return a label as JSON can hold it; raise a DataError for any other."""
    match label:
        case str() | int():
            return label
        case float() if math.isfinite(label):
            return label
        case tuple():
            return {"tuple": [label_to_json(part) for part in label]}
    raise DataError(
        f"labels: a card can hold strings, numbers, booleans and tuples of them, got {label!r} of type "
        f"{type(label).__name__}; use such labels if you want to publish the plan."
    )


def label_from_json(label: Any) -> Any:
    """Return the label; raise a ValueError for what is none."""
    match label:
        case dict():
            return tuple(label_from_json(part) for part in Fields(label, "label").listed("tuple"))
        case list() | None:
            raise ValueError(f"a label cannot be {said(label)}")
    return label

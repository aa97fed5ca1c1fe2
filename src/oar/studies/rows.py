"""Rows of a study's table: an answer's numbers, and the rest as JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from oar.people.labels import plain
from oar.plans import Result

# Numbers that may be infinite or missing have columns of their own: JSON has no words for them.
NUMBERS = ("loss", "before", "gap", "bound", "margin", "tie", "effort", "residual")
COUNTS = ("passes", "movers", "relabelled", "leavers")
FLAGS = ("success", "success_before", "exact", "converged")
TEXTS = ("status", "solver", "witness")
JSON = ("prediction", "prediction_before", "violations", "rate")
FACTS = (*NUMBERS, *COUNTS, *FLAGS, *TEXTS, *JSON)
Row = dict[str, Any]


def row_of(result: Result) -> Row:
    """Return a result's row; its success is the audit's finding, not the solver's."""
    audit = result.audit
    found = {name: getattr(audit, name) for name in FACTS if hasattr(audit, name)}
    found |= {name: getattr(result, name) for name in ("gap", "bound", "passes", "exact", "status")}
    found |= {"before": audit.loss_before, "solver": result.proposal.solver}
    kinds = dict.fromkeys(COUNTS, int) | dict.fromkeys(FLAGS, bool) | dict.fromkeys(JSON, _json) | {"status": str}
    row = {name: kinds[name](found[name]) if name in kinds else found[name] for name in FACTS}
    return row | {"rate": audit.rate and _json({"successes": audit.rate.successes, "refits": audit.rate.refits})}


def _json(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, sort_keys=True)


def _plain(value: Any) -> Any:
    """Return a value in JSON's own kinds; what has none, such as a date, as text."""
    match plain(value):
        case dict() as named:
            return {str(name): _plain(each) for name, each in named.items()}
        case list() | tuple() | np.ndarray() as several:
            return [_plain(each) for each in several]
        case float() as number if not math.isfinite(number):
            return None
        case None | bool() | int() | float() | str() as simple:
            return simple
        case other:
            return str(other)

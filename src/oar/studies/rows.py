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
    rate = audit.rate and _json({"successes": audit.rate.successes, "refits": audit.rate.refits})
    return {
        "loss": audit.loss,
        "before": audit.loss_before,
        "gap": result.gap,
        "bound": result.bound,
        "margin": audit.margin,
        "tie": audit.tie,
        "effort": audit.effort,
        "residual": audit.residual,
        "passes": int(result.passes),
        "movers": int(audit.movers),
        "relabelled": int(audit.relabelled),
        "leavers": int(audit.leavers),
        "success": bool(audit.success),
        "success_before": bool(audit.success_before),
        "exact": bool(result.exact),
        "converged": bool(audit.converged),
        "status": str(result.status),
        "solver": result.proposal.solver,
        "witness": audit.witness,
        "prediction": _json(audit.prediction),
        "prediction_before": _json(audit.prediction_before),
        "violations": _json(audit.violations),
        "rate": rate,
    }


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

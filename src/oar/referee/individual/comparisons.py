"""Comparisons in rules, as an audit reads them where rounding may have decided."""

from __future__ import annotations

from typing import Any

WITH_EDGE, WITHOUT_EDGE = ("<=", ">=", "=="), ("<", ">", "!=")


def holds(operator: str, now: Any, edge: Any, slack: Any, surely: bool) -> Any:
    """Report whether a comparison is true, of numbers or arrays; what `slack` may have decided is false if `surely`.

    Otherwise it is true. An edge at which a condition begins to apply is meant to the digit; so is one at which a
    consequence ends.
    """
    if operator in (WITH_EDGE if surely else WITHOUT_EDGE):
        slack = 0.0 * slack
    more = -slack if surely else slack
    return {
        "<": now < edge + more,
        "<=": now <= edge + more,
        ">": now > edge - more,
        ">=": now >= edge - more,
        "==": abs(now - edge) <= slack,
        "!=": abs(now - edge) > slack,
    }[operator]

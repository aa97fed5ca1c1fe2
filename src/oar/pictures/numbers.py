"""Numbers for people, with enough digits that they can be computed again, and rows of what is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from oar.checks import is_whole
from oar.tolerances import ROUNDING

DIGITS = 6
UNKNOWN: tuple[Any, ...] = (None, "", [], ())


def number(value: Any) -> str:
    """Return a number with six digits at most, and thousands apart.

    >>> number(1234567.0), number(0.25), number(-1 / 3), number(None), number(float("nan"))
    ('1,234,570', '0.25', '−0.333333', '–', '–')
    """
    if value is None or (isinstance(value, float | np.floating) and math.isnan(value)):
        return "–"
    if is_whole(value):
        return f"{value:,}".replace("-", "−")
    value = float(value)
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size and not 1e-4 <= size < 1e9:
        return f"{value:.{DIGITS - 1}e}".replace("-", "−")
    places = max(0, DIGITS - 1 - (math.floor(math.log10(size)) if size else 0))
    rounded = float(f"{value:.{DIGITS}g}")
    shown = f"{rounded:,.{places}f}"
    return (shown.rstrip("0").rstrip(".") if "." in shown else shown).replace("-", "−")


def loss(value: Any) -> str:
    """Return a loss: below 1e-12 it is rounding, and shown as 0.

    >>> loss(0.25), loss(3e-31), loss(None)
    ('0.25', '0', '–')
    """
    return "0" if value is not None and abs(value) < ROUNDING else number(value)


def percent(share: Any) -> str:
    """Return a share as a percentage, with two digits after the point.

    >>> percent(0.2534), percent(1), percent(None), percent(0.000001), percent(0.999999)
    ('25.34 %', '100 %', '–', '< 0.01 %', '> 99.99 %')
    """
    if share is None or math.isnan(float(share)):
        return "–"
    hundredths = 100 * float(share)
    if 0 < hundredths < 0.005:
        return "< 0.01 %"
    if 99.995 <= hundredths < 100:
        return "> 99.99 %"
    return f"{hundredths:.2f}".rstrip("0").rstrip(".").replace("-", "−") + " %"


def shortened(value: Any, most: int = 60) -> str:
    """Return a text that fits into a line of a table.

    >>> shortened("x" * 100, 5)
    'xxxx…'
    """
    words = str(value)
    return words if len(words) <= most else words[: most - 1] + "…"


def known_rows(*rows: tuple[str, Callable[[Any], str], Any]) -> list[tuple[str, str]]:
    """Return names with values in words, by a function each; without those of which nothing is known.

    >>> known_rows(("budget", "{:g} each".format, 0.0), ("limits", str, None), ("filled in", ", ".join, []))
    [('budget', '0 each')]
    """
    return [(name, say(value)) for name, say, value in rows if value not in UNKNOWN]

"""Rows of a table in which only what is known is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

UNKNOWN: tuple[Any, ...] = (None, "", [], ())


def known_rows(*rows: tuple[str, Callable[[Any], str], Any]) -> list[tuple[str, str]]:
    """Return names with values in words, by a function each; without those of which nothing is known.

    >>> known_rows(("budget", "{:g} each".format, 0.0), ("limits", str, None), ("filled in", ", ".join, []))
    [('budget', '0 each')]
    """
    return [(name, say(value)) for name, say, value in rows if value not in UNKNOWN]

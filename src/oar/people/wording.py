"""Words that errors about tables share: values that fit on a line, and the nearest name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Any

from oar.checks import NEAR
from oar.people.labels import plain

MOST_SHOWN = 80  # characters of one value; a cell may hold megabytes


def shown(value: Any) -> str:
    """Return a value as it is written in Python, on one line and shortened.

    >>> shown(3.5), shown("x" * 1_000_000)[-30:]
    ('3.5', "xxxxx…' (1,000,000 characters)")
    """
    value = plain(value)
    match value:
        case str() if len(value) > MOST_SHOWN:
            return f"{value[:MOST_SHOWN]!r}".removesuffix("'") + f"…' ({len(value):,} characters)"
        case bytes() if len(value) > MOST_SHOWN:
            return f"{value[:MOST_SHOWN]!r}… ({len(value):,} characters)"
        case int() if value.bit_length() > 3 * MOST_SHOWN:
            return f"a whole number of some {round(value.bit_length() * 0.30103):,} digits"  # log₁₀ 2
    return repr(value)


def nearest(value: Any, known: Iterable[Any], question: str = "Did you mean") -> str:
    """Return a hint such as " Did you mean 'age'?", or nothing where no name is near.

    >>> nearest("aeg", ["age", "sex"])
    " Did you mean 'age'?"
    >>> nearest("name", ["age", "sex"])
    ''
    """
    # The comparison's time grows with the product of the lengths, and no long text is a misspelt name.
    names = [str(name)[:MOST_SHOWN] for name in known]
    found = difflib.get_close_matches(str(value)[:MOST_SHOWN], names, n=1, cutoff=NEAR)
    return f" {question} {found[0]!r}?" if found else ""


def lined_up(rows: Iterable[tuple[str, ...]]) -> str:
    """Return texts as a table.

    >>> print(lined_up([("age", "immutable"), ("income", "only up")]))
    age     immutable
    income  only up
    """
    every = list(rows)
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in every)


def counted(number: int, one: str, more: str) -> str:
    """Return a number with the words that go with it.

    >>> counted(1, "member moves", "members move"), counted(2_000, "member moves", "members move")
    ('1 member moves', '2,000 members move')
    """
    return f"{number:,} {one if number == 1 else more}"


def listed(values: Iterable[Any], most: int, say: Callable[[Any], str] = repr) -> str:
    """Return the first of some values in words, and whether there are more.

    >>> listed("abc", 2)
    "'a', 'b', …"
    """
    every = list(values)
    return ", ".join(map(say, every[:most])) + (", …" if len(every) > most else "")


def repeated(names: Iterable[Any]) -> list[Any]:
    """Return the names that occur again, in the order in which they do."""
    seen, again = set(), []
    for name in names:
        if name in seen:
            again.append(name)
        seen.add(name)
    return again

"""Numbers that stand for a missing value: -999, 98 among counts up to 13, -1 where nothing else is negative.

Some numbers are written for "unknown", "refused" and the like: -1 to -9, numbers of nines (9, 99, 999 …), those that
end in 6, 7 or 8 after nines, of sevens or of eights, either sign, and the ends of computers' whole numbers. One of
these is taken for a code only where it stands apart:

- it is beyond all other values: below them where it is negative, above them where it is positive;
- and it is the only kind of negative value, or further away than twice the range of the others, or at least one person
  in a thousand has it, many more than have any of the values next to it, behind a gap wider than theirs.

Who has a code that is none keeps its value, and loses little. Whatever is near the others is one of them: 97, 98 and
99 hours after 96, -1 before 0 and 1, the end of a long tail.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from oar.people.tables.encoding import Array
from oar.people.tables.schema import GAPS
from oar.tolerances import FEW_PEOPLE

AFAR = 2.0  # times the range of the others
COMMON = 0.001  # of the people
MORE = 5  # times as many as have any value nearby
NEARBY, AROUND = 3, 10  # values: by how many people have them, and by the gaps between them
LEVELS = 5  # different values, below which -1 may well be one of them
LIKELY = re.compile(r"9{1,10}|9{1,9}[678]|7{2,6}|8{2,6}|32767|32768|65535|2147483647|2147483648|4294967295")

UNKNOWN = frozenset(
    {*GAPS, "na", "n/a", "nan", "none given", "null", "missing", "unknown", "not known", "refused", "undisclosed"}
    | {"don't know", "prefer not to say", "unbekannt", "keine angabe", "inconnu", "desconocido", "sconosciuto"}
    | {"desconhecido", "onbekend"}
)
"""Words for a missing value among the levels of a category, in small letters."""


def codes(values: Array) -> tuple[float, ...]:
    """Return the numbers among values (n,) that seem to stand for a missing value, in their order.

    >>> late = np.array([0.0] * 80 + [1.0] * 10 + [2.0] * 4 + [98.0] * 6)
    >>> codes(late)
    (98.0,)
    >>> codes(np.array([-1.0, 0.0, 1.0] * 30))
    ()
    """
    distinct, counts = np.unique(values, return_counts=True)
    found = _above(distinct, counts, len(values), negative=False)
    found += [-code for code in _above(-distinct[::-1], counts[::-1], len(values), negative=True)]
    return tuple(sorted(found))


def _above(distinct: Array, counts: NDArray[np.intp], size: int, negative: bool) -> list[float]:
    """Return the codes above all other values; with `negative` these are mirrored, and so are those returned."""
    # What may be a code on the other side says nothing about how far the others reach.
    others = [value for value in distinct if not (_likely(value, negative) or _likely(-value, not negative))]
    if len(others) < (1 if negative else 2):
        return []
    first = int(np.searchsorted(distinct, others[-1])) + 1
    while first < len(distinct) and not _apart(distinct, counts, first, size, float(others[0]), negative):
        first += 1  # what is near the others is one of them
    found, held = distinct[first:], counts[first:]
    if not len(found):
        return []
    told = {float(code) for code, count in zip(found, held, strict=True) if count >= FEW_PEOPLE}
    rare = {float(code) for code in found} - told
    # A code that few people have is named with all of its like, so that it is not theirs.
    like = {float(code) for one in rare for code in _alike(one) if code >= found[0]}
    return sorted(told | rare | like)


def _likely(value: float, negative: bool) -> bool:
    """Report whether a number is one that is written for a missing value."""
    if value <= 0 or value != np.floor(value):
        return False
    return (negative and value <= 9) or LIKELY.fullmatch(f"{value:.0f}") is not None


def _alike(code: float) -> list[float]:
    """Return the codes that are used beside one: 96 to 99 beside 98, 99 beside 9, and 88 beside 77."""
    text = f"{code:.0f}"
    if set(text[:-1]) == {"9"} and text[-1] in "6789":
        return [float(text[:-1] + end) for end in "6789"]
    return [code, *(float(digit * max(len(text), 2)) for digit in "789")] if len(set(text)) == 1 else [code]


def _apart(distinct: Array, counts: NDArray[np.intp], at: int, size: int, least: float, negative: bool) -> bool:
    """Report whether a value stands apart from all below it."""
    code, below = distinct[at], distinct[:at]
    gap, reach = code - below[-1], below[-1] - least
    if len(below) == 1:  # 1 and -1 are two sides; 0 and -999 are not
        return bool(code > 9)
    # 9 beside 1 and 2 may be a count, beside 0 and 1 or a few counts hardly.
    if gap > AFAR * reach * (1 if code > 9 or len(below) > 2 else 2):
        return True
    if negative and below[-1] <= 0:  # mirrored: nothing else is negative
        tail = code == 1 and at + 1 < len(distinct) and distinct[at + 1] == 2  # -1, -2 …
        return bool(code > 9 or (len(below) >= LEVELS and not tail))
    nearby, spacing = counts[max(at - NEARBY, 0) : at], np.diff(below[-AROUND - 1 :])
    alike = counts[at:].sum()
    return bool(alike >= COMMON * size and alike >= MORE * nearby.max() and gap >= 2 * spacing.max())

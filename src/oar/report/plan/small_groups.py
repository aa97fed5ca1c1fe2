"""Groups as reports show them: none so small, and no figure of so few, that it could be told whose it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.plans.explain.effort import unique_words
from oar.tolerances import FEW_PEOPLE

if TYPE_CHECKING:
    import pandas

MOST = 30  # rows of a table
SMALL, OTHERS, LEFT_OUT = f"groups of fewer than {FEW_PEOPLE} people", "all others", "left out"


@dataclass(frozen=True, eq=False)
class PooledGroups:
    """Everyone's group after small ones were put together.

    Attributes:
        values: a text a person. order: the groups that are shown, in the order of the table.
        note: says who is not shown, where somebody is not.
    """

    values: pandas.Series
    order: tuple[str, ...]
    note: str = ""


def pooled(groups: Any) -> PooledGroups:
    """Put groups of fewer than five people together, and those that a table has no room for.

    Ordered groups stay in their order; others come by size. Those who were put together come last, and are left out if
    even together they are fewer than five.

    >>> found = pooled(["a"] * 6 + ["b", "c", "c", "d", "d"])
    >>> found.order, found.values[6]
    (('a', 'groups of fewer than 5 people'), 'groups of fewer than 5 people')
    """
    import pandas

    if isinstance(groups, PooledGroups):
        return groups
    words, codes = unique_words(groups)
    sizes = np.bincount(codes, minlength=len(words))
    large = [code for code in np.argsort(-sizes, kind="stable") if sizes[code] >= FEW_PEOPLE]
    few = int(sizes[sizes < FEW_PEOPLE].sum())
    room = MOST - (few >= FEW_PEOPLE)
    shown, rest = (large, []) if len(large) <= room else (large[: room - 1], large[room - 1 :])
    if getattr(getattr(groups, "dtype", None), "ordered", False):
        shown = sorted(shown)
    taken = {words[code] for code in shown}
    small, others = _unlike(taken, SMALL), _unlike(taken, OTHERS)
    hidden = small if few >= FEW_PEOPLE else _unlike(taken, LEFT_OUT)
    names = np.full(len(words), hidden, dtype=object)
    names[rest] = others
    names[shown] = [words[code] for code in shown]
    order = [*names[shown], *([others] if rest else []), *([small] if few >= FEW_PEOPLE else [])]
    left_out = f"Groups of fewer than {FEW_PEOPLE} people, fewer than {FEW_PEOPLE} in all, are left out."
    note = left_out if 0 < few < FEW_PEOPLE else ""
    named: dict[str, Any] = {"index": groups.index, "name": groups.name} if isinstance(groups, pandas.Series) else {}
    return PooledGroups(pandas.Series(names[codes], **named), tuple(map(str, order)), note)


def _unlike(taken: set[str], name: str) -> str:
    """Return a name that no group has."""
    while name in taken:
        name = f"{name} (together)"
    return name


def withheld(counts: Sequence[int], total: int) -> list[bool]:
    """Return of which rows nothing is told but how many people they count.

    These are rows of one to four people; and where rows that are not told come to one to four people in all, also the
    smallest of the others, or a total less what is told would tell it.

    >>> withheld([20, 3, 9], 32), withheld([20, 3, 9], 33)
    ([False, True, True], [False, True, True])
    >>> withheld([20, 3, 2, 9], 34)
    [False, True, True, False]
    """
    hidden = [0 < count < FEW_PEOPLE for count in counts]
    while 0 < total - sum(count for count, hide in zip(counts, hidden, strict=True) if not hide) < FEW_PEOPLE:
        candidates = [(count, place) for place, count in enumerate(counts) if count and not hidden[place]]
        if not candidates:
            break
        hidden[min(candidates)[1]] = True
    return hidden

"""Columns that count rows or name people: no features, and nothing that anybody could change.

A model that is trained on them learns the file's order, and a plan would tell people to change their row number. They
are recognised by their values, and by their name only where values alone could be either:

| values | are taken for |
| --- | --- |
| whole numbers, each once, without a gap between the least and the largest | row numbers |
| whole numbers that only grow, or only fall, from row to row, by little | row numbers, some rows being gone |
| whole numbers of which far fewer are the same than of any amounts in their range | identifiers |
| whole numbers that (nearly) all differ, in a column called id, key, number and the like | identifiers |
| texts of which nearly all are different, or that read like e-mail addresses or UUIDs | names |

Numbers that are not whole are never taken for any of these, nor are incomes in whole units, of which nearly all may
differ: they neither follow one another nor the rows.

**Too few are the same.** Of n amounts between a and b at least λ = n (n − 1) / 2 (b − a + 1) pairs are expected to be
the same, the fewest where all amounts are equally likely; round numbers and a peak make more of them. Numbers that are
handed out are drawn without putting them back, and so are (nearly) all different. They are taken for that where so few
equal pairs have a probability below `CHANCE`, among the middle nine tenths of the people, which codes do not widen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.people.wording import shown

FEWEST = 20  # people; of fewer, numbers or texts that all differ say nothing
FEWEST_IN_ORDER = 100  # people; fewer may have been sorted by an amount that no two of them share
THINNEST = 5  # of whole numbers in order, at least one in so many is there: amounts that were sorted are further apart
MOSTLY = 0.9  # share of texts, or numbers, that differ, from which on they may be names
CHANCE = 1e-6  # that so few amounts are the same
NEARLY = 0.99  # share of numbers that differ, in a column that is called an identifier
SAMPLE = 1_000  # texts that are looked at for e-mail addresses and UUIDs
_CALLED = re.compile(
    r"(?:^|[\s_.-])(?:id|ids|uid|uuid|guid|key|index|idx|row|rowid|rownum|nr|no|number|num)(?:$|[\s_.-])", re.IGNORECASE
)
_CAMEL = re.compile(r"[a-z](?:Id|ID|Key|Nr|No|UUID)$")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s.]+")
_UUID = re.compile(r"\{?[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\}?", re.IGNORECASE)


def identities(frame: Any, but: Iterable[str] = ()) -> dict[str, str]:
    """Return the columns of a DataFrame that count rows or name people, and what each of them looks like.

    >>> import pandas
    >>> people = pandas.DataFrame({"row": range(30), "income": [900 + 37 * place % 500 for place in range(30)]})
    >>> identities(people)
    {'row': 'counts the rows, from 0 to 29'}
    """
    known = set(but)
    found = {str(name): _looks(str(name), frame[name]) for name in frame.columns if name not in known}
    return {name: why for name, why in found.items() if why}


def _looks(name: str, values: Any) -> str:
    """Return what a column looks like if it is no feature, else ""."""
    import pandas

    if len(values) < FEWEST or values.isna().any() or isinstance(values.dtype, pandas.CategoricalDtype):
        return ""
    if pandas.api.types.is_bool_dtype(values.dtype) or pandas.api.types.is_complex_dtype(values.dtype):
        return ""
    if pandas.api.types.is_numeric_dtype(values.dtype):
        return _numbered(name, values.to_numpy(dtype=np.float64))
    if isinstance(values.dtype, pandas.StringDtype) or all(isinstance(value, str) for value in values):
        return _named(values)
    return ""


def _numbered(name: str, numbers: NDArray[np.float64]) -> str:
    if not np.isfinite(numbers).all() or (numbers != np.floor(numbers)).any():
        return ""
    steps = np.diff(numbers)
    in_order = bool((steps > 0).all() or (steps < 0).all())
    least, most, different = numbers.min(), numbers.max(), np.unique(numbers).size
    if different == numbers.size and most - least == numbers.size - 1:
        return f"counts the rows, from {least:.0f} to {most:.0f}"
    if in_order and numbers.size >= FEWEST_IN_ORDER and most - least < THINNEST * numbers.size:
        return f"numbers the rows in their order, from {numbers[0]:.0f} to {numbers[-1]:.0f}"
    called = _CALLED.search(name) or _CAMEL.search(name)
    if different == numbers.size and (called or _handed_out(numbers)):
        return f"has a number of its own for each of the {numbers.size:,} rows"
    if (called and different >= NEARLY * numbers.size) or _handed_out(numbers):
        return f"has {different:,} different numbers for {numbers.size:,} rows, as names of people have"
    return ""


def _handed_out(numbers: NDArray[np.float64]) -> bool:
    """Report whether far fewer of whole numbers are the same than if they were amounts."""
    low, high = np.quantile(numbers, (0.05, 0.95), method="nearest")
    some = numbers[(numbers >= low) & (numbers <= high)]
    counts = np.unique(some, return_counts=True)[1]
    if numbers.size < FEWEST_IN_ORDER or counts.size < MOSTLY * some.size:
        return False
    same, expected = float((counts * (counts - 1) // 2).sum()), some.size * (some.size - 1) / 2 / (high - low + 1)
    if same >= expected:
        return False
    # Chernoff's bound on the probability that a number of mean λ, by Poisson, is at most k: e^(-λ) (e λ / k)^k.
    likely = -expected + (same * (1 + math.log(expected / same)) if same else 0.0)
    return likely < math.log(CHANCE)


def _named(values: Any) -> str:
    sample = [text.strip() for text in values.iloc[:SAMPLE]]
    for kind, pattern in (("e-mail addresses", _EMAIL), ("UUIDs", _UUID)):
        if sum(bool(pattern.fullmatch(text)) for text in sample) >= MOSTLY * len(sample):
            return f"holds {kind}, such as {shown(sample[0])}"
    from oar.people.tables.schema import is_amount  # amounts and dates are refused as such where they are read

    different = values.nunique()
    if different >= MOSTLY * len(values) and not sum(map(is_amount, sample)) > len(sample) / 2:
        return f"names people, with {different:,} different texts in {len(values):,} rows"
    return ""

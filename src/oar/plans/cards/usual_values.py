"""The usual values of a column, so that a member who typed something else by mistake is asked back.

The least and the largest value of a column are somebody's own. So a range ends at values beyond which there are at
least FEWEST people, and one in a hundred, on either side. Where few people (RARE) are FAR times the width of the middle
half or more beyond that half, as those are who use their credit hundreds of times over, it ends there. Then it is
widened: to one digit of its width, and by a unit of that more, but not to another sign. From 250 to 18,424 it becomes
from 0 to 30,000, and from 20 to 75 from 10 to 90.
Where nearly everyone has the same value, an end is one that FEWEST people have reached, or else that value. Of fewer
than ENOUGH people nothing is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from oar.actions.limits.limit import Limits
from oar.people import Population

FEWEST, ENOUGH = 5, 50  # people beyond an end, and in all
MOST = 100_000  # people who are looked at
BEYOND = 0.01  # of the people, too
RARE, FAR = 0.05, 10.0
WHOLE = 1e-9  # of a unit: rounding
Range = tuple[float, float]


def usual_ranges(people: Population, limits: Limits | None = None) -> tuple[Range | None, ...]:
    """Return the usual range of each column, or feature; None where it has none, or none that may be told.

    What stands for a missing value, as limits say, is not usual.
    """
    if people.streamed:
        return (None,) * people.dimensions
    every = -(-people.size // MOST)  # enough of them to know what is usual
    features = np.asarray(people.features[::every], dtype=np.float64)[people.row_weights[::every] > 0]
    if people.encoding is None:
        return tuple(usual_range(column) for column in features.T)
    places, given = people.encoding.places, ~(limits or Limits()).coded(people.encoding, features)
    return tuple(
        usual_range(features[given[:, at], places[column.name].start]) if column.kind in ("number", "integer") else None
        for at, column in enumerate(people.encoding.schema)
    )


def usual_range(values: Any) -> Range | None:
    """Return where most values (n,) are, widened to round numbers.

    >>> usual_range([19, *range(20, 76), 99])
    (10.0, 90.0)
    """
    found = np.sort(np.asarray(values, dtype=np.float64))
    if len(found) < ENOUGH:
        return None
    beyond = max(FEWEST, math.ceil(BEYOND * len(found))) - 1
    low, high = float(found[beyond]), float(found[-1 - beyond])
    quarter, three_quarters = np.quantile(found, (0.25, 0.75), method="nearest")
    if three_quarters > quarter:
        near, far = quarter - FAR * (three_quarters - quarter), three_quarters + FAR * (three_quarters - quarter)
        low = max(low, near) if np.mean(found < near) <= RARE else low
        high = min(high, far) if np.mean(found > far) <= RARE else high
    if not high > low:
        low, high = float(found[FEWEST - 1]), float(found[-FEWEST])
    width = high - low or abs(low) or 1.0
    unit = 10.0 ** math.floor(math.log10(width)) if width < math.inf else 0.0
    if not unit > 0:
        return None
    first, last = (math.floor(low / unit + WHOLE) - 1) * unit, (math.ceil(high / unit - WHOLE) + 1) * unit
    first, last = max(first, 0.0) if low >= 0 else first, min(last, 0.0) if high <= 0 else last
    return float(f"{first:.12g}"), float(f"{last:.12g}")


def doubt(
    name: str, value: float, usual: Range | None, lower: float = -math.inf, upper: float = math.inf
) -> Iterator[str]:
    """Say, if so, that a member's value is neither usual nor within the plan's bounds; infinite where there are none.

    Many people may be outside the plan's bounds, who only may not go further out.

    >>> list(doubt("age", 450, (20.0, 80.0)))
    ['age is 450, and between 20 and 80 is expected; is this right?']
    """
    least, most = usual or (math.inf, -math.inf)
    low = min(filter(math.isfinite, (least, lower)), default=-math.inf)
    high = max(filter(math.isfinite, (most, upper)), default=math.inf)
    if not low <= value <= high:
        yield f"{name} is {_plain(value)}, and {between(low, high)} is expected; is this right?"


def between(low: float, high: float) -> str:
    """Return a range in words.

    >>> between(0, 9000), between(-math.inf, 5)
    ('between 0 and 9,000', 'up to 5')
    """
    if low == -math.inf:
        return f"up to {_plain(high)}"
    return f"from {_plain(low)} on" if high == math.inf else f"between {_plain(low)} and {_plain(high)}"


def _plain(value: float) -> str:
    """Return a number as people write it: 3,008,750, and not 3.00875e+06."""
    return f"{value:,.10g}"

"""How many may do something: at most so many, or at most a share of those who take part."""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.checks import is_number, is_whole
from oar.errors import DataError, OptionError

ROUNDING = 1e-9  # a share of 0.29 of 100 people is 29 of them, whatever 0.29 * 100 says


def check_one_of(action: str, **limits: Any) -> None:
    """Raise unless exactly one of these limits is given."""
    given = [name for name, value in limits.items() if value is not None]
    if len(given) != 1:
        names = ", ".join(limits)
        got = "none" if not given else " and ".join(given)
        raise OptionError(
            f"{action}: must be given exactly one of {names}, got {got}; say for example {action}(most=3)."
        )


def check_most(most: Any) -> int:
    """Return a number of people; raise unless it is a whole number ≥ 0."""
    if not is_whole(most) or most < 0:
        raise DataError(f"most: must be a whole number ≥ 0, got {most!r}; for a share of people use share=...")
    return int(most)


def check_share(share: Any) -> float:
    """Return a share of people; raise unless it is a number between 0 and 1."""
    if not is_number(share) or not 0.0 <= share <= 1.0:
        raise DataError(f"share: must be a number between 0 and 1, got {share!r}; for a number of people use most=...")
    return float(share)


def quota(most: int | None, share: float | None, participants: int) -> int:
    """Return how many of the participants may act; a share is rounded down, because it is a limit."""
    if share is None:
        assert most is not None
        return min(most, participants)
    return int(share * participants * (1 + ROUNDING) + ROUNDING)


def brief(value: Any) -> str:
    """Return a setting as it is shown: arrays by their size, functions by their name."""
    if np.ndim(value) == 0:
        return getattr(value, "__name__", None) or repr(value)
    return f"<{np.size(value)} values>"

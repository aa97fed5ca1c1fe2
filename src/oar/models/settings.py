"""Checks of models' settings, in one wording."""

from __future__ import annotations

import math
from typing import Any

from oar.checks import check_whole, is_flag, is_number
from oar.errors import DataError


def check_not_negative(argument: str, value: Any) -> None:
    """Refuse anything but a finite number of at least 0.

    >>> check_not_negative("l2", "0.1")
    Traceback (most recent call last):
    oar.errors.DataError: l2: must be a number of at least 0, got '0.1'.
    """
    if not is_number(value) or not (math.isfinite(value) and value >= 0):
        raise DataError(f"{argument}: must be a number of at least 0, got {value!r}.")


def check_seed(value: Any) -> None:
    """Refuse anything but a whole number of at least 0."""
    check_whole("seed", value, 0)


def check_flag(argument: str, value: Any) -> None:
    """Refuse anything but True or False.

    >>> check_flag("penalise_intercept", "no")
    Traceback (most recent call last):
    oar.errors.DataError: penalise_intercept: must be True or False, got 'no'.
    """
    if not is_flag(value):
        raise DataError(f"{argument}: must be True or False, got {value!r}.")

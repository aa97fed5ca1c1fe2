"""Checks of models' settings, in one wording."""

from __future__ import annotations

import math
from typing import Any

from oar.errors import OptionError, is_flag, is_number, is_whole


def check_not_negative(argument: str, value: Any) -> None:
    """Refuse anything but a finite number of at least 0.

    >>> check_not_negative("l2", "0.1")
    Traceback (most recent call last):
    oar.errors.OptionError: l2: must be a number of at least 0, got '0.1'.
    """
    if not is_number(value) or not (math.isfinite(value) and value >= 0):
        raise OptionError(f"{argument}: must be a number of at least 0, got {value!r}.")


def check_whole(argument: str, value: Any, least: int = 1) -> None:
    """Refuse anything but a whole number of at least `least`."""
    if not is_whole(value) or value < least:
        raise OptionError(f"{argument}: must be a whole number of at least {least}, got {value!r}.")


def check_seed(value: Any) -> None:
    """Refuse anything but a whole number of at least 0."""
    check_whole("seed", value, 0)


def check_flag(argument: str, value: Any) -> None:
    """Refuse anything but True or False.

    >>> check_flag("penalise_intercept", "no")
    Traceback (most recent call last):
    oar.errors.OptionError: penalise_intercept: must be True or False, got 'no'.
    """
    if not is_flag(value):
        raise OptionError(f"{argument}: must be True or False, got {value!r}.")

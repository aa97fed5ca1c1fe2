"""What defences ask of their settings, in one wording."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oar.errors import DataError


def check_number(argument: str, value: Any, above: float, below: float = math.inf) -> None:
    """Refuse anything but a finite number above `above` and below `below`."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not (number and math.isfinite(value) and above < value < below):
        bound = "" if below == math.inf else f" and below {below:g}"
        raise DataError(f"{argument}: must be a number above {above:g}{bound}, got {value!r}.")


def check_whole(argument: str, value: Any, least: int) -> None:
    """Refuse anything but a whole number from `least` on."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise DataError(f"{argument}: must be a whole number of at least {least}, got {value!r}.")

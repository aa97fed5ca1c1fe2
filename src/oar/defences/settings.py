"""Checks of defences' settings, in one wording."""

from __future__ import annotations

import math
from typing import Any

from oar.checks import is_number
from oar.errors import DataError


def check_number(argument: str, value: Any, above: float, below: float = math.inf) -> None:
    """Refuse anything but a finite number above `above` and below `below`."""
    if not (is_number(value) and math.isfinite(value) and above < value < below):
        bound = "" if below == math.inf else f" and below {below:g}"
        raise DataError(f"{argument}: must be a number above {above:g}{bound}, got {value!r}.")

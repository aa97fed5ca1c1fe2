"""What rules ask of their settings, in one wording."""

from __future__ import annotations

import math
from typing import Any

from oar.checks import is_number, is_whole
from oar.errors import DataError, OptionError
from oar.models import NearestCentroid
from oar.models.centroid.robust_centroids import RobustCentroids
from oar.online.rules.protocol import Update

CENTROIDS = NearestCentroid, RobustCentroids  # of which a class that nobody has keeps its centroid


def check_positive(argument: str, value: Any) -> None:
    """Refuse anything but a finite number above 0.

    >>> check_positive("rate", 0)
    Traceback (most recent call last):
    oar.errors.DataError: rate: must be a number above 0, got 0.
    """
    if not (is_number(value) and math.isfinite(value) and value > 0):
        raise DataError(f"{argument}: must be a number above 0, got {value!r}.")


def check_share(argument: str, value: Any) -> None:
    """Refuse anything but a number above 0 and at most 1."""
    if not (is_number(value) and 0 < value <= 1):
        raise DataError(f"{argument}: must be a number above 0 and at most 1, got {value!r}.")


def check_count(argument: str, value: Any) -> None:
    """Refuse anything but a whole number of at least 1."""
    if not is_whole(value) or value < 1:
        raise DataError(f"{argument}: must be a whole number of at least 1, got {value!r}.")


def check_begun(rule: str, model: Any, started: bool) -> None:
    """Raise where a rule must begin somewhere, and neither the model nor anybody says where."""
    if isinstance(model, CENTROIDS) and not started:
        raise OptionError(
            f"start: {rule} begins at what was deployed before, and nearest centroid has no start of its own; give the "
            "stream a history, or the problem a start (centroids)."
        )


def last_or_start(update: Update, rule: str) -> Any:
    """Return θ before, or the model's own start where nothing was deployed."""
    if update.before is not None:
        return update.before
    check_begun(rule, update.training.model, started=False)
    return update.training.start()

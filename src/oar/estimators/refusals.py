"""Settings that no twin has, refused in one wording."""

from __future__ import annotations

from typing import Any

from oar.errors import OptionError


def refused(estimator: Any, setting: str, why: str, instead: str) -> OptionError:
    """Return the error for a setting of an estimator, with what to use instead.

    >>> from sklearn.svm import LinearSVC
    >>> for part in str(refused(LinearSVC(), "loss='hinge'", "which has corners", "'squared_hinge'")).split("; "):
    ...     print(part)
    model: LinearSVC has no twin with loss='hinge', which has corners
    use 'squared_hinge', or oar.BlackBox(LinearSVC(…)), which only trains it and asks it.
    """
    name = type(estimator).__name__
    return OptionError(
        f"model: {name} has no twin with {setting}, {why}; use {instead}, or oar.BlackBox({name}(…)), which only "
        "trains it and asks it."
    )

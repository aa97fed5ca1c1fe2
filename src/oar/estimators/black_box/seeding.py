"""Seeds of somebody else's estimator: where they go, in it and in everything that it holds."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

LARGEST = 2**31 - 1  # the largest seed that every library takes


def seed_names(estimator: Any) -> tuple[str, ...]:
    """Return the settings of an estimator, and of what it holds, that are seeds.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> seed_names(make_pipeline(RandomForestClassifier()))
    ('randomforestclassifier__random_state',)
    """
    if not callable(getattr(estimator, "get_params", None)):
        return ()
    return tuple(name for name in estimator.get_params(deep=True) if name.split("__")[-1] == "random_state")


def takes(function: Any, argument: str) -> bool:
    """Report whether a function can be given an argument of this name."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return argument in parameters


def drawn_seed(*path: int) -> int:
    """Return one seed for a place in our own order of draws, the same for the same path."""
    return int(np.random.SeedSequence(path).generate_state(1)[0] % LARGEST)

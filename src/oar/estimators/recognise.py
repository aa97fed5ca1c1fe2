"""Which estimators are known, with which settings; of others it is said what to use instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oar.errors import OptionError
from oar.estimators.core import Core
from oar.estimators.fitting import last_step, unfitted
from oar.estimators.front import front_of
from oar.estimators.linear_core import Logistic
from oar.estimators.mlp_core import mlp
from oar.estimators.sgd_core import sgd
from oar.estimators.twin import Twin


def is_estimator(model: Any) -> bool:
    """Report whether something is an object with scikit-learn's methods, and no model of ours."""
    return callable(getattr(model, "fit", None)) and callable(getattr(model, "get_params", None))


def recognised(estimator: Any) -> Twin:
    """Return the twin of an estimator, fitted or not; raise where it has none."""
    fresh = unfitted(estimator)
    front = front_of(fresh)
    return Twin(fresh, _core(last_step(fresh)), front, table=front is not None and front.table)


def _core(estimator: Any) -> Core:
    kind = type(estimator)
    if not kind.__module__.startswith("sklearn.") or kind.__name__ not in KNOWN:
        raise OptionError(
            f"model: must be one of {', '.join(KNOWN)} (or a Pipeline that ends in one) to be differentiated, got "
            f"{kind.__name__}; use oar.BlackBox({kind.__name__}(…)), which only trains it and asks it."
        )
    return KNOWN[kind.__name__](estimator)


def _logistic(estimator: Any) -> Core:
    return Logistic(C=float(estimator.C))


KNOWN: dict[str, Callable[[Any], Core]] = {
    "LogisticRegression": _logistic,
    "SGDClassifier": sgd,
    "MLPClassifier": mlp,
    "MLPRegressor": mlp,
}

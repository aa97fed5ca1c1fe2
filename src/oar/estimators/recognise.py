"""The estimators that are known, with their settings; an error for any other says what to use instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oar.errors import DataError, OptionError
from oar.estimators.cores.centroid import CentroidTwin, centroid_core, centroid_twin
from oar.estimators.cores.gaussian import GaussianCore
from oar.estimators.cores.linear import LogisticCore, MachineCore, RidgeClassifierCore, RidgeCore
from oar.estimators.cores.mlp import mlp
from oar.estimators.cores.protocol import Core
from oar.estimators.cores.sgd import sgd
from oar.estimators.rows import last_step, unfitted
from oar.estimators.transformers.front import front_of
from oar.estimators.twin import Twin


def is_estimator(model: Any) -> bool:
    """Report whether something is an object with scikit-learn's methods, and no model of ours."""
    return callable(getattr(model, "fit", None)) and callable(getattr(model, "get_params", None))


def recognised(estimator: Any) -> Twin | CentroidTwin:
    """Return the twin of an estimator, fitted or not; raise where it has none."""
    if isinstance(estimator, type):
        raise DataError(f"model: must be an estimator, got the class {estimator.__name__}; call it with its settings.")
    fresh = unfitted(estimator)
    if _is_known(estimator, "NearestCentroid"):
        return centroid_twin(fresh)
    core = _core(last_step(fresh), whole=fresh)
    front = front_of(fresh)
    return Twin(fresh, core, front, table=front.table)


def _is_known(estimator: Any, name: str) -> bool:
    kind = type(estimator)
    return kind.__module__.startswith("sklearn.") and kind.__name__ == name


def _core(estimator: Any, whole: Any) -> Core:
    name = type(estimator).__name__
    if name not in KNOWN or not _is_known(estimator, name):
        asked = any(callable(getattr(whole, way, None)) for way in ("predict_proba", "predict"))
        box = "pipeline" if whole is not estimator else f"{name}(…)"
        use = f"use oar.BlackBox({box}), which only trains it and asks it" if asked else "give one that predicts"
        raise OptionError(
            f"model: must be one of {', '.join(KNOWN)} (or a Pipeline that ends in one) to be differentiated, got "
            f"{name}; {use}."
        )
    try:
        estimator._validate_params()  # what its fit asks first; there is no public name for it
    except AttributeError:
        pass
    except ValueError as reason:
        raise OptionError(f"model: {reason}") from None
    return KNOWN[name](estimator)


KNOWN: dict[str, Callable[[Any], Core]] = {
    "LogisticRegression": LogisticCore.of,
    "RidgeClassifier": RidgeClassifierCore.of,
    "Ridge": RidgeCore.of,
    "LinearRegression": RidgeCore.of,
    "LinearSVC": MachineCore.of,
    "GaussianNB": GaussianCore.of,
    "NearestCentroid": centroid_core,
    "SGDClassifier": sgd,
    "MLPClassifier": mlp,
    "MLPRegressor": mlp,
}

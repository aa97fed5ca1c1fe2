"""Training an estimator as its owner would: a clone of it, its own `fit`, and where weights go in a pipeline."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from oar.errors import OptionError
from oar.estimators.rows_for_estimators import EstimatorData


@dataclass(frozen=True, eq=False)
class FittedEstimator:
    """A fitted estimator, and whether it warned that it had not converged."""

    estimator: Any
    unfinished: bool


def unfitted(estimator: Any) -> Any:
    """Return an estimator with the same settings that has learned nothing: `warm_start` has nothing to start from."""
    from sklearn.base import clone

    return clone(estimator)


def trained(estimator: Any, handed: EstimatorData) -> FittedEstimator:
    """Fit a clone of the estimator; the estimator itself is never fitted."""
    from sklearn.exceptions import ConvergenceWarning

    fresh = unfitted(estimator)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fresh.fit(handed.rows, handed.labels, **weight_argument(estimator, handed.weights))
    return FittedEstimator(fresh, any(issubclass(one.category, ConvergenceWarning) for one in told))


def weight_argument(estimator: Any, weights: Any) -> dict[str, Any]:
    """Return the argument of `fit` that carries people's weights; of a pipeline, that of its last step alone.

    That is what scikit-learn's pipelines do by themselves: transformers in front of it are fitted without weights.
    """
    if weights is None:
        return {}
    from sklearn.utils.validation import has_fit_parameter

    path, last = _last_step(estimator)
    if not has_fit_parameter(last, "sample_weight"):
        raise OptionError(
            f"weights: {type(last).__name__} cannot be trained with weights, and people have some; leave them out of "
            "the Population, or use an estimator whose fit takes sample_weight."
        )
    return {"__".join((*path, "sample_weight")): weights}


def _last_step(estimator: Any) -> tuple[tuple[str, ...], Any]:
    """Return the names of the steps that lead to the estimator that predicts, and that estimator."""
    path: tuple[str, ...] = ()
    while hasattr(estimator, "steps"):
        name, estimator = estimator.steps[-1]
        path = (*path, name)
    return path, estimator


def up_to_last(fitted: Any, rows: Any) -> tuple[Any, Any]:
    """Return the estimator that predicts, and rows as it sees them behind the fitted steps of its pipelines."""
    while hasattr(fitted, "steps"):
        rows, fitted = fitted[:-1].transform(rows) if len(fitted.steps) > 1 else rows, fitted.steps[-1][1]
    return fitted, rows


def last_step(estimator: Any) -> Any:
    """Return the estimator that predicts: of a pipeline its last step, however deep."""
    return _last_step(estimator)[1]

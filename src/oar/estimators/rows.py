"""How an estimator is trained as its owner would: rows as it sees them, a clone of it, and its own `fit`.

Nothing that is handed over is shared with us: rows are made anew every time, so that an estimator that changes its
inputs in place changes nothing of ours. Whoever has no weight has left, and is not handed over.
"""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError, OptionError
from oar.models.training import Array
from oar.people import Population


class EstimatorData(NamedTuple):
    """The data that an estimator is trained on: rows as it sees them, labels or values, and weights if any."""

    rows: Any
    labels: Any
    weights: Array | None


@dataclass(frozen=True, eq=False)
class RowConversion:
    """The way from features (n, d), as planning has them, to what an estimator is given."""

    people: Population  # whose columns and classes these are
    # Of people with a schema: whether the estimator sees the table as it came, columns, levels and dtypes included, or
    # coordinates, an array of numbers. Of a frame of numbers it sees a frame, and of an array an array.
    table: bool = True
    codes: bool = False  # whether it is given classes as 0, 1, …, rather than labels as they came
    regresses: bool = False  # whether labels are values

    def rows(self, features: Array) -> Any:
        """Return people (m, d) as the estimator is to see them."""
        encoding, names = self.people.encoding, self.people.names
        if encoding is not None and self.table:
            return encoding.decode(features)
        rows = np.array(features, dtype=np.float64)
        if encoding is not None or names is None:
            return rows
        import pandas

        return pandas.DataFrame(rows, columns=list(names))

    def handed(self, people: Population, features: Array) -> EstimatorData:
        """Return what is trained on: `people` with their labels and weights, at `features` (n, d)."""
        present, labels, left = self.told(people)
        return EstimatorData(self.rows(features[present]), labels, left)

    def told(self, people: Population) -> tuple[Any, NDArray[Any], Array | None]:
        """Return who is there (a mask or slice), and their labels and weights as the estimator is given them."""
        weights, labels = people.weights, self._labels(people)
        if weights is None:
            return slice(None), labels, None
        present: Any = slice(None) if (weights > 0).all() else weights > 0
        left = np.array(weights[present], dtype=np.float64)
        # Who had no weights before somebody left has none afterwards: an estimator need not know what weights are.
        none = people.first_weights is not weights and (left == 1.0).all()
        return present, labels[present], None if none else left

    def _labels(self, people: Population) -> NDArray[Any]:
        if self.regresses:
            values = people.value_rows()
            return values[:, 0].copy() if values.shape[1] == 1 else values.copy()
        one_label_each(people)
        codes = people.codes(0, people.size)
        if self.codes:
            return np.array(codes, dtype=np.int64)
        if people.has_label_rows:
            return np.array([people.classes[code] for code in codes])
        return np.array(people.labels)

    def class_places(self, classes: Any) -> NDArray[np.intp]:
        """Return where each class (k,) of an estimator's own list is among the people's."""
        ours = list(range(len(self.people.classes))) if self.codes else list(self.people.classes)
        try:
            return np.array([ours.index(label) for label in classes], dtype=np.intp)
        except ValueError:
            raise DataError(
                f"estimator: must predict the people's classes {ours[:6]}, got {list(classes)[:6]}; does it change "
                "labels by itself?"
            ) from None


def soft(people: Population) -> bool:
    """Report whether anyone has a label between classes."""
    return people.has_label_rows and not np.isin(people.class_rows(), (0.0, 1.0)).all()


def one_label_each(people: Population) -> None:
    """Raise where somebody has a label between classes."""
    if soft(people):
        raise DataError(
            "labels: an estimator is trained on one label a person, got soft ones; use a model of oar.models, "
            "or Relabel(most=…) rather than soft labels."
        )


def unfitted(estimator: Any) -> Any:
    """Return an estimator with the same settings that has learned nothing: `warm_start` has nothing to start from."""
    from sklearn.base import clone

    return clone(estimator)


def trained(estimator: Any, handed: EstimatorData) -> tuple[Any, bool]:
    """Fit a clone of the estimator, never itself; return it, and whether it warned that it had not converged."""
    from sklearn.exceptions import ConvergenceWarning

    fresh = unfitted(estimator)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fresh.fit(handed.rows, handed.labels, **weight_argument(estimator, handed.weights))
    return fresh, any(issubclass(one.category, ConvergenceWarning) for one in told)


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

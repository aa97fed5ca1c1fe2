"""`check_model`: does a model keep what planning relies on?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oar.errors import DataError, OARError, OptionError
from oar.estimators.black_box import BlackBox
from oar.estimators.cores.centroid import CentroidTwin
from oar.estimators.twin import Twin
from oar.models.autodiff.custom import Custom
from oar.models.differentiable import Differentiable
from oar.models.training import Array, Training
from oar.testing.checks import CHECKS, Case
from oar.testing.report import Report, checked
from oar.typing import Features, Goal, Labels, Row, Weights

PEOPLE = 40


def check_model(
    model: Differentiable,
    features: Features | None = None,
    targets: Labels | None = None,
    weights: Weights | None = None,
    *,
    query: Row | None = None,
    goal: Goal | None = None,
    dimensions: int = 3,
    outputs: int = 3,
    training: Callable[..., Training] | None = None,
    tolerance: float = 1e-8,
    seed: int = 0,
    raises: bool = True,
) -> Report:
    """Check a model against finite differences and true refits, and say what it lacks.

    What it claims to be, `convex` or `equivariant`, is tried: refits from other starts, and with everyone shifted.

    Args:
        model: what is checked.
        features: (n, d) people to check it on; None draws forty of them.
        targets: n labels or values, or (n, o) class shares or values; given together with features.
        weights: (n,) not negative; None draws some for drawn people, and weighs given people alike.
        query: (d,) features of the query; None takes a point between people.
        goal: (o,) its target; None takes the first class, or zeros.
        dimensions: d of drawn people.
        outputs: o of drawn people.
        training: what binds the model to data; None for its own way, `model.bound`.
        tolerance: the gradient norm to which it is refitted.
        seed: what is drawn is drawn from this.
        raises: whether a failed check raises a ConformanceError, which lists all of them with advice; otherwise only
            the returned report does: `print` it.

    >>> from oar.models.naive_bayes import GaussianNaiveBayes
    >>> check_model(GaussianNaiveBayes()).passed
    True
    """
    rng = np.random.default_rng(seed)
    _check_kinds(model, features, targets)
    regresses = model.regresses
    if features is None:
        features, targets, weights = _people(rng, dimensions, outputs, regresses)
    features, targets = _numbers("features", features), _target_rows(model, targets)
    if len(features) != len(targets):
        raise DataError(f"targets: must be one for each of the {len(features)} people, got {len(targets)}.")
    weights = np.ones(len(features)) if weights is None else np.asarray(weights, dtype=np.float64)
    if query is None:
        query = 0.5 * (features[0] + features[-1]) + 0.1 * rng.standard_normal(features.shape[1])
    if goal is None:
        goal = np.zeros(targets.shape[1]) if regresses else np.eye(targets.shape[1])[0]
    if isinstance(model, Custom):
        model = model.completed(targets.shape[1])
    people = (features, targets, weights / weights.sum())
    make = training or (lambda model, *people: model.bound(*people))
    case = Case(model, make, *people, np.asarray(query, float), np.asarray(goal, float), tolerance, seed)
    return checked(model.name, case, CHECKS, raises, _said)


def _check_kinds(model: Any, features: Any, targets: Any) -> None:
    ours = isinstance(model, Differentiable | type)
    if isinstance(model, BlackBox | CentroidTwin | Twin) or (not ours and callable(getattr(model, "fit", None))):
        raise OptionError(
            f"model: must be one of oar.models, or one of your own (Custom, or a Differentiable), got {model!r}; there "
            "is nothing to check of estimators: they are recognised or only called, and audited by their own fit."
        )
    if not isinstance(model, Differentiable) or model.plain_means:
        raise OptionError(
            f"model: must be one of oar.models, or one of your own (Custom, or a Differentiable), got {model!r}; "
            "nearest centroid is not differentiated, and has nothing to check."
        )
    if (features is None) != (targets is None):
        missing, given = ("targets", "features") if targets is None else ("features", "targets")
        raise DataError(f"{missing}: must be given together with {given}, got none; give both or neither.")


def _numbers(argument: str, given: Any) -> Array:
    """Return people by something, (n, ·), or raise a DataError."""
    try:
        numbers = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{argument}: must be numbers, got {given!r}.") from None
    if numbers.ndim != 2 or 0 in numbers.shape:
        raise DataError(f"{argument}: must be rows of numbers, one for each person, got shape {numbers.shape}.")
    return numbers


def _target_rows(model: Differentiable, targets: Any) -> Array:
    """Return targets (n, o); labels, one a person, become shares of their classes, and single values rows of one."""
    given = np.asarray(targets)
    if given.ndim != 1:
        return _numbers("targets", targets)
    if model.regresses:
        return _numbers("targets", given[:, None])
    classes, codes = np.unique(given, return_inverse=True)
    if len(classes) < 2:
        raise DataError(f"targets: must be labels of at least two classes, got {len(classes)}.")
    return np.asarray(model.target_rows(np.eye(len(classes))[codes]))


def _said(reason: Exception) -> str:
    """Return what to do about an error: ours say so themselves."""
    if isinstance(reason, OARError):
        return "Change what the message names."
    missing = "Give the model initial, outputs and example_loss."
    return missing if isinstance(reason, NotImplementedError) else "The model's own code raised this; mend it there."


def _people(rng: np.random.Generator, dimensions: int, outputs: int, values: bool) -> tuple[Array, Array, Array]:
    """Draw people: overlapping classes, or values that are a noisy linear function."""
    codes = np.arange(PEOPLE) % outputs
    features = rng.standard_normal((outputs, dimensions))[codes] + rng.standard_normal((PEOPLE, dimensions))
    targets = np.eye(outputs)[codes]
    if values:
        targets = features @ rng.standard_normal((dimensions, outputs)) + 0.3 * rng.standard_normal((PEOPLE, outputs))
    return features, targets, rng.uniform(0.5, 1.5, PEOPLE)

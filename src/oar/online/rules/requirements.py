"""What update rules need of the people whom they read: a history to begin with, some weight, every class."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError, OptionError
from oar.estimators.black_box.box import BlackBox
from oar.estimators.cores.centroid import CentroidTwin
from oar.estimators.recognise import is_estimator
from oar.estimators.twin import Twin
from oar.models import TestTimeBatchNorm
from oar.online.stream import HISTORY, Stream

Array = NDArray[np.float64]


def round_words(number: int) -> str:
    """Return what a round is called.

    >>> round_words(2), round_words(-1)
    ('round 2', 'the history')
    """
    return "the history" if number == HISTORY else f"round {number}"


INSTEAD = {  # models of ours that are estimators of scikit-learn's
    "LogisticRegression": "oar.SoftmaxRegression(l2=1 / (C * n))",
    "RidgeClassifier": "oar.SoftmaxRegression(l2=…)",
    "Ridge": "oar.models.Ridge(l2=alpha / n)",
    "LinearRegression": "oar.models.Ridge(l2=0)",
    "LinearSVC": "oar.models.LinearSVM(l2=1 / (C * n), penalise_intercept=True)",
    "GaussianNB": "oar.models.GaussianNaiveBayes(var_smoothing=…)",
    "NearestCentroid": "oar.NearestCentroid()",
    "MLPClassifier": "oar.models.MLP(…)",
    "MLPRegressor": "oar.models.MLP(…)",
}


def check_retrained(model: Any) -> None:
    """Raise for a model that nothing is retrained of."""
    if isinstance(model, TestTimeBatchNorm):
        raise OptionError(
            f"model: must be one that rounds of data retrain, got {model.name}, a fixed network that is normalised by "
            "one batch; ask about that batch with oar.Problem."
        )
    if isinstance(model, BlackBox):
        raise OptionError(
            f"model: must be one of oar.models where it is updated over time, got {model!r}, only trained from "
            "scratch; ask about one retraining with oar.Problem."
        )
    if is_estimator(model) or isinstance(model, Twin | CentroidTwin):
        estimator = model.estimator if isinstance(model, Twin | CentroidTwin) else model
        name = estimator.__name__ if isinstance(estimator, type) else type(estimator).__name__
        raise OptionError(
            f"model: must be one of oar.models where it is updated over time, got the estimator {name}; use "
            f"{INSTEAD.get(name, 'one of oar.models')}, or ask about one retraining with oar.Problem."
        )


def check_classes(rule: str, totals: Array, classes: tuple[Any, ...], number: int) -> None:
    """Raise where a rule refits and some class weighs nothing; `totals` (k,) are the classes' weights."""
    for code in np.flatnonzero(~(totals > 0)):
        raise DataError(
            f"stream: {rule} refits in {round_words(number)}, for which it reads nobody of class {classes[code]!r}; "
            "add people of that class to the batch, read more batches (a longer Window, or FullRefit), or use a rule "
            "that needs no full batch (GradientSteps, FineTune)."
        )


def check_every_class(rule: str, reads: int | None, stream: Stream, model: Any, rounds: Iterable[int]) -> None:
    """Raise where a rule that refits reads no one of some class in one of these rounds."""
    if getattr(model, "regresses", False):
        return
    totals = class_totals(stream)
    for number in rounds:
        check_classes(rule, read_in(totals, reads, number), stream.people.classes, number)


def read_in(totals: Array, reads: int | None, number: int) -> Array:
    """Return the sum of batches' totals (1 + T, …), history first, over those that a rule reads in a round."""
    first = 0 if reads is None else max(0, number - reads + 2)  # round t is row t + 1
    return np.asarray(totals[first : number + 2].sum(axis=0))


def class_totals(stream: Stream) -> Array:
    """Return each batch's weight by class, (1 + T, k), history first; a soft label counts by its shares."""
    people, batch = stream.people, stream.when + 1
    weights = people.row_weights
    totals = np.zeros((stream.rounds + 1, len(people.classes)))
    if people.has_label_rows:
        np.add.at(totals, batch, weights[:, None] * people.class_rows())
    else:
        np.add.at(totals, (batch, people.codes(0, people.size)), weights)
    return totals


def check_weights(reads: int | None, stream: Stream) -> None:
    """Raise where everybody whom a rule reads weighs nothing."""
    if stream.people.weights is None:
        return
    totals = np.bincount(stream.when + 1, stream.people.weights, stream.rounds + 1).astype(np.float64)
    for number in range(stream.rounds):
        if not read_in(totals, reads, number) > 0:
            raise DataError(
                f"weights: somebody whom the rule reads in round {number} must weigh something, got 0 for all."
            )

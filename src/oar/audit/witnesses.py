"""Who refits in the audit: an implementation that we did not write, wherever there is one.

scikit-learn fits softmax regression (`LogisticRegression`, Newton with a Cholesky factor, tight tolerance), ridge
regression (`Ridge`), the linear SVM with a penalised intercept (`LinearSVC`) and Gaussian naive Bayes (`GaussianNB`).
Soft labels are given to it as one weighted copy of a person for each class.

`GaussianNB` adds var_smoothing times the largest variance of the features that it is given; `GaussianNaiveBayes` adds
an ε that is settled before anyone moves. It is given the var_smoothing that makes the two the same.

Everything else is refitted by the model's own training, from its own start, to a tight tolerance; the witness says so.
For networks that is not for want of an implementation: training has many minima, and another optimiser ends in another.
Frozen prototypes are class means in an embedding, and `NearestCentroid` of scikit-learn knows no weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.models import Differentiable, GaussianNaiveBayes, LinearSVM, Ridge, SoftmaxRegression
from oar.people import Population

Array = NDArray[np.float64]
TIGHT = 1e-10


@dataclass(frozen=True)
class Testimony:
    """What a refit says about one query: outputs (o,), loss at the goal, who refitted, and how tightly."""

    outputs: Array
    loss: float
    witness: str
    residual: float


def testify(model: Differentiable, people: Population, features: Array, query: Array, target: Array) -> Testimony:
    """Refit from scratch on these features and judge the query."""
    outside = _scikit_learn(model, people, features)
    if outside is None:
        return _own_training(model, people, features, query, target)
    estimator, name = outside
    outputs = _outputs(estimator, model, query)
    return Testimony(outputs, _loss(model, outputs, target), name, 0.0)


def _shares(people: Population) -> Array:
    weights = np.ones(people.size) if people.weights is None else people.weights
    return weights / weights.sum()


def _scikit_learn(model: Differentiable, people: Population, features: Array) -> tuple[Any, str] | None:
    """Return a fitted estimator and its name, or None where scikit-learn has no such model."""
    weights = _shares(people)
    if isinstance(model, Ridge):
        from sklearn.linear_model import Ridge as Estimator

        estimator = Estimator(alpha=model.l2, solver="svd")
        return estimator.fit(features, people.value_rows(), sample_weight=weights), "scikit-learn Ridge"
    if isinstance(model, SoftmaxRegression) and model.l2 > 0:
        from sklearn.linear_model import LogisticRegression

        rows, labels, weights = _labelled(people, features, weights)
        fitter = LogisticRegression(C=1 / model.l2, solver="newton-cholesky", tol=TIGHT, max_iter=1_000)
        return fitter.fit(rows, labels, sample_weight=weights), "scikit-learn LogisticRegression"
    if isinstance(model, LinearSVM) and model.penalise_intercept and model.l2 > 0:
        from sklearn.svm import LinearSVC

        rows, labels, weights = _labelled(people, features, weights)
        machine = LinearSVC(C=1 / model.l2, dual=False, tol=TIGHT, max_iter=1_000_000)
        return machine.fit(rows, labels, sample_weight=weights), "scikit-learn LinearSVC"
    if isinstance(model, GaussianNaiveBayes):
        return _gaussian(model, people, features, weights)
    return None


def _gaussian(model: GaussianNaiveBayes, people: Population, features: Array, weights: Array) -> tuple[Any, str] | None:
    from sklearn.naive_bayes import GaussianNB

    rows, labels, weights = _labelled(people, features, weights)
    added = model.settled(people.features, model.targets(people), _shares(people))["smoothing"]
    largest = float(np.var(rows, axis=0).max())  # what GaussianNB multiplies var_smoothing by
    if not largest > 0:
        return None  # nobody differs from anybody
    estimator = GaussianNB(var_smoothing=added / largest)
    # Times n, because GaussianNB takes a class whose weight is below 1e-8 for an empty one.
    return estimator.fit(rows, labels, sample_weight=people.size * weights), "scikit-learn GaussianNB"


def _labelled(people: Population, features: Array, weights: Array) -> tuple[Array, NDArray, Array]:
    """Return rows with one hard label each; a soft label becomes a weighted copy for every class that it names."""
    if not people.has_label_rows:
        return features, people.codes(0, people.size), weights
    shares = people.class_rows()
    person, code = np.nonzero(shares)
    return features[person], code, (weights[:, None] * shares)[person, code]


def _outputs(estimator: Any, model: Differentiable, query: Array) -> Array:
    if isinstance(model, Ridge):
        return np.atleast_1d(estimator.predict(query[None])[0])
    if isinstance(model, GaussianNaiveBayes):
        return estimator.predict_joint_log_proba(query[None])[0]
    return np.atleast_1d(estimator.decision_function(query[None])[0])


def _loss(model: Differentiable, outputs: Array, target: Array) -> float:
    """Return the loss at the goal, written out again."""
    if isinstance(model, Ridge):
        return 0.5 * float(np.sum((outputs - target) ** 2))
    if isinstance(model, LinearSVM):
        return float(sum(max(0.0, 1 - (2 * t - 1) * z) ** 2 for z, t in zip(outputs, target, strict=True)))
    logits = outputs if outputs.size > 1 else np.array([0.0, *outputs])
    return float(np.logaddexp.reduce(logits) - target @ outputs)


def _own_training(model: Any, people: Population, features: Array, query: Array, target: Array) -> Testimony:
    training = model.training(people)
    fit = training.fit(training.moved(features - people.features), training.start(), TIGHT)
    outputs = training.outputs(fit.parameters, query)
    loss, _, _ = training.goal(fit.parameters, query, target)
    return Testimony(outputs, loss, f"{model.name}'s own training, from scratch", fit.residual)

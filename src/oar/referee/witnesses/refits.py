"""Witnesses of refits in the audit: other libraries' implementations, wherever there are any.

scikit-learn fits softmax regression (`LogisticRegression`, Newton with a Cholesky factor, tight tolerance), ridge
regression (`Ridge`), the linear SVM with a penalised intercept and hard labels (`LinearSVC`) and Gaussian naive Bayes
(`GaussianNB`). Soft labels are given to it as one weighted copy of a person for each class. Where a free intercept
makes it all the same, features are given as distances from their mean; scikit-learn's solvers lose digits otherwise.

`GaussianNB` adds var_smoothing times the largest variance of the features that it is given. Where `GaussianNaiveBayes`
is given ε itself, or soft labels make several rows of one person, it is given the var_smoothing that makes the two the
same.

SciPy minimises what scikit-learn has not, on a risk that is written out again (`scipy_refits`): the linear SVM with
a free intercept or soft labels, softmax regression without a penalty, and both where scikit-learn's answer is no
minimum.

Everything else is refitted by the model's own training, from its own start, to a tight tolerance. For networks that is
not for want of an implementation: training has many minima, and another optimiser ends in another. So SciPy is asked
whether what training returned is a minimum; each testimony says how independent it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.estimators.cores.stopped_training import TrainedCore
from oar.estimators.rows import soft
from oar.estimators.twin import Twin
from oar.models import (
    BatchNorm,
    Differentiable,
    Ensemble,
    GaussianNaiveBayes,
    LinearSVM,
    PrototypeNetwork,
    Ridge,
    Scaled,
    SoftmaxRegression,
    TestTimeBatchNorm,
)
from oar.models.fit.refitting import SecondOrderTraining
from oar.people import Population
from oar.plans import Plan
from oar.plans.result import Independence
from oar.problem import Problem
from oar.referee.contributions import Array, Contributions
from oar.referee.verdicts import ENTROPY, HINGE, SQUARED, UNKNOWN, JudgedModel, Retrial, Verdict, judged, loss_of_kind
from oar.referee.witnesses.scipy_refits import confirmation, fitted_by_scipy

TIGHT = 1e-10
SETTLED = 1e-8  # a larger gradient at scikit-learn's answer, by features' spreads, asks for another witness
CONVERGED = 1e-6  # a larger gradient after a refit is not that of a minimum
SCIPY = "SciPy, on the risk written out again in NumPy"
AVERAGES = "class averages of the embedded rows (numpy)"
STATISTICS = "batch statistics of the moved rows, recomputed layer by layer (numpy)"
NARROW, LONG = 200, 10_000  # columns and rows: products of a long and narrow matrix wait for second threads
FACTORED = 600  # parameters up to which scikit-learn is asked to factor the Hessian


@dataclass(frozen=True, eq=False)
class WitnessRefit:
    """A model refitted from scratch, which can be asked about any person."""

    outputs: Callable[[Array], Array]  # from many people's features (m, d) to the model's outputs (m, o)
    loss: Callable[[Array, Array], float]  # from a person's features (d,) and a target (o,) to the goal loss there
    witness: str  # who refitted
    residual: float = 0.0  # the norm of the gradient that is left
    converged: bool = True  # whether that is a minimum's
    independence: Independence = Independence.IMPLEMENTATION  # how little the witness shares with the solver


def of_outputs(outputs: Callable[[Array], Array], kind: str, witness: str, **said: Any) -> WitnessRefit:
    """Return a refit with a loss of this kind, which is written out here."""
    return WitnessRefit(
        outputs, lambda query, target: loss_of_kind(kind, outputs(query[None])[0], target), witness, **said
    )


def of_training(training: Any, parameters: Array, witness: str, **said: Any) -> WitnessRefit:
    """Return a refit by the model's own training, which says itself what the loss is."""
    return WitnessRefit(
        lambda rows: np.array([training.outputs(parameters, row) for row in rows]),
        lambda query, target: training.goal(parameters, query, target)[0],
        witness,
        **said,
    )


def linear_outputs(matrix: Array) -> Callable[[Array], Array]:
    """Return the outputs of (W, b), (o, d + 1)."""
    return lambda rows: rows @ matrix[:, :-1].T + matrix[:, -1]


# What is kept, by model and people, which are kept with it: the number of an object that is gone is used again.
UnmovedRefits = dict[tuple[int, int], tuple[Differentiable, Population, WitnessRefit]]
MOST_KEPT = 32  # models whose refits are kept; of some, they hold people's features
_KEPT: ContextVar[UnmovedRefits | None] = ContextVar("kept", default=None)


def kept_refits() -> UnmovedRefits:
    """Return where refits of unmoved people are kept already; a new place where they are not."""
    kept = _KEPT.get()
    return {} if kept is None else kept


@contextmanager
def keeping_unmoved_refits(kept: Any = None) -> Iterator[None]:
    """Keep refits of unmoved people in this dict while the block runs, and use those that are there.

    They are the same refits, to the last bit: neither plans nor queries have a part in them. Without a dict they are
    kept where they are already, or else until the block ends.
    """
    token = _KEPT.set(kept_refits() if kept is None else kept)
    try:
        yield
    finally:
        _KEPT.reset(token)


def unmoved_refit(model: Differentiable, people: Population, features: NDArray[np.float64]) -> WitnessRefit:
    """Refit to people as they are, from scratch, or as it was kept."""
    kept = _KEPT.get()
    if kept is None:
        return refit(model, people, features)
    place = id(model), id(people)
    if place in kept:
        return kept[place][2]
    found = refit(model, people, features)
    for oldest in list(kept)[: max(0, len(kept) - MOST_KEPT + 1)]:
        kept.pop(oldest, None)  # another thread may have been quicker
    kept[place] = model, people, found
    return found


def refit(model: Differentiable, people: Population, features: Array) -> WitnessRefit:
    """Refit from scratch on these features."""
    if isinstance(model, Scaled):
        return _behind_a_scaler(model, people, features)
    if isinstance(model, Twin):
        return _by_the_estimator(model, people, features)
    if isinstance(model, TestTimeBatchNorm):
        return _by_batch_statistics(model, people, features)
    if isinstance(model, PrototypeNetwork) and not model.train_embedding:
        return _by_averaging(model, people, features)
    if isinstance(model, Ensemble):
        return _one_by_one(model, people, features)
    from scipy.linalg import LinAlgWarning
    from sklearn.exceptions import ConvergenceWarning

    centre = features.mean(axis=0) if isinstance(model, SoftmaxRegression) else np.zeros(features.shape[1])
    with warnings.catch_warnings(), _threads(features):
        for kind in (ConvergenceWarning, LinAlgWarning):  # judged by the residual below
            warnings.simplefilter("ignore", kind)
        estimator = _scikit_learn(model, people, features - centre)
        residual = np.inf if estimator is None else _residual(model, people, features - centre, estimator)
    if residual > SETTLED:  # scikit-learn's solvers can give up without a word on features of unlike scales
        return _by_scipy(model, people, features)
    name, kind = type(estimator).__name__, kind_of_loss(model) or ENTROPY
    ask = getattr(estimator, ASKED.get(name, "decision_function"))
    return of_outputs(
        lambda rows: ask(rows - centre).reshape(len(rows), -1), kind, f"scikit-learn {name}", residual=residual
    )


def _threads(features: Array) -> AbstractContextManager[Any]:
    """Hold linear algebra to one thread where features (n, d) are long and narrow."""
    from threadpoolctl import threadpool_limits

    suits = len(features) >= LONG and features.shape[1] <= NARROW
    return threadpool_limits(1, "blas") if suits else nullcontext()


def _by_scipy(model: Differentiable, people: Population, features: Array) -> WitnessRefit:
    """Minimise a linear model's risk, written out again, by SciPy; all others are refitted by their own training."""
    if not isinstance(model, SoftmaxRegression | LinearSVM):
        return _own_refit(model, people, features)
    # Without a penalty there may be no minimum, or no single one: the model's own training refuses to be fitted then.
    own = _own_refit(model, people, features) if model.l2 == 0 else None
    matrix, residual = fitted_by_scipy(model, features, model.targets(people), _shares(people))
    if residual > SETTLED:
        return own or _own_refit(model, people, features)
    kind = HINGE if isinstance(model, LinearSVM) else ENTROPY
    return of_outputs(linear_outputs(matrix), kind, SCIPY, residual=residual)


def _by_averaging(model: PrototypeNetwork, people: Population, features: Array) -> WitnessRefit:
    """Average what people are embedded as, class by class; the embedding itself is given, and learns nothing."""

    def embedded(rows: Array) -> Array:
        return rows if model.embedding is None else model._mapped(model.embed, {}, rows)

    shares, seen = _shares(people)[:, None] * people.class_rows(), embedded(features)
    means = np.array([np.average(seen, axis=0, weights=share) for share in shares.T])
    means += [np.average(seen - mean, axis=0, weights=share) for mean, share in zip(means, shares.T, strict=True)]
    return of_outputs(lambda rows: -np.linalg.norm(embedded(rows)[:, None] - means, axis=2), ENTROPY, AVERAGES)


def _one_by_one(model: Ensemble, people: Population, features: Array) -> WitnessRefit:
    """Refit every model by its own witness, to those whom it draws, and average what they say."""
    weights, parts = people.row_weights, []
    for one, seed in zip(model.models, model.draws, strict=True):
        drawn = people.with_features(people.features)
        drawn.weights = weights * model._counts(people, seed)
        parts.append(refit(one, drawn, features))
    widths = np.cumsum([one.target_rows(np.eye(max(2, len(people.classes)))).shape[1] for one in model.models])[:-1]

    def averaged(rows: Array) -> Array:
        each = [part.outputs(rows) for part in parts]
        return np.mean(each if model.regresses else [_log_shares(one) for one in each], axis=0)

    def loss(query: Array, target: Array) -> float:
        targets = [target] * len(parts) if model.regresses else np.split(target, widths)
        return float(np.mean([part.loss(query, own) for part, own in zip(parts, targets, strict=True)]))

    return WitnessRefit(
        averaged,
        loss,
        " and ".join(dict.fromkeys(one.witness for one in parts)),
        max(one.residual for one in parts),
        all(one.converged for one in parts),
        Independence.weakest([one.independence for one in parts]),
    )


def _log_shares(outputs: Array) -> Array:
    """Return log-probabilities (m, k) of outputs (m, o); a single one is measured against 0."""
    logits = outputs if outputs.shape[1] > 1 else np.column_stack([np.zeros(len(outputs)), outputs])
    return logits - np.logaddexp.reduce(logits, axis=1)[:, None]


def _behind_a_scaler(model: Scaled, people: Population, features: Array) -> WitnessRefit:
    """Scale by scikit-learn, fitted to the features as they are now, or to those before any move; then as without."""
    from sklearn.preprocessing import StandardScaler

    columns, unmoved = model.columns(people), np.asarray(people.features, dtype=np.float64)

    def scaled_like(fitted: Array) -> Callable[[Array], Array]:
        if not columns.any():
            return lambda rows: rows
        # What was there before any change was fitted to everyone, leavers included.
        weights = people.first_weights if fitted is unmoved else people.weights
        scaler = StandardScaler().fit(fitted[:, columns], sample_weight=weights)

        def scaled(rows: Array) -> Array:
            found = rows.copy()
            found[:, columns] = scaler.transform(rows[:, columns])
            return found

        return scaled

    before, now = scaled_like(unmoved), scaled_like(unmoved if model.frozen else features)
    inner = refit(model.model, people.with_features(before(unmoved)), now(features))
    return replace(
        inner,
        outputs=lambda rows: inner.outputs(now(rows)),
        loss=lambda query, target: inner.loss(now(query[None])[0], target),
        witness=f"scikit-learn StandardScaler, then {inner.witness}",
    )


def _by_batch_statistics(model: TestTimeBatchNorm, people: Population, features: Array) -> WitnessRefit:
    """Recompute the statistics that a network normalises by, layer by layer: nothing is trained.

    Written out again, from the layers' numbers alone: neither the hand-made slopes nor JAX have a part in it.
    """
    counted = np.append(people.row_weights, 1.0 if model.query_in_batch else 0.0)

    def logits(person: Array) -> Array:
        hidden = np.concatenate([features, person[None]])
        for layer in model.layers:
            hidden = _after(layer, hidden, counted, model)
        return hidden[-1]

    return of_outputs(lambda rows: np.array([logits(row) for row in rows]), ENTROPY, STATISTICS)


def _after(layer: Any, hidden: Array, counted: Array, model: TestTimeBatchNorm) -> Array:
    """Return everybody's units (n + 1, u) after a layer."""
    if isinstance(layer, BatchNorm):
        mean = np.average(hidden, axis=0, weights=counted)
        variance = np.average(np.square(hidden - mean), axis=0, weights=counted)
        if layer.mean is not None:
            kept, taken = 1.0 - model.momentum, model.momentum
            mean, variance = kept * layer.mean + taken * mean, kept * layer.variance + taken * variance
        return (hidden - mean) * (layer.scale / np.sqrt(variance + model.epsilon)) + layer.shift
    if layer == "relu":
        return np.where(hidden > 0, hidden, 0.0)
    if layer == "tanh":
        return np.tanh(hidden)
    if layer == "softplus":
        return np.logaddexp(0.0, hidden)
    if layer == "sigmoid":
        from scipy.special import expit

        return np.asarray(expit(hidden))
    return np.einsum("ni,oi->no", hidden, layer.weights) + layer.biases


def _by_the_estimator(model: Twin, people: Population, features: Array) -> WitnessRefit:
    """Train the estimator that the model is the twin of, by its own `fit`; the twin has no say."""
    original = model.original(people, features)
    settings = " ".join(repr(original.twin.estimator).split())  # pipelines are shown on several lines
    told = " (which warned that it had not converged)" if original.unfinished else ""
    # Plans for an estimator whose own fit is the twin's refit were made by that fit.
    shared = Independence.REPEATED if isinstance(model.core, TrainedCore) else Independence.IMPLEMENTATION
    return of_outputs(original.outputs, model.core.loss, f"{settings}.fit{told}", independence=shared)


def _shares(people: Population) -> Array:
    return people.row_weights / people.row_weights.sum()


ASKED = {"Ridge": "predict", "GaussianNB": "predict_joint_log_proba"}  # all others for their decision_function


def _scikit_learn(model: Differentiable, people: Population, features: Array) -> Any:
    """Return a fitted estimator, or None where scikit-learn has no such model."""
    weights = _shares(people)
    if isinstance(model, Ridge):
        from sklearn.linear_model import Ridge as Estimator

        return Estimator(alpha=model.l2, solver="svd").fit(features, people.value_rows(), sample_weight=weights)
    if isinstance(model, SoftmaxRegression) and model.l2 > 0:
        from sklearn.linear_model import LogisticRegression

        rows, labels, weights = _labelled(people, features, weights)
        few = features.shape[1] * (int(labels.max()) + 1) <= FACTORED
        solver = "newton-cholesky" if few else "newton-cg"
        fitter = LogisticRegression(C=1 / model.l2, solver=solver, tol=TIGHT, max_iter=1_000)
        return fitter.fit(rows, labels, sample_weight=weights)
    # A label between classes is a smaller margin for a hinge, not two copies.
    if isinstance(model, LinearSVM) and model.penalise_intercept and model.l2 > 0 and not soft(people):
        from sklearn.svm import LinearSVC

        rows, labels, weights = _labelled(people, features, weights)
        machine = LinearSVC(C=1 / model.l2, dual=False, tol=TIGHT, max_iter=1_000_000)
        return machine.fit(rows, labels, sample_weight=weights)
    return _gaussian(model, people, features, weights) if isinstance(model, GaussianNaiveBayes) else None


def _gaussian(model: GaussianNaiveBayes, people: Population, features: Array, weights: Array) -> Any:
    from sklearn.naive_bayes import GaussianNB

    rows, labels, weights = _labelled(people, features, weights)
    rows, labels, weights = (part[weights > 0] for part in (rows, labels, weights))  # who has left is not there
    largest = float(np.var(rows, axis=0).max())  # what GaussianNB multiplies var_smoothing by
    if not largest > 0:
        return None  # nobody differs from anybody
    share = model.var_smoothing
    if model.smoothing is not None:
        share = model.smoothing / largest
    elif soft(people):
        share *= float(np.var(features[_shares(people) > 0], axis=0).max()) / largest
    # Times n, because GaussianNB takes a class whose weight is below 1e-8 for an empty one.
    return GaussianNB(var_smoothing=share).fit(rows, labels, sample_weight=people.size * weights)


def _labelled(people: Population, features: Array, weights: Array) -> tuple[Array, NDArray, Array]:
    """Return rows with one hard label each; a soft label becomes a weighted copy for every class that it names."""
    if not people.has_label_rows:
        return features, people.codes(0, people.size), weights
    shares = people.class_rows()
    person, code = np.nonzero(shares)
    return features[person], code, (weights[:, None] * shares)[person, code]


def kind_of_loss(model: Any) -> str | None:
    """Return the kind of a linear model's loss at a goal; None where it is not one of those that are written out."""
    if isinstance(model, Scaled):
        return kind_of_loss(model.model)
    if isinstance(model, Twin):
        return model.core.loss if model.linear else None
    kinds: dict[type, str] = {Ridge: SQUARED, LinearSVM: HINGE, SoftmaxRegression: ENTROPY}
    return next((kind for known, kind in kinds.items() if isinstance(model, known)), None)


def _residual(model: Differentiable, people: Population, features: Array, estimator: Any) -> float:
    """Return the norm of the training gradient at scikit-learn's answer, features measured by their own spread.

    Σ w̄ a ⊗ (x, 1) + l2 (W, 0 or b), with a = ∂φ/∂z; in units in which a feature's typical size is 1, weights are
    larger by that size and their slopes smaller. Closed forms have none.
    """
    if not isinstance(model, SoftmaxRegression | LinearSVM):
        return 0.0
    weights, targets = _shares(people), model.targets(people)
    coefficients, intercepts = estimator.coef_, estimator.intercept_
    slopes = np.asarray(model.slopes(coefficients @ features.T + intercepts[:, None], targets.T)) * weights
    size = np.sqrt(weights @ features**2)
    by_feature = (slopes @ features + model.l2 * coefficients) / np.where(size > 0, size, 1.0)
    by_intercept = slopes.sum(axis=1) + (model.l2 * intercepts if model.penalise_intercept else 0.0)
    return float(np.hypot(np.linalg.norm(by_feature), np.linalg.norm(by_intercept)))


def _own_refit(model: Any, people: Population, features: Array) -> WitnessRefit:
    training = model.training(people)
    fit = training.fit(training.moved(features - people.features), training.start(), TIGHT)
    name = getattr(training, "witness", f"{model.name}'s own training, from scratch")
    converged, independence = fit.residual <= CONVERGED, Independence.REPEATED
    if converged and isinstance(training, SecondOrderTraining) and getattr(model, "train", None) is None:
        confirmed = confirmation(training, fit, model.convex)
        name = f"{name}; {confirmed}" if confirmed else name
        independence = Independence.OPTIMISER if confirmed else independence
    return of_training(
        training, fit.parameters, name, residual=fit.residual, converged=converged, independence=independence
    )


def by_training(plan: Plan) -> Retrial:
    """Refit before and after the plan's moves."""
    problem, handed_in = plan.problem, Contributions(plan)
    people, model = problem.people, problem.model
    assert isinstance(model, Differentiable)
    before, after = handed_in.rows()
    moved = handed_in.points(after)
    old, new = unmoved_refit(model, people, before), refit(model, handed_in.after, after)
    return Retrial(handed_in, [(refitted_model(problem, old), refitted_model(problem, new))], moved, old)


def refitted_model(problem: Problem, fitted: WitnessRefit) -> JudgedModel:
    """Return a witness's refit as the referee asks it."""
    return JudgedModel(
        partial(_verdicts, problem, fitted),
        partial(_predict, problem, fitted),
        fitted.witness,
        fitted.residual,
        fitted.converged,
        fitted.independence,
    )


def _predict(problem: Problem, fitted: WitnessRefit, rows: Array) -> NDArray:
    """Return predictions of many people: class codes, or values."""
    outputs = fitted.outputs(rows)
    if problem.regresses:
        return outputs
    return outputs.argmax(axis=1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0).astype(np.intp)


def _verdicts(problem: Problem, fitted: WitnessRefit, points: Array) -> list[Verdict]:
    """Ask a refitted model about everybody who asks."""
    if not fitted.converged:
        return [UNKNOWN] * len(points)
    return [
        judged(problem, wish, fitted.outputs(point[None])[0], partial(fitted.loss, point))
        for wish, point in zip(problem.wishes, points, strict=True)
    ]

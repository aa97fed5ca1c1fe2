"""Estimators whose outputs are linear in their rows, on the chunked passes and quick refits of `oar.models`.

scikit-learn's penalties stand against sums over people, Σ w ℓ + α/2 ‖W‖², and ours against means: l2 = α / Σw, which
grows when somebody leaves. With class weights c a person's loss counts c_y times: that is its *mass*, w̄ c_y, and its
score is c_y times that of a plain model. Balanced ones follow from who is there, and change when labels do.

Each linear estimator that is known has a core, which says what of its settings changes the minimum, and what of that
has a gradient. What `oar.models` has not stands at the end: models without an intercept or with one that is penalised,
machines that count their own class more than the others, and values of ±1 that are regressed and read as classes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.checks import need_jax
from oar.errors import DataError
from oar.estimators.cores.protocol import Array, Core, refused
from oar.models.linear.losses import Linear, LinearSVM, Ridge, SoftmaxRegression, library_of, single_output
from oar.models.linear.training import LinearTraining
from oar.models.protocol import delegated
from oar.models.training import ALL, Some
from oar.people import Population

NO_CLASSES = np.zeros(0)
NO_CORNERS = "which has corners where training cannot be differentiated"


class ClassWeights:
    """The weights of classes, as `class_weight` sets them; here, all equal."""

    def bound(self, people: Population) -> ClassWeights:
        """Return them for the classes of these people; raise a DataError where they are for others."""
        return self

    def of_classes(self, shares: Array, weights: Array) -> Array:
        """Return c (k,) for class shares (n, k) and weights (n,) of those who are there; empty where all are alike."""
        return NO_CLASSES


ALIKE = ClassWeights()


@dataclass(frozen=True, eq=False)
class GivenWeights(ClassWeights):
    """Those of a dict from labels to weights; `classes` are these (k,) in the order of people's classes."""

    given: Any
    classes: Array = field(default_factory=lambda: NO_CLASSES)

    def bound(self, people: Population) -> ClassWeights:
        """Have scikit-learn itself read the dict: which keys go with which labels is its own affair."""
        from sklearn.utils.class_weight import compute_class_weight

        labels = np.array(people.classes)
        classes = np.unique(labels)
        try:
            found = compute_class_weight(self.given, classes=classes, y=classes)
        except ValueError as reason:
            raise DataError(f"class_weight: must be of the people's classes {people.classes}: {reason}") from None
        return GivenWeights(self.given, np.asarray(found, dtype=np.float64)[np.searchsorted(classes, labels)])

    def of_classes(self, shares: Array, weights: Array) -> Array:
        """Return those of the dict, whoever is there."""
        return self.classes


@dataclass(frozen=True, eq=False)
class BalancedWeights(ClassWeights):
    """Weights that give every class the same total; `by_number` counts people rather than their weights."""

    by_number: bool

    def of_classes(self, shares: Array, weights: Array) -> Array:
        """Return Σw / (k W_c)."""
        counts = (np.sign(weights) if self.by_number else weights) @ shares
        return counts.sum() / (counts.size * counts)


def class_weights_of(estimator: Any) -> ClassWeights:
    """Return the `class_weight` of an estimator, as scikit-learn reads it."""
    from sklearn.utils.class_weight import compute_class_weight

    given = estimator.class_weight
    if not given:
        return ALIKE
    if given != "balanced":
        return GivenWeights(given)
    # Older versions of scikit-learn balance by how many people there are, whatever they weigh.
    weighs = "sample_weight" in inspect.signature(compute_class_weight).parameters
    return BalancedWeights(by_number=type(estimator).__name__ == "RidgeClassifier" or not weighs)


@delegated("core", "name", "held_by")
class LinearTwinTraining(LinearTraining):
    """A linear model whose settings follow from who is there: it is made anew where labels change and people leave."""

    def __init__(self, core: LinearCore, rows: Array, people: Population) -> None:
        weights = people.row_weights
        self.core = core
        self._class_weights = core.class_weights.bound(people)
        self._given = np.where(weights > 0, weights, people.first_row_weights)  # also of those who may come back
        shares = people.target_rows(core.regresses)
        targets = np.ascontiguousarray(core.target_rows(shares), dtype=np.float64)
        shared = weights / weights.sum()
        super().__init__(self._settled(targets, shared), np.ascontiguousarray(rows, dtype=np.float64), targets, shared)

    def _settled(self, targets: Array, weights: Array) -> Linear:
        """Return the model for people with these targets and weights."""
        total = float(self._given[weights > 0].sum())
        return self.core.model(total, self._classes(targets, weights) if self._by_output(targets) else NO_CLASSES)

    def _by_output(self, targets: Array) -> bool:
        return self.core.counts_own_class and targets.shape[1] > 1

    def _classes(self, targets: Array, weights: Array) -> Array:
        """Return class weights c (k,) for these people; empty where all count alike."""
        return self._class_weights.of_classes(_shares(targets), np.where(weights > 0, self._given, 0.0))

    def _counted(self, targets: Array, everyone: Array, weights: Array) -> Array:
        """Return c_y (n,) for these targets, with the class weights of people who have `everyone`; or (1,), of 1."""
        classes = NO_CLASSES if self._by_output(targets) else self._classes(everyone, weights)
        return _shares(targets) @ classes if classes.size else np.ones(1)

    def _masses(self, targets: Array, weights: Array) -> Array:
        return weights * self._counted(targets, targets, weights)

    def contributing(self, targets: Array, weights: Array) -> LinearTwinTraining:
        """Return the same for other targets and weights; those who are left weigh what they were given.

        A penalty is no part of a pass, so that nothing is compiled anew for another one.
        """
        other: Any = super().contributing(targets, weights)
        other.model = self._settled(targets, weights)
        if self._by_output(targets):
            other._passing = other.model
        other.__dict__.pop("_penalty_hessian", None)  # that of the last model
        return other

    def scores(self, parameters: Array, features: Array, signal: Array, targets: Array) -> Array:
        """Return c_y times the scores of a plain model."""
        return self._counted(targets, self.targets, self.weights) * super().scores(
            parameters, features, signal, targets
        )

    def score_gradients(self, parameters: Array, features: Array, signal: Array, columns: Some = ALL) -> Array:
        """Return c_y times those of a plain model."""
        found = super().score_gradients(parameters, features, signal, columns)
        return found * self._counted(self.targets, self.targets, self.weights)[:, None]


def _shares(targets: Array) -> Array:
    """Return class shares (n, k) of targets (n, o)."""
    return targets if targets.shape[1] > 1 else np.column_stack([1 - targets, targets])


class LinearCore(Core):
    """z = W e + b; parameters are (o, d' + 1), the intercept last."""

    linear = True
    class_weights: ClassWeights = ALIKE
    intercept: bool = True
    scaling: float = np.inf  # the size of the feature whose weight the intercept is; ∞ where it is not penalised
    counts_own_class = False  # whether, of several machines, each counts its own class by its weight, all others once
    held_by: str = "a larger penalty"  # what to use where there is no penalty and no minimum either, in words
    model: Callable[[float, Array], Linear]
    """The linear model that the estimator is for people of a total weight.

    Beside it go class weights (k,) where machines count their own class by them, and else an empty array.
    """

    @property
    def equivariant(self) -> bool:  # type: ignore[override]
        """Whether there is an intercept, which nothing penalises."""
        return self.intercept and np.isinf(self.scaling)

    def check(self, people: Population) -> None:
        """Raise where class weights are not for these people."""
        need_jax(self.name)
        self.class_weights.bound(people)

    def target_rows(self, targets: Any) -> Any:
        """Return a single output's targets for two classes."""
        return targets if self.regresses else single_output(targets)

    def training(self, rows: Array, people: Population) -> LinearTwinTraining:
        """Bind it, weights and all."""
        return LinearTwinTraining(self, rows, people)

    def written_down(self, people: Population) -> Linear | None:
        """Return it where nothing but the penalty follows from the people, and the intercept is as ours have it."""
        found = self.model(float(people.row_weights.sum()), NO_CLASSES)
        plain = self.class_weights is ALIKE and type(found) in (SoftmaxRegression, Ridge, LinearSVM)
        return found if plain else None

    def outputs(self, parameters: Array, rows: Array) -> Array:
        """Return W e + b."""
        return rows @ parameters[:, :-1].T + parameters[:, -1]

    def read(self, fitted: Any, places: NDArray[np.intp]) -> Array:
        """Return coef_ and intercept_, classes in the people's order."""
        weights = np.atleast_2d(np.asarray(fitted.coef_, dtype=np.float64))
        intercepts = np.broadcast_to(np.asarray(fitted.intercept_, dtype=np.float64), len(weights))
        return in_order(np.column_stack([weights, intercepts]).T, places).T

    def outputs_of(self, fitted: Any, rows: Any, places: NDArray[np.intp]) -> Array:
        """Return what its decision_function says, or its predictions where they are values."""
        found = fitted.predict(rows) if self.regresses else fitted.decision_function(rows)
        return in_order(np.asarray(found, dtype=np.float64).reshape(len(rows), -1), places)


def in_order(outputs: Array, places: NDArray[np.intp]) -> Array:
    """Return outputs (m, o) with a column for each of the people's classes, in their order.

    Outputs without places are values, and stay as they are. A single output is that of the second class against the
    first: its sign turns where they are the other way round.
    """
    if not places.size:
        return outputs
    if outputs.shape[1] == 1:
        return outputs if places[0] < places[-1] else -outputs
    found = np.full((len(outputs), int(places.max()) + 1), -np.inf)
    found[:, places] = outputs
    return found


@dataclass(frozen=True, eq=False)
class LogisticCore(LinearCore):
    """C Σ w c_y ℓ + ½‖W‖²: with l2 = 1/(C Σw) that is C Σw times Σ w̄ c_y ℓ + l2/2 ‖W‖².

    liblinear takes the intercept for the weight of a feature of size `scaling`, penalised as all are: ½ (b/scaling)².
    It is ∞ where the intercept is free.
    """

    C: float
    class_weights: ClassWeights = ALIKE
    intercept: bool = True
    scaling: float = np.inf
    name = "LogisticRegression"
    held_by = "a finite C"

    @classmethod
    def of(cls, estimator: Any) -> LogisticCore:
        """Read the settings of a LogisticRegression, of this scikit-learn or of one in which `penalty` is young."""
        penalty, ratio = getattr(estimator, "penalty", "deprecated"), getattr(estimator, "l1_ratio", None) or 0.0
        free = penalty is None or (penalty == "deprecated" and np.isinf(estimator.C))
        mixed = penalty in ("deprecated", "elasticnet") and ratio > 0
        if not free and (penalty == "l1" or mixed):
            raise refused(estimator, "an l1 penalty", NO_CORNERS, "l1_ratio=0 (l2)")
        if getattr(estimator, "multi_class", "auto") not in ("auto", "deprecated"):
            raise refused(estimator, f"multi_class={estimator.multi_class!r}", "which is not known", "the default")
        scaling = float(estimator.intercept_scaling) if estimator.solver == "liblinear" else np.inf
        strength = np.inf if free else float(estimator.C)
        return cls(strength, class_weights_of(estimator), bool(estimator.fit_intercept), scaling)

    def check(self, people: Population) -> None:
        """Raise where liblinear would have to tell more than two classes apart."""
        super().check(people)
        if np.isfinite(self.scaling) and len(people.classes) > 2:
            raise DataError(
                f"labels: LogisticRegression with solver='liblinear' tells two classes apart, got {len(people.classes)}"
                "; use another solver, such as 'lbfgs'."
            )

    def model(self, total: float, own_class: Array) -> Linear:
        """Return softmax regression with the penalty as it is for so much weight."""
        l2 = 1 / (self.C * total)
        if self.equivariant:
            return SoftmaxRegression(l2)
        return Softmax(l2, self.intercept, self.scaling**-2)


@dataclass(frozen=True, eq=False)
class RidgeCore(LinearCore):
    """Σ w ‖z − y‖² + alpha ‖W‖², of values; with alpha = 0 least squares."""

    alpha: float
    intercept: bool = True
    name: str = "Ridge"
    held_by = "Ridge(alpha=…) with some alpha > 0"
    regresses = True
    loss = "squared"

    @classmethod
    def of(cls, estimator: Any) -> RidgeCore:
        """Read the settings of a Ridge or a LinearRegression."""
        return cls(alpha_of(estimator), bool(estimator.fit_intercept), type(estimator).__name__)

    def model(self, total: float, own_class: Array) -> Linear:
        """Return ridge regression with the penalty as it is for so much weight."""
        return Ridge(self.alpha / total) if self.intercept else Values(self.alpha / total, False)


@dataclass(frozen=True, eq=False)
class RidgeClassifierCore(LinearCore):
    """Ridge regression on ±1, whose largest output is predicted; a query is judged by its outputs as logits."""

    alpha: float
    class_weights: ClassWeights = ALIKE
    intercept: bool = True
    name = "RidgeClassifier"
    held_by = "some alpha > 0"

    @classmethod
    def of(cls, estimator: Any) -> RidgeClassifierCore:
        """Read the settings of a RidgeClassifier."""
        return cls(alpha_of(estimator), class_weights_of(estimator), bool(estimator.fit_intercept))

    def model(self, total: float, own_class: Array) -> Linear:
        """Return the regression with the penalty as it is for so much weight."""
        return SignedValues(self.alpha / total, self.intercept)


@dataclass(frozen=True, eq=False)
class MachineCore(LinearCore):
    """LinearSVC with the squared hinge: C Σ w max(0, 1 − t z)² + ½‖(W, b/scaling)‖², one machine against the rest."""

    C: float
    class_weights: ClassWeights = ALIKE
    intercept: bool = True
    scaling: float = 1.0
    name = "LinearSVC"
    smooth = False
    loss = "squared-hinge"
    counts_own_class = True

    @classmethod
    def of(cls, estimator: Any) -> MachineCore:
        """Read the settings of a LinearSVC."""
        for setting, known in (("multi_class", "ovr"), ("loss", "squared_hinge"), ("penalty", "l2")):
            if (given := getattr(estimator, setting)) != known:
                raise refused(estimator, f"{setting}={given!r}", NO_CORNERS, repr(known))
        if not np.isfinite(estimator.C):
            raise refused(estimator, "C=inf", "without a penalty, of which many machines are the best", "a finite C")
        scaling = float(estimator.intercept_scaling)
        return cls(float(estimator.C), class_weights_of(estimator), bool(estimator.fit_intercept), scaling)

    def model(self, total: float, own_class: Array) -> Linear:
        """Return the machines with the penalty as it is for so much weight."""
        l2 = 1 / (self.C * total)
        if self.intercept and self.scaling == 1 and not own_class.size:
            return LinearSVM(l2, penalise_intercept=True)
        own = tuple(own_class.tolist())
        return Machines(l2, intercept=self.intercept, intercept_share=self.scaling**-2, own_class=own)


def alpha_of(estimator: Any) -> float:
    """Return the penalty, 0 where there is none; raise where each target has one, or weights must not be negative."""
    if estimator.positive:
        raise refused(estimator, "positive=True", NO_CORNERS, "positive=False")
    alpha = np.unique(np.asarray(getattr(estimator, "alpha", 0.0), dtype=np.float64))
    if alpha.size != 1:
        raise refused(estimator, "an alpha for each target", "which is not known", "one number")
    return float(alpha[0])


@dataclass(frozen=True)
class Softmax(SoftmaxRegression):
    """Softmax regression; liblinear penalises the intercept as that of a feature of size s: a share 1/s² of l2."""

    intercept: bool = True
    intercept_share: float = 0.0


@dataclass(frozen=True)
class Values(Ridge):
    """Ridge regression."""

    intercept: bool = True


@dataclass(frozen=True)
class SignedValues(Linear):
    """Ridge regression on t = 2y − 1, one output a class or one for two; a query is judged by outputs as logits."""

    l2: float
    intercept: bool = True
    name = "ridge-classifier"
    quadratic = True
    steepest = 1.0
    # As a classifier's, the cross-entropy falls the more clearly the goal leads.
    judge = SoftmaxRegression(0.0)

    def output_loss(self, outputs: Any, target: Any) -> Any:
        """Return ½‖z − t‖²."""
        return 0.5 * ((outputs - (2 * target - 1)) ** 2).sum(axis=0)

    def slopes(self, outputs: Any, target: Any) -> Any:
        """Return z − t."""
        return outputs - (2 * target - 1)

    bend, curvature = Ridge.bend, Ridge.curvature


@dataclass(frozen=True)
class Machines(LinearSVM):
    """Squared hinges, one against the rest, of which each may count its own class by a weight (liblinear).

    With c_o such weights φ = Σ_o (1 + (c_o − 1) y_o) max(0, 1 − t_o z_o)²: those of other classes count once.
    """

    intercept: bool = True
    intercept_share: float = 0.0
    own_class: tuple[float, ...] = ()
    judge = LinearSVM(0.0)  # by the hinges alone

    def _counted(self, target: Any) -> Any:
        """Return how often each machine counts people, (o, ...); 1 where all count once."""
        if not self.own_class:
            return 1.0
        weights = np.array(self.own_class).reshape(-1, *(1 for _ in target.shape[1:]))
        return 1 + (weights - 1) * target

    @property
    def steepest(self) -> float:  # type: ignore[override]
        """Return 2, times the largest weight."""
        return 2.0 * max((1.0, *self.own_class))

    def best_lengths(
        self, outputs: tuple[Array, Array], people: tuple[Array, Array], penalty: tuple[Array, Array]
    ) -> Array:
        """Search each machine's line with its own weights."""
        if not self.own_class:
            return super().best_lengths(outputs, people, penalty)
        (at, ahead), (targets, weights) = outputs, people
        counted = self._counted(targets) * weights
        each = [
            super(Machines, self).best_lengths(
                (at[[one]], ahead[[one]]), (targets[[one]], counted[one]), (penalty[0][[one]], penalty[1][[one]])
            )
            for one in range(len(at))
        ]
        return np.concatenate(each)

    def output_loss(self, outputs: Any, target: Any) -> Any:
        """Return Σ_o of the hinges."""
        library = library_of(outputs)
        return (self._counted(target) * library.maximum(1 - (2 * target - 1) * outputs, 0.0) ** 2).sum(axis=0)

    def slopes(self, outputs: Any, target: Any) -> Any:
        """Return their slopes."""
        return self._counted(target) * super().slopes(outputs, target)

    def bend(self, outputs: Any, target: Any, direction: Any) -> Any:
        """Return their curvature times u."""
        return self._counted(target) * super().bend(outputs, target, direction)

    def curvature(self, outputs: Any, target: Any) -> Any:
        """Return their curvature, a diagonal."""
        return self._counted(target) * super().curvature(outputs, target)

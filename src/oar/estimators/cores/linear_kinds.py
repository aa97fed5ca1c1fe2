"""The linear estimators that are known: what of their settings changes the minimum, and what of that has a gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.errors import DataError
from oar.estimators.class_weights import ClassWeights
from oar.estimators.cores.linear import LinearCore
from oar.estimators.cores.linear_models import Machines, SignedValues, Softmax, Values
from oar.estimators.cores.protocol import Array
from oar.estimators.refusals import refused
from oar.models.linear.losses import Linear, LinearSVM, Ridge, SoftmaxRegression
from oar.people import Population

NO_CORNERS = "which has corners where training cannot be differentiated"


def _single(targets: Any) -> Any:
    """Return class shares (n, k), but for two classes only the second's: a single output."""
    return targets[:, 1:] if targets.shape[1] == 2 else targets


@dataclass(frozen=True, eq=False)
class LogisticCore(LinearCore):
    """C Σ w c_y ℓ + ½‖W‖²: with l2 = 1/(C Σw) that is C Σw times Σ w̄ c_y ℓ + l2/2 ‖W‖².

    liblinear takes the intercept for the weight of a feature of size `scaling`, penalised as all are: ½ (b/scaling)².
    """

    C: float
    class_weights: ClassWeights | None = None
    intercept: bool = True
    scaling: float | None = None
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
        liblinear = estimator.solver == "liblinear"
        return cls(
            C=np.inf if free else float(estimator.C),
            class_weights=ClassWeights.of(estimator),
            intercept=bool(estimator.fit_intercept),
            scaling=float(estimator.intercept_scaling) if liblinear else None,
        )

    @property
    def equivariant(self) -> bool:  # type: ignore[override]
        """Whether the intercept is free."""
        return self.intercept and self.scaling is None

    def check(self, people: Population) -> None:
        """Raise where liblinear would have to tell more than two classes apart."""
        super().check(people)
        if self.scaling is not None and len(people.classes) > 2:
            raise DataError(
                f"labels: LogisticRegression with solver='liblinear' tells two classes apart, got {len(people.classes)}"
                "; use another solver, such as 'lbfgs'."
            )

    def target_rows(self, targets: Any) -> Any:
        """Return a single logit's targets for two classes."""
        return _single(targets)

    def model(self, total: float, own_class: Array | None) -> Linear:
        """Return softmax regression with the penalty as it is for so much weight."""
        l2 = 1 / (self.C * total)
        if self.equivariant:
            return SoftmaxRegression(l2)
        return Softmax(l2, self.intercept, 0.0 if self.scaling is None else self.scaling**-2)


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
        refuse_positive(estimator)
        alpha = one_alpha(estimator) if hasattr(estimator, "alpha") else 0.0
        return cls(alpha, bool(estimator.fit_intercept), type(estimator).__name__)

    @property
    def equivariant(self) -> bool:  # type: ignore[override]
        """Whether there is an intercept."""
        return self.intercept

    def model(self, total: float, own_class: Array | None) -> Linear:
        """Return ridge regression with the penalty as it is for so much weight."""
        return Ridge(self.alpha / total) if self.intercept else Values(self.alpha / total, False)


@dataclass(frozen=True, eq=False)
class RidgeClassifierCore(LinearCore):
    """Ridge regression on ±1, whose largest output is predicted; a query is judged by its outputs as logits."""

    alpha: float
    class_weights: ClassWeights | None = None
    intercept: bool = True
    name = "RidgeClassifier"
    held_by = "some alpha > 0"

    @classmethod
    def of(cls, estimator: Any) -> RidgeClassifierCore:
        """Read the settings of a RidgeClassifier."""
        refuse_positive(estimator)
        return cls(one_alpha(estimator), ClassWeights.of(estimator), bool(estimator.fit_intercept))

    @property
    def equivariant(self) -> bool:  # type: ignore[override]
        """Whether there is an intercept."""
        return self.intercept

    def target_rows(self, targets: Any) -> Any:
        """Return a single output's targets for two classes."""
        return _single(targets)

    def model(self, total: float, own_class: Array | None) -> Linear:
        """Return the regression with the penalty as it is for so much weight."""
        return SignedValues(self.alpha / total, self.intercept)


@dataclass(frozen=True, eq=False)
class MachineCore(LinearCore):
    """LinearSVC with the squared hinge: C Σ w max(0, 1 − t z)² + ½‖(W, b/scaling)‖², one machine against the rest."""

    C: float
    class_weights: ClassWeights | None = None
    intercept: bool = True
    scaling: float = 1.0
    name = "LinearSVC"
    smooth = False
    loss = "squared-hinge"
    counts_own_class = True

    @classmethod
    def of(cls, estimator: Any) -> MachineCore:
        """Read the settings of a LinearSVC."""
        if estimator.multi_class != "ovr":
            raise refused(estimator, f"multi_class={estimator.multi_class!r}", NO_CORNERS, "'ovr'")
        if estimator.loss != "squared_hinge":
            raise refused(estimator, f"loss={estimator.loss!r}", NO_CORNERS, "'squared_hinge'")
        if estimator.penalty != "l2":
            raise refused(estimator, f"penalty={estimator.penalty!r}", NO_CORNERS, "'l2'")
        if not np.isfinite(estimator.C):
            raise refused(estimator, "C=inf", "without a penalty, of which many machines are the best", "a finite C")
        return cls(
            float(estimator.C),
            ClassWeights.of(estimator),
            bool(estimator.fit_intercept),
            float(estimator.intercept_scaling),
        )

    def target_rows(self, targets: Any) -> Any:
        """Return a single machine's targets for two classes."""
        return _single(targets)

    def model(self, total: float, own_class: Array | None) -> Linear:
        """Return the machines with the penalty as it is for so much weight."""
        l2 = 1 / (self.C * total)
        if self.intercept and self.scaling == 1 and own_class is None:
            return LinearSVM(l2, penalise_intercept=True)
        return Machines(
            l2,
            intercept=self.intercept,
            intercept_share=self.scaling**-2,
            own_class=None if own_class is None else tuple(own_class.tolist()),
        )


def refuse_positive(estimator: Any) -> None:
    """Raise where weights must not be negative."""
    if estimator.positive:
        raise refused(estimator, "positive=True", NO_CORNERS, "positive=False")


def one_alpha(estimator: Any) -> float:
    """Return the penalty; raise where there is one for each target."""
    alpha = np.unique(np.asarray(estimator.alpha, dtype=np.float64))
    if alpha.size != 1:
        raise refused(estimator, "an alpha for each target", "which is not known", "one number")
    return float(alpha[0])

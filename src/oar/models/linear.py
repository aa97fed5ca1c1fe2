"""Models whose outputs are linear in the features: z = W x + b, with a convex loss φ(z, y).

With a = ∂φ/∂z and B = ∂²φ/∂z² everything that planning needs has a closed form. Write V, c for the blocks of a
direction v in parameter space that belong to W, b, and u = V x + c:

    ∇_θ ℓ = a ⊗ (x, 1)          vᵀ∇_θ ℓ = aᵀu          H = Σ w̄ B ⊗ (x, 1)(x, 1)ᵀ          ∇_x (aᵀu) = Vᵀa + Wᵀ B u

With a free intercept these models are translation-equivariant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.errors import DataError
from oar.models.differentiable import Differentiable, need_jax
from oar.models.linear_training import LinearTraining
from oar.people import Population


class Linear(Differentiable):
    """z = W x + b. Parameters are one array (o, d + 1): the last column is the intercept.

    The functions below take outputs and targets as (o, ...): one column a person.
    """

    convex = True
    penalise_intercept = False
    l2: float
    steepest: float
    """β with B ≤ β I, whatever the outputs."""

    def initial(self, dimensions: int, outputs: int) -> Any:
        """Start every refit from zero."""
        return np.zeros((outputs, dimensions + 1))

    def outputs(self, parameters: Any, features: Any) -> Any:
        """Return z (o,)."""
        return parameters[:, :-1] @ features + parameters[:, -1]

    def output_loss(self, outputs: Any, target: Any) -> Any:
        """Return φ, shape (...)."""
        raise NotImplementedError

    def slopes(self, outputs: Any, target: Any) -> Any:
        """Return a = ∂φ/∂z, shape (o, ...)."""
        raise NotImplementedError

    def bend(self, outputs: Any, target: Any, direction: Any) -> Any:
        """Return B u for directions u, shape (o, ...)."""
        raise NotImplementedError

    def curvature(self, outputs: Any, target: Any) -> Any:
        """Return B, shape (o, o, ...)."""
        raise NotImplementedError

    def example_loss(self, parameters: Any, features: Any, target: Any) -> Any:
        """Return φ(W x + b, y)."""
        return self.output_loss(self.outputs(parameters, features), target)

    def penalty(self, parameters: Any) -> Any:
        """Return l2/2 ‖W‖², with b in W where the intercept is penalised too."""
        penalised = parameters if self.penalise_intercept else parameters[:, :-1]
        return 0.5 * self.l2 * (penalised**2).sum()

    def fixes_gauge(self, outputs: int) -> bool:
        """Report whether adding a constant to all intercepts moves no prediction, so that it must be ruled out."""
        return False

    def gauge(self, parameters: Any) -> Any:
        """Return ½ (Σ b / o)² where that is needed: no stiffer than the rest of the risk, so that series converge."""
        return 0.5 * (parameters[:, -1].sum() / len(parameters)) ** 2 if self.fixes_gauge(len(parameters)) else 0.0

    def runs_off(self, risk: float) -> bool:
        """Report whether a risk this low means that parameters grow for ever."""
        return False

    def training(self, people: Population) -> LinearTraining:
        """Bind the model to people: passes over their data, refits, and Hessian solves."""
        need_jax(self.name)
        weights = np.ones(people.size) if people.weights is None else people.weights
        features = np.ascontiguousarray(people.features, dtype=np.float64)
        return LinearTraining(self, features, self.targets(people), weights / weights.sum())


def _check_l2(l2: float, needed: str = "") -> None:
    if not 0 <= l2 < np.inf or (needed and l2 == 0):
        raise DataError(f"l2: must be finite and {'> 0 ' + needed if needed else '≥ 0'}, got {l2!r}.")


@dataclass(frozen=True)
class SoftmaxRegression(Linear):
    """Multinomial logistic regression: mean cross-entropy + l2/2 ‖W‖², free intercept.

    The same as scikit-learn's `LogisticRegression(C=1/(n·l2))`, which for two classes has a single logit.
    """

    l2: float = 1e-2
    name = "softmax-regression"
    steepest = 0.5
    equivariant = True

    def __post_init__(self) -> None:
        """Refuse a regulariser that cannot be."""
        _check_l2(self.l2)

    def fixes_gauge(self, outputs: int) -> bool:
        """Softmax over several logits does not see a common constant."""
        return outputs > 1

    def runs_off(self, risk: float) -> bool:
        """Without a regulariser, a mean cross-entropy near 0 is that of separable data."""
        return self.l2 == 0 and risk < 1e-6

    def target_rows(self, targets: Any) -> Any:
        """Return all columns, but for two classes only the second's: a single logit."""
        return targets[:, 1:] if targets.shape[1] == 2 else targets

    def output_loss(self, outputs: Any, target: Any) -> Any:
        """Return log Σ e^z − yᵀz, for targets y on the simplex."""
        import jax.numpy as jnp

        highest = _highest(outputs)
        total = jnp.exp(outputs - highest).sum(axis=0) + _reference(outputs, highest)
        return highest + jnp.log(total) - (target * outputs).sum(axis=0)

    def slopes(self, outputs: Any, target: Any) -> Any:
        """Return p − y."""
        return softmax(outputs) - target

    def bend(self, outputs: Any, target: Any, direction: Any) -> Any:
        """Return (diag p − p pᵀ) u."""
        shares = softmax(outputs)
        return shares * (direction - (shares * direction).sum(axis=0))

    def curvature(self, outputs: Any, target: Any) -> Any:
        """Return diag p − p pᵀ."""
        import jax.numpy as jnp

        shares = softmax(outputs)
        return jnp.eye(len(shares))[..., None] * shares - shares[:, None] * shares[None]


@dataclass(frozen=True)
class Ridge(Linear):
    """Linear regression on real vectors: mean ½‖z − y‖² + l2/2 ‖W‖², free intercept.

    The same as scikit-learn's `Ridge(alpha=n·l2)`.
    """

    l2: float = 1e-2
    name = "ridge"
    steepest = 1.0
    equivariant = True
    regresses = True

    def __post_init__(self) -> None:
        """Refuse a regulariser that cannot be."""
        _check_l2(self.l2)

    def output_loss(self, outputs: Any, target: Any) -> Any:
        """Return ½‖z − y‖²."""
        return 0.5 * ((outputs - target) ** 2).sum(axis=0)

    def slopes(self, outputs: Any, target: Any) -> Any:
        """Return z − y."""
        return outputs - target

    def bend(self, outputs: Any, target: Any, direction: Any) -> Any:
        """Return u: the curvature is the identity."""
        return direction

    def curvature(self, outputs: Any, target: Any) -> Any:
        """Return the identity for everyone."""
        import jax.numpy as jnp

        return jnp.broadcast_to(jnp.eye(len(outputs))[..., None], (len(outputs), *outputs.shape))


@dataclass(frozen=True)
class LinearSVM(Linear):
    """Linear support vector machine with the squared hinge, one against the rest: differentiable everywhere.

    Mean Σ_o max(0, 1 − t_o z_o)² + l2/2 ‖W‖² with t = 2y − 1: ±1 for labels, less for soft ones. With
    `penalise_intercept` it is scikit-learn's `LinearSVC(C=1/(n·l2))`, which penalises its intercept and so is not
    translation-equivariant.
    """

    l2: float = 1e-2
    penalise_intercept: bool = False
    name = "linear-svm"
    steepest = 2.0

    def __post_init__(self) -> None:
        """Refuse a regulariser that cannot be."""
        _check_l2(self.l2)

    def target_rows(self, targets: Any) -> Any:
        """Return all columns, but for two classes only the second's: a single machine."""
        return targets[:, 1:] if targets.shape[1] == 2 else targets

    @property
    def equivariant(self) -> bool:  # type: ignore[override]
        """Whether shifting everyone changes nothing: only with a free intercept."""
        return not self.penalise_intercept

    def output_loss(self, outputs: Any, target: Any) -> Any:
        """Return Σ max(0, 1 − t z)² for targets that are 0 or 1 (t = 2y − 1)."""
        return (_shortfall(outputs, target) ** 2).sum(axis=0)

    def slopes(self, outputs: Any, target: Any) -> Any:
        """Return −2 t max(0, 1 − t z)."""
        return -2 * (2 * target - 1) * _shortfall(outputs, target)

    def bend(self, outputs: Any, target: Any, direction: Any) -> Any:
        """Return 2 t² u where the margin is violated, 0 elsewhere."""
        return 2 * (2 * target - 1) ** 2 * (_shortfall(outputs, target) > 0) * direction

    def curvature(self, outputs: Any, target: Any) -> Any:
        """Return the diagonal 2 t² [margin violated]."""
        import jax.numpy as jnp

        diagonal = 2 * (2 * target - 1) ** 2 * (_shortfall(outputs, target) > 0)
        return jnp.eye(len(outputs))[..., None] * diagonal


def _shortfall(outputs: Any, target: Any) -> Any:
    return _arrays(outputs).maximum(1 - (2 * target - 1) * outputs, 0.0)


def _arrays(values: Any) -> Any:
    """Return the library that these arrays belong to, so that NumPy arrays need no JAX."""
    if isinstance(values, np.ndarray):
        return np
    import jax.numpy as jnp

    return jnp


def softmax(outputs: Any) -> Any:
    """Return e^z / Σ e^z over the first axis, safely; a single logit is measured against a second one that is 0."""
    highest = _highest(outputs)
    exponentials = _arrays(outputs).exp(outputs - highest)
    return exponentials / (exponentials.sum(axis=0) + _reference(outputs, highest))


def _highest(outputs: Any) -> Any:
    return outputs.max(axis=0) if len(outputs) > 1 else _arrays(outputs).maximum(outputs[0], 0.0)


def _reference(outputs: Any, highest: Any) -> Any:
    """Return e^(0 − highest) for the logit that is not there where there is a single one."""
    return 0.0 if len(outputs) > 1 else _arrays(outputs).exp(-highest)

"""Models whose outputs are linear in the features: z = W x + b, with a convex loss φ(z, y).

With a = ∂φ/∂z and B = ∂²φ/∂z² everything that planning needs has a closed form. Write V, c for the blocks of a
direction v in parameter space that belong to W, b, and u = V x + c:

    ∇_θ ℓ = a ⊗ (x, 1)          vᵀ∇_θ ℓ = aᵀu          H = Σ w̄ B ⊗ (x, 1)(x, 1)ᵀ          ∇_x (aᵀu) = Vᵀa + Wᵀ B u

The intercept is free, so these models are translation-equivariant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.models.differentiable import Differentiable


class Linear(Differentiable):
    """z = W x + b. Parameters are one array (o, d + 1): the last column is the intercept, which is not penalised."""

    convex = True
    equivariant = True
    l2: float

    def initial(self, dimensions: int, outputs: int) -> Any:
        """Start every refit from zero."""
        return np.zeros((outputs, dimensions + 1))

    def outputs(self, parameters: Any, features: Any) -> Any:
        """Return z (o,)."""
        return parameters[:, :-1] @ features + parameters[:, -1]

    def output_loss(self, outputs: Any, target: Any) -> Any:
        """Return φ for outputs (o, ...) and targets (o, ...): shape (...)."""
        raise NotImplementedError

    def slopes(self, outputs: Any, target: Any) -> Any:
        """Return a = ∂φ/∂z, shape (o, ...)."""
        raise NotImplementedError

    def bend(self, outputs: Any, target: Any, direction: Any) -> Any:
        """Return B u for directions u (o, ...), shape (o, ...)."""
        raise NotImplementedError

    def curvature(self, outputs: Any, target: Any) -> Any:
        """Return B, shape (o, o, ...)."""
        raise NotImplementedError

    def example_loss(self, parameters: Any, features: Any, target: Any) -> Any:
        """Return φ(W x + b, y)."""
        return self.output_loss(self.outputs(parameters, features), target)

    def penalty(self, parameters: Any) -> Any:
        """Return l2/2 ‖W‖²."""
        return 0.5 * self.l2 * (parameters[:, :-1] ** 2).sum()


@dataclass(frozen=True)
class SoftmaxRegression(Linear):
    """Multinomial logistic regression: mean cross-entropy + l2/2 ‖W‖², free intercept.

    The same as scikit-learn's `LogisticRegression(C=1/(n·l2))`.
    """

    l2: float = 1e-2
    name = "softmax-regression"

    def output_loss(self, outputs: Any, target: Any) -> Any:
        """Return the cross-entropy log Σ e^z − yᵀz (y on the simplex)."""
        import jax.numpy as jnp

        highest = outputs.max(axis=0)
        return highest + jnp.log(jnp.exp(outputs - highest).sum(axis=0)) - (target * outputs).sum(axis=0)

    def slopes(self, outputs: Any, target: Any) -> Any:
        """Return p − y."""
        return _softmax(outputs) - target

    def bend(self, outputs: Any, target: Any, direction: Any) -> Any:
        """Return (diag p − p pᵀ) u."""
        shares = _softmax(outputs)
        return shares * (direction - (shares * direction).sum(axis=0))

    def curvature(self, outputs: Any, target: Any) -> Any:
        """Return diag p − p pᵀ."""
        import jax.numpy as jnp

        shares = _softmax(outputs)
        return jnp.eye(len(shares))[..., None] * shares - shares[:, None] * shares[None]

    def gauge(self, parameters: Any) -> Any:
        """Return ½ (Σ b)²: adding a constant to all intercepts moves no prediction."""
        return 0.5 * parameters[:, -1].sum() ** 2


def _softmax(outputs: Any) -> Any:
    import jax.numpy as jnp

    exponentials = jnp.exp(outputs - outputs.max(axis=0))
    return exponentials / exponentials.sum(axis=0)

"""The objective of estimators whose `fit` stops before the minimum: their loss and penalty, in JAX.

    R(θ) = Σ_i w̄_i φ(f_θ(e_i), y_i) + Ω(θ)

is what `fit` is on its way to. Its second derivatives say how parameters answer to data, as far as training went.
"""

from __future__ import annotations

from typing import Any

from oar.models.differentiable import Differentiable


class TrainedModel(Differentiable):
    """Base of these; φ is a function of raw outputs, which a query's outputs may be made of."""

    convex = False  # there may be one minimum, but training does not end there
    equivariant = False

    def raw(self, parameters: Any, features: Any) -> Any:
        """Return f_θ(e) (o,) for one person."""
        raise NotImplementedError

    def loss(self, raw: Any, target: Any) -> Any:
        """Return φ."""
        raise NotImplementedError

    def bent(self, raw: Any, target: Any) -> Any:
        """Return a loss whose second derivatives stand for φ's; a hinge has none but at its kink."""
        return self.loss(raw, target)

    def outputs(self, parameters: Any, features: Any) -> Any:
        """Return what queries are judged by."""
        return self.raw(parameters, features)

    def example_loss(self, parameters: Any, features: Any, target: Any) -> Any:
        """Return φ of one person."""
        return self.loss(self.raw(parameters, features), target)

    def query_loss(self, parameters: Any, features: Any, target: Any) -> Any:
        """Return the cross-entropy of the outputs, or of values ½‖z − y‖²."""
        found = self.outputs(parameters, features)
        return 0.5 * ((found - target) ** 2).sum() if self.regresses else cross_entropy(found, target)


def cross_entropy(outputs: Any, target: Any) -> Any:
    """Return log Σ e^z − yᵀz; a single output is measured against 0."""
    import jax
    import jax.numpy as jnp

    logits = jnp.append(0.0, outputs) if outputs.shape == (1,) else outputs
    return jax.nn.logsumexp(logits) - target @ outputs

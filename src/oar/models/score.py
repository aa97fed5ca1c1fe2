"""A member's score, s(x) = vᵀ∇_θ ℓ(θ; x, y): what its data do for the query, to first order.

θ and v are a signal; nobody else's data are needed. For linear models z = W x + b, with V, c the blocks of v,
u = V x + c, a = ∂φ/∂z and B = ∂²φ/∂z²:

    ∇_θ ℓ = a ⊗ (x, 1)      s = aᵀu      ∇_x s = (∂z/∂x)ᵀ(∂a/∂z)ᵀu + (∂u/∂x)ᵀa = Wᵀ B u + Vᵀ a

in NumPy alone. For every other model s = d/dt ℓ(θ + t v; x, y) at t = 0, and ∇_x s by reverse over forward, in JAX.
"""

from __future__ import annotations

import numpy as np

from oar.errors import NumericsError
from oar.models.differentiable import Differentiable, need_jax_functions
from oar.models.training import Array


class AutodiffScore:
    """Any differentiable model, by automatic differentiation."""

    def __init__(self, model: Differentiable, parameters: Array, signal: Array) -> None:
        need_jax_functions(model, "a member's score")
        self._model, self._parameters, self._signal = model, parameters, signal

    def entries(self) -> list[AutodiffScore]:
        """Return no scores of single entries: there may be many, each of which takes another pass."""
        return []

    def __call__(self, rows: Array, targets: Array) -> tuple[Array, Array]:
        """Return s and ∇_x s; rows are padded to a power of two, so that few shapes are compiled."""
        import jax

        from oar.models.autodiff.passes import compiled

        size, padded = len(rows), 1 << (len(rows) - 1).bit_length()
        places = np.minimum(np.arange(padded), size - 1)
        run = compiled(self._model, rows.shape[1], targets.shape[1], "scored")
        with jax.enable_x64(True):
            found = run(self._parameters, {}, self._signal, rows[places], targets[places])
        values, gradients = (np.array(array[:size]) for array in found)
        if not (np.isfinite(values).all() and np.isfinite(gradients).all()):
            raise NumericsError(
                f"features: the score of {self._model.name} and its gradient must be finite, got others; "
                "these features may lie where the loss is not differentiable, or too far from the data."
            )
        return values, gradients

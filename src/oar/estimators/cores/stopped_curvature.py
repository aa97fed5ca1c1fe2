"""Solving with the curvature where training stopped, which need not be a minimum.

Training that is stopped early is held back as by a penalty on how far parameters have come: gradient descent for a time
t ends about where R + ‖θ − θ₀‖²/2t is least, where ∇R = −(θ − θ₀)/t. So λ = ‖∇R(θ)‖ / ‖θ‖ tells how much, and

    (H + λ I) v = g

is solved; where training did converge, λ is next to nothing. A network's H need not be positive, and a hinge has none
at all: then the Gauss–Newton matrix G = Σ w̄ Jᵀ ∂²φ J + ∂²Ω, with J = ∂f/∂θ, takes its place, which is never negative.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from oar.errors import NumericsError
from oar.models.autodiff.passes import DIRECTIONS, Passes, added_up
from oar.models.fit.conjugate_gradients import conjugate_gradients
from oar.models.training import Array

SMALL = 600  # parameters up to which matrices are built and factored
MOST_PRODUCTS = 200
LEAST = 1e-12  # of the mean curvature: added to all, for directions that move no prediction


class GaussNewton(Passes):
    """Products with G, by the Hessian of the risk with f linear in θ."""

    def gauss_newton(self, theta: Any, constants: Any, direction: Any, *chunks: Any) -> Any:
        """Return G times a direction."""
        import jax
        import jax.numpy as jnp

        model: Any = self._bound(constants)

        def linear(step: Any, rows: Any, targets: Any, weights: Any) -> Any:
            def person(row: Any, target: Any) -> Any:
                raw, change = jax.jvp(lambda at: model.raw(self._unravel(at), row), (theta,), (step,))
                return model.bent(jax.lax.stop_gradient(raw) + change, target)

            return weights @ jax.vmap(person)(rows, targets)

        still = jnp.zeros_like(theta)

        def bend(*chunk: Any) -> Any:
            return jax.jvp(lambda step: jax.grad(linear)(step, *chunk), (still,), (direction,))[1]

        extra = jax.jvp(lambda at: jax.grad(self._extras)(at, constants), (theta,), (direction,))[1]
        return added_up(bend, chunks, extra)

    def gauss_newton_matrix(self, theta: Any, constants: Any, *chunks: Any) -> Any:
        """Return G."""
        import jax
        import jax.numpy as jnp

        units = jnp.eye(theta.size)
        found = jax.lax.map(
            lambda unit: self.gauss_newton(theta, constants, unit, *chunks), units, batch_size=DIRECTIONS
        )
        return 0.5 * (found + found.T)


@lru_cache(maxsize=64)
def compiled(model: Any, dimensions: int, outputs: int, kind: str) -> Callable[..., Any]:
    """Return one of these passes, compiled."""
    import jax

    return jax.jit(getattr(GaussNewton(model, dimensions, outputs), kind))


def solved_densely(matrices: list[Callable[[], Array]], right: Array, damping: float) -> Array:
    """Return (M + λ I)⁻¹ g for the first of these matrices that is positive then."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    for matrix in matrices:
        found = matrix()
        if not np.isfinite(found).all():
            continue
        lift = damping + LEAST * float(np.abs(np.diag(found)).mean())
        try:
            return cho_solve(cho_factor(found + lift * np.eye(len(found))), right)
        except LinAlgError:
            continue
    raise _no_curvature()


def solved_by_products(
    products: list[Callable[[Array], Array]], right: Array, damping: float, tolerance: float
) -> Array:
    """Return the same by conjugate gradients, as near as a number of products gets."""
    size = float(np.linalg.norm(right))
    for product in products:
        found = conjugate_gradients(
            lambda direction, product=product: product(direction) + damping * direction,  # type: ignore[misc]
            right,
            tolerance * size,
            MOST_PRODUCTS,
        )
        if found.descent is None and np.isfinite(found.residual):
            return found.solution
    raise _no_curvature()


def _no_curvature() -> NumericsError:
    return NumericsError(
        "Hessian: training must have some curvature where it stops, got none that is positive and finite; a larger "
        "alpha or standardised features make training easier."
    )

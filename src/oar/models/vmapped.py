"""Refits of one linear model to many moves of the same few people, side by side: one compiled call for all of them.

A small table's refit is quicker than calling what does it, so that most of a search's time goes to calls. Here
`jax.vmap` makes one call of as many refits as there are lanes. A lane knows nothing of the others: it runs Newton's
method to its end, and waits.

With H the Hessian of the training risk at the refit θ*, g = ∇_θ L and v = H⁻¹ g, the query's loss L changes with member
i's move as −w̄_i ∇_x s_i, and with the query's own as ∇_x L.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oar.models.linear_passes import at_once

if TYPE_CHECKING:
    from oar.models.linear import Linear

Array = NDArray[np.float64]
VANISHED = 1e-9  # of the gradient, with each parameter in units in which the risk bends by 1
MOST_NEWTON = 40
SUFFICIENT, SHORTEST = 1e-4, 1e-6  # of a Newton step: what it must gain, and the least share of it that is tried
ROUNDING = 1e-14  # of the risk
SINGULAR = 1e-14  # of the diagonal: added to it, because H only steers


class RefitsSideBySide:
    """A linear model on people who are few, refitted to many moves at a time.

    Args:
        model: one whose loss is smooth, with an intercept.
        features: (n, d).
        targets: (n, o).
        weights: (n,), which sum to 1.

    Attributes:
        passes: how often everybody was gone through, in all lanes that were asked for.
    """

    def __init__(self, model: Linear, features: Array, targets: Array, weights: Array) -> None:
        self._model, self._centre = model, weights @ features
        self._people = features - self._centre, targets, weights
        self.parameters = (targets.shape[1], features.shape[1] + 1)
        self.passes = 0

    def at(self, moves: Array, query: Array, target: Array, start: Array) -> tuple[Array, Array, Array]:
        """Refit to moves (b, n + 1, d), the query's own last; return its losses (b,), their slopes in moves, and θ.

        Refits start at `start` (b, o, d + 1), in the units in which θ is returned. A loss is infinite where its refit
        did not converge.
        """
        import jax

        with jax.enable_x64(True):
            found = _compiled(self._model)(*self._people, moves, query - self._centre, target, start)
        losses, slopes, parameters, newton = (np.asarray(one) for one in found)
        self.passes += int((2 * newton + 3).sum())  # a Hessian and a gradient each; the first, the last H, and scores
        return losses, slopes, parameters


@lru_cache(maxsize=16)
def _compiled(model: Linear) -> Any:
    import jax

    def one(features: Any, targets: Any, weights: Any, moves: Any, query: Any, target: Any, start: Any) -> Any:
        return _refitted(model, (features + moves[:-1], targets, weights), query + moves[-1], target, start)

    return jax.jit(jax.vmap(one, in_axes=(None, None, None, 0, None, None, 0)))


def _refitted(model: Linear, chunk: Any, query: Any, target: Any, start: Any) -> Any:
    """Refit from `start`; return the query's loss there, its slopes, θ, and how many Newton steps it took."""
    import jax
    import jax.numpy as jnp

    shape = start.shape

    def penalty(parameters: Any) -> Any:
        return model.penalty(parameters) + model.gauge(parameters)

    quadratic = jax.hessian(penalty)(jnp.zeros(shape)).reshape(start.size, start.size)  # P: the penalty is ½ θᵀPθ

    def risk(parameters: Any) -> tuple[Any, Any]:
        value, gradient = at_once(model, "risk", chunk, parameters)
        pressed = (quadratic @ parameters.ravel()).reshape(shape)
        return value + 0.5 * (parameters * pressed).sum(), gradient + pressed

    def curved(parameters: Any) -> tuple[Any, Any]:
        """Return H with every parameter in units in which it bends by 1, and these units (p,)."""
        hessian = at_once(model, "hessian", chunk, parameters).reshape(start.size, start.size) + quadratic
        units = jnp.sqrt(jnp.diag(hessian))
        return hessian / units / units[:, None] + SINGULAR * jnp.eye(start.size), units

    def going(state: Any) -> Any:
        _, _, _, left, taken = state
        return (left > VANISHED) & (taken < MOST_NEWTON)

    def newton(state: Any) -> Any:
        parameters, value, gradient, _, taken = state
        hessian, units = curved(parameters)
        step = (jnp.linalg.solve(hessian, gradient.ravel() / units) / units).reshape(shape)
        slope = (gradient * step).sum()

        def too_far(tried: Any) -> Any:
            share, there, _ = tried
            enough = value - SUFFICIENT * share * slope + ROUNDING * jnp.abs(value)
            return ~(there <= enough) & (share > SHORTEST)

        def halved(tried: Any) -> Any:
            share = tried[0] / 2
            return share, *risk(parameters - share * step)

        share, there, uphill = jax.lax.while_loop(too_far, halved, (jnp.asarray(1.0), *risk(parameters - step)))
        return parameters - share * step, there, uphill, jnp.linalg.norm(uphill.ravel() / units), taken + 1

    first = (start, *risk(start), jnp.asarray(jnp.inf), jnp.asarray(0))
    parameters, _, _, left, taken = jax.lax.while_loop(going, newton, first)

    def judged(theta: Any, point: Any) -> Any:
        return model.example_loss(theta, point, target)

    loss, (pull, own) = jax.value_and_grad(judged, (0, 1))(parameters, query)
    hessian, units = curved(parameters)
    signal = (jnp.linalg.solve(hessian, pull.ravel() / units) / units).reshape(shape)
    scores = at_once(model, "scores", chunk, parameters, signal, parameters[:, :-1], signal[:, :-1])
    return jnp.where(left <= VANISHED, loss, jnp.inf), jnp.concatenate([-scores, own[None]]), parameters, taken

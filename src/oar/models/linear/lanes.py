"""Refits of one linear model to many moves of the same few people, side by side: one compiled call for all of them.

A refit to few people is quicker than calling what does it, so that most of a search's time goes to calls. Here
`jax.vmap` makes one call of as many refits as there are lanes. A lane knows nothing of the others: it runs Newton's
method to its end, and waits.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.models.linear.losses import KINDS
from oar.models.linear.training import LinearTraining
from oar.models.training import Array
from oar.tolerances import SUFFICIENT

if TYPE_CHECKING:
    from oar.models.linear.losses import SoftmaxRegression

VANISHED = 1e-9  # of the gradient, with each parameter in units in which the risk bends by 1
MOST_NEWTON = 40
SHORTEST = 1e-6  # the least share of a Newton step that is tried
ROUNDING = 1e-14  # of the risk
SINGULAR = 1e-14  # of the diagonal: added to it, because H only steers


class RefitsSideBySide:
    """Softmax regression on few people, refitted to many moves at a time; `passes` are those of lanes of interest."""

    def __init__(self, model: SoftmaxRegression, training: LinearTraining) -> None:
        self._people, self._centre, self._scale, self._penalty = training.in_own_units()
        self._refit = _compiled(replace(model, l2=1.0))  # the penalty is an argument, so that there is one program
        self.shape, self.passes = training.shape, 0

    def at(
        self, moves: Array, query: Array, target: Array, start: Array, lanes: int | None = None
    ) -> tuple[Array, Array, Array]:
        """Refit to moves (b, n + 1, d), the query's own last; return its losses (b,), their slopes in moves, and θ.

        Refits start at `start` (b, o, d + 1), in the units in which θ is returned. Only the first `lanes` are of
        interest. A loss is infinite where its refit did not converge.
        """
        import jax

        there = (query - self._centre) / self._scale
        with jax.enable_x64(True):
            found = self._refit(*self._people, self._penalty, moves / self._scale, there, target, start)
        losses, slopes, parameters, passes = (np.asarray(one)[:lanes] for one in found)
        self.passes += int(passes.sum())
        return losses, slopes / self._scale, parameters


@lru_cache(maxsize=4)
def _compiled(model: SoftmaxRegression) -> Any:
    import jax

    def one(features: Any, targets: Any, weights: Any, penalty: Any, moves: Any, query: Any, *given: Any) -> Any:
        return _refitted(model, (features + moves[:-1], targets, weights), penalty, query + moves[-1], *given)

    return jax.jit(jax.vmap(one, in_axes=(None, None, None, None, 0, None, None, 0)))


def _refitted(model: SoftmaxRegression, chunk: Any, penalty: Any, query: Any, target: Any, start: Any) -> Any:
    """Refit from `start`; return the query's loss there, its slopes, θ, and how many passes it took."""
    import jax
    import jax.numpy as jnp

    shape = start.shape

    def risk(parameters: Any) -> tuple[Any, Any]:
        value, gradient = KINDS["risk"](model, chunk, parameters)
        pressed = (penalty @ parameters.ravel()).reshape(shape)
        return value + 0.5 * (parameters * pressed).sum(), gradient + pressed

    def curved(parameters: Any) -> tuple[Any, Any]:
        """Return H with every parameter in units in which it bends by 1, and these units (p,)."""
        hessian = KINDS["hessian"](model, chunk, parameters).reshape(start.size, start.size) + penalty
        units = jnp.sqrt(jnp.diag(hessian))
        return hessian / units / units[:, None] + SINGULAR * jnp.eye(start.size), units

    def going(state: Any) -> Any:
        _, _, _, left, taken, _ = state
        return (left > VANISHED) & (taken < MOST_NEWTON)

    def newton(state: Any) -> Any:
        parameters, value, gradient, _, taken, passes = state
        hessian, units = curved(parameters)
        step = (jnp.linalg.solve(hessian, gradient.ravel() / units) / units).reshape(shape)
        slope = (gradient * step).sum()

        def too_far(tried: Any) -> Any:
            share, _, there, _ = tried
            enough = value - SUFFICIENT * share * slope + ROUNDING * jnp.abs(value)
            return ~(there <= enough) & (share > SHORTEST)

        def halved(tried: Any) -> Any:
            share = tried[0] / 2
            return share, tried[1] + 1, *risk(parameters - share * step)

        first = (jnp.asarray(1.0), jnp.asarray(2), *risk(parameters - step))  # two passes: the Hessian, and this one
        share, more, there, uphill = jax.lax.while_loop(too_far, halved, first)
        left = jnp.linalg.norm(uphill.ravel() / units)
        return parameters - share * step, there, uphill, left, taken + 1, passes + more

    began = (start, *risk(start), jnp.asarray(jnp.inf), jnp.asarray(0), jnp.asarray(3))  # this, the last H, and scores
    parameters, _, _, left, _, passes = jax.lax.while_loop(going, newton, began)

    def judged(theta: Any, point: Any) -> Any:
        return model.example_loss(theta, point, target)

    loss, (pull, own) = jax.value_and_grad(judged, (0, 1))(parameters, query)
    hessian, units = curved(parameters)
    signal = (jnp.linalg.solve(hessian, pull.ravel() / units) / units).reshape(shape)
    scores = KINDS["scores"](model, chunk, parameters, signal, parameters[:, :-1], signal[:, :-1])
    return jnp.where(left <= VANISHED, loss, jnp.inf), jnp.concatenate([-scores, own[None]]), parameters, passes

"""Passes over the data of any differentiable model, compiled once for each (model, shapes) and kept.

People lie in chunks (chunks, rows, d); a pass maps one vmapped function over them, so that memory is what one chunk
needs. With θ flat and v a direction in parameter space:

    risk     R(θ) = Σ_i w̄_i ℓ(θ; x_i, y_i) + Ω(θ) + gauge(θ), and ∇R
    product  H v = d/dt ∇R(θ + t v) at t = 0                       (forward over reverse: never a p × p matrix)
    hessian  H = [H e_1 … H e_p]
    scores   ∇_x s_i,   s_i = vᵀ∇_θ ℓ(θ; x_i, y_i) = d/dt ℓ(θ + t v; x_i, y_i) at t = 0      (reverse over forward)
    scored   s_i and ∇_x s_i, for rows that are not in chunks
    goal     L(θ; x†, target), ∇_θ L, ∇_x L
    outputs  f_θ(x)
    loss, query_loss, penalty, gauge: the model's own functions of flat θ

Everything is traced and run in float64, inside `jax.enable_x64(True)`; no global setting is touched.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError, NumericsError
from oar.models.differentiable import Differentiable, need_jax_functions
from oar.models.training import Array

DIRECTIONS = 32  # Hessian columns that are computed side by side
ROWS = 1_024  # people whose scores are computed side by side
Unravel = Callable[[Any], Any]
UNTRACEABLE = (TypeError, ValueError, IndexError, RuntimeError)
"""What functions raise that JAX cannot trace: its own errors are TypeErrors and IndexErrors; layers that want random
keys or state raise RuntimeErrors."""


def compiled(model: Differentiable, dimensions: int, outputs: int, kind: str) -> Callable[..., Any]:
    """Return one kind of pass for a model; its arguments are those of the method of `Passes`."""
    try:
        return _compiled(model, dimensions, outputs, kind)
    except TypeError as reason:
        if "unhashable" not in str(reason):
            raise
        return _compiled.__wrapped__(model, dimensions, outputs, kind)  # the caller keeps it for as long as it lives


@lru_cache(maxsize=256)
def _compiled(model: Differentiable, dimensions: int, outputs: int, kind: str) -> Callable[..., Any]:
    import jax

    return jax.jit(getattr(Passes(model, dimensions, outputs), kind))


def of_the_model(name: str) -> Callable[..., Any]:
    """Return one of the model's own functions as a pass: of flat θ, and with the settings derived from the data."""

    def run(self: Passes, theta: Any, constants: dict[str, Any], *person: Any) -> Any:
        return getattr(self._bound(constants), name)(self._unravel(theta), *person)

    return run


class Passes:
    """The functions themselves, not compiled. All begin with (θ, constants): see `AutodiffTraining` for the latter."""

    def __init__(self, model: Differentiable, dimensions: int, outputs: int) -> None:
        import jax

        self._model = model
        with jax.enable_x64(True):
            self._unravel = flattened(model, dimensions, outputs)[1]

    def _bound(self, constants: dict[str, Any]) -> Any:
        return with_settings(self._model, constants)

    loss, query_loss = of_the_model("example_loss"), of_the_model("query_loss")
    outputs, penalty, gauge = map(of_the_model, ("outputs", "penalty", "gauge"))

    def _extras(self, theta: Any, constants: Any) -> Any:
        import jax.numpy as jnp

        return jnp.asarray(self.penalty(theta, constants) + self.gauge(theta, constants), float)

    def _chunk_risk(self, theta: Any, constants: Any, rows: Any, targets: Any, weights: Any) -> Any:
        import jax

        return weights @ jax.vmap(self.loss, (None, None, 0, 0))(theta, constants, rows, targets)

    def risk(self, theta: Any, constants: Any, *chunks: Any) -> Any:
        """Return R and ∇R."""
        import jax

        return added_up(
            lambda *chunk: jax.value_and_grad(self._chunk_risk)(theta, constants, *chunk),
            chunks,
            jax.value_and_grad(self._extras)(theta, constants),
        )

    def product(self, theta: Any, constants: Any, direction: Any, *chunks: Any) -> Any:
        """Return H times a direction."""
        import jax

        def bend(function: Callable[..., Any], *rest: Any) -> Any:
            return jax.jvp(lambda at: jax.grad(function)(at, constants, *rest), (theta,), (direction,))[1]

        return added_up(lambda *chunk: bend(self._chunk_risk, *chunk), chunks, bend(self._extras))

    def hessian(self, theta: Any, constants: Any, *chunks: Any) -> Any:
        """Return H."""
        return matrix_of(lambda unit: self.product(theta, constants, unit, *chunks), theta.size)

    def scores(self, theta: Any, constants: Any, signal: Any, *chunks: Any) -> Any:
        """Return ∇_x s for everyone, in chunks."""
        import jax

        score = self._score(theta, constants, signal)
        return jax.lax.map(lambda chunk: jax.vmap(jax.grad(score))(*chunk), chunks[:2])

    def values(self, theta: Any, constants: Any, signal: Any, *chunks: Any) -> Any:
        """Return s for everyone, in chunks."""
        import jax

        score = self._score(theta, constants, signal)
        return jax.lax.map(lambda chunk: jax.vmap(score)(*chunk), chunks[:2])

    def scored(self, theta: Any, constants: Any, signal: Any, rows: Any, targets: Any) -> Any:
        """Return s and ∇_x s for every row."""
        import jax

        score = jax.value_and_grad(self._score(theta, constants, signal))
        return jax.lax.map(lambda person: score(*person), (rows, targets), batch_size=ROWS)

    def _score(self, theta: Any, constants: Any, signal: Any) -> Callable[..., Any]:
        import jax

        return lambda x, y: jax.jvp(lambda at: self.loss(at, constants, x, y), (theta,), (signal,))[1]

    def goal(self, theta: Any, constants: Any, x: Any, target: Any) -> Any:
        """Return L, ∇_θ L and ∇_x L."""
        import jax

        value, (by_parameters, by_features) = jax.value_and_grad(self.query_loss, (0, 2))(theta, constants, x, target)
        return value, by_parameters, by_features


class AutodiffScore:
    """A member's score, s(x) = vᵀ∇_θ ℓ(θ; x, y): what its data do for the query, to first order.

    θ and v are a signal; nobody else's data are needed.
    """

    def __init__(self, model: Differentiable, parameters: Array, signal: Array) -> None:
        need_jax_functions(model, "a member's score")
        self._model, self._parameters, self._signal = model, parameters, signal

    def entries(self) -> list[AutodiffScore]:
        """Return no scores of single entries: there may be many, each of which takes another pass."""
        return []

    def __call__(self, rows: Array, targets: Array) -> tuple[Array, Array]:
        """Return s and ∇_x s; rows are padded to a power of two, so that few shapes are compiled."""
        import jax

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


def with_settings(model: Any, settings: dict[str, Any]) -> Any:
    """Return the model with some of its fields replaced; unchecked, for inside a pass they are no numbers yet."""
    changed = copy.copy(model)
    for name, value in settings.items():
        object.__setattr__(changed, name, value)
    return changed


def matrix_of(product: Callable[[Any], Any], size: int) -> Any:
    """Return a symmetric matrix (p, p) by its products."""
    import jax

    columns = jax.lax.map(product, jax.numpy.eye(size), batch_size=DIRECTIONS)
    return 0.5 * (columns + columns.T)


def added_up(function: Callable[..., Any], chunks: Any, first: Any) -> Any:
    """Return first + Σ function(chunk), one chunk after the other."""
    import jax
    import jax.numpy as jnp

    def step(total: Any, chunk: Any) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, function(*chunk)), None

    return jax.lax.scan(step, first, chunks)[0]


def flattened(model: Differentiable, dimensions: int, outputs: int) -> tuple[NDArray[np.float64], Unravel]:
    """Return the initial parameters as a float64 vector, and the way back; call it inside `jax.enable_x64(True)`."""
    from jax.flatten_util import ravel_pytree

    flat, unravel = ravel_pytree(float_tree(model.initial(dimensions, outputs), f"initial: {model.name}'s parameters"))
    theta = np.asarray(flat, dtype=np.float64)
    if theta.size == 0:
        raise DataError(f"initial: {model.name}'s parameters must hold at least one number, got none.")
    if not np.isfinite(theta).all():
        raise DataError(
            f"initial: {model.name}'s parameters must be finite, got {int((~np.isfinite(theta)).sum())} of "
            f"{theta.size} that are not; check how they are drawn."
        )
    return theta, unravel


def float_tree(tree: Any, argument: str) -> Any:
    """Return the same pytree with float64 leaves; raise a DataError that names the first leaf that holds no floats."""
    import jax

    def leaf(path: Any, value: Any) -> NDArray[np.float64]:
        dtype = getattr(value, "dtype", None) or np.asarray(value).dtype
        # JAX's short floats (bfloat16 and the like) are no subtype of NumPy's: ask JAX.
        if not jax.numpy.issubdtype(dtype, np.floating):
            where = jax.tree_util.keystr(path) or "the whole of it"
            raise DataError(
                f"{argument} must be a pytree of float arrays, got {dtype} at {where}; "
                "use floats (1.0, not 1), and keep what is not learned out of the parameters."
            )
        return np.asarray(value, dtype=np.float64)

    return jax.tree_util.tree_map_with_path(leaf, tree)

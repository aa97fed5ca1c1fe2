"""From a model's parameters, a pytree of float arrays, to one flat vector θ and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError
from oar.models.differentiable import Differentiable

Unravel = Callable[[Any], Any]
UNTRACEABLE = (TypeError, ValueError, IndexError, RuntimeError)
"""What functions raise that JAX cannot trace: its own errors are TypeErrors and IndexErrors; layers that want random
keys or state raise RuntimeErrors."""


def flattened(model: Differentiable, dimensions: int, outputs: int) -> tuple[NDArray[np.float64], Unravel]:
    """Return the initial parameters as a float64 vector, and the way back; call it inside `jax.enable_x64(True)`.

    Raises:
        DataError: unless the initial parameters are a pytree of finite float arrays with at least one number.
    """
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

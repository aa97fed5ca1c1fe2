"""Any differentiable model, as deployed, by JAX: see `model`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from oar.errors import NumericsError
from oar.models import Differentiable
from oar.models.autodiff.passes import AutodiffScore
from oar.models.differentiable import need_jax_functions
from oar.tolerances import SOLVED
from oar.worlds.people.crowds import Data
from oar.worlds.protocol import Array, Rows

FEWEST = 64  # rows of a pass: fewer would be compiled anew, and cost as much


class AutodiffDeployed:
    """Any other model, by JAX. People are padded to a power of two by rows of weight 0, so few shapes are compiled."""

    def __init__(self, model: Differentiable, parameters: Any, classes: int) -> None:
        need_jax_functions(model, "an actor")
        import jax
        from jax.flatten_util import ravel_pytree

        self._model, self._classes = model, classes
        with jax.enable_x64(True):
            self._theta = np.asarray(ravel_pytree(parameters)[0], dtype=np.float64)

    def _targets(self, codes: Any) -> Array:
        return np.ascontiguousarray(self._model.target_rows(np.eye(self._classes)[codes]))

    def _run(self, kind: str, dimensions: int, outputs: int, *arguments: Any) -> Any:
        import jax

        from oar.models.autodiff.passes import compiled

        make = _over_rows if kind in ("slopes", "logits") else compiled
        run = make(self._model, dimensions, outputs, kind)
        with jax.enable_x64(True):
            found = [np.array(part) for part in run(self._theta, {}, *arguments)]
        if not all(np.isfinite(part).all() for part in found):
            raise NumericsError(
                f"features: the loss of {self._model.name} and its gradients must be finite, got others; these "
                "features may lie where the loss is not differentiable, or too far from the data."
            )
        return found

    def predicted(self, rows: Array) -> Rows:
        """Return the classes of the model's outputs."""
        (found,) = self._run("logits", rows.shape[1], self._targets([0]).shape[1], rows[_padding(len(rows))])
        return np.array([self._model.predicted_class(row) for row in found[: len(rows)]], dtype=np.intp)

    def goal(self, query: Array, code: int) -> tuple[float, Array]:
        """Return L and ∇_θ L."""
        target = self._targets([code])[0]
        loss, pull, _ = self._run("goal", query.size, target.size, query, target)
        return float(loss), pull

    def slopes(self, rows: Array, code: int) -> tuple[Array, Array]:
        """Return L and ∇_x L."""
        target = self._targets([code])[0]
        padded = rows[_padding(len(rows))]
        losses, slopes = self._run("slopes", rows.shape[1], target.size, padded, target)
        return losses[: len(rows)], slopes[: len(rows)]

    def gradient(self, people: Data) -> Array:
        """Return Σ w ∇_θ ℓ: the risk's gradient less that of penalty and gauge, which is the gradient at weights 0."""
        rows, targets, weights = self._padded(people)
        sizes = rows.shape[1], targets.shape[1]
        with_people = self._run("risk", *sizes, rows[None], targets[None], weights[None])[1]
        return with_people - self._run("risk", *sizes, rows[None], targets[None], 0.0 * weights[None])[1]

    def _padded(self, people: Data) -> tuple[Array, Array, Array]:
        places = _padding(len(people.features))
        weights = np.zeros(places.size)
        weights[: people.weights.size] = people.weights
        return people.features[places], self._targets(people.codes)[places], weights

    def scores(self, rows: Array, codes: Rows, signal: Array) -> tuple[Array, Array]:
        """Return s and ∇_x s."""
        return AutodiffScore(self._model, self._theta, signal)(rows, self._targets(codes))

    def influence(self, pull: Array, people: Data) -> Array:
        """Return H⁻¹g, or g itself, as a direction only, where the risk is not convex."""
        from oar.models.training import Fit

        rows, targets, weights = self._padded(people)
        training = self._model.bound(rows, targets, weights / weights.sum())
        fit = Fit(self._theta, training.moved(None), 0.0, True)
        try:
            return training.solve(fit, pull, None, SOLVED)
        except NumericsError:
            return pull


def _over_rows(*key: Any) -> Callable[..., Any]:
    """Return a pass over rows, compiled once for each model; for one that cannot be hashed, each time."""
    try:
        return _compiled(*key)
    except TypeError as reason:
        if "unhashable" not in str(reason):
            raise
        return _compiled.__wrapped__(*key)


@lru_cache(maxsize=128)
def _compiled(model: Differentiable, dimensions: int, outputs: int, kind: str) -> Callable[..., Any]:
    import jax

    from oar.models.autodiff.passes import Passes

    passes = Passes(model, dimensions, outputs)
    if kind == "slopes":
        return jax.jit(jax.vmap(jax.value_and_grad(passes.query_loss, 2), (None, None, 0, None)))
    return jax.jit(lambda *arguments: (jax.vmap(passes.outputs, (None, None, 0))(*arguments),))


def _padding(size: int) -> Rows:
    return np.minimum(np.arange(max(FEWEST, 1 << max(size - 1, 0).bit_length())), size - 1)

"""A PyTorch model bound to data: everything that planning asks for, in float64, on everybody at once.

Passes go over the data in chunks, so that memory is what one chunk needs. Without a `train` of the user's own, refits
go by L-BFGS and Newton to a minimum (`SecondOrderTraining`); with one, a refit is what that function returns, always
from the module as it was given, and signals are implicit at its parameters: exact if they are at a minimum of the loss
that was named, and otherwise as good as they are near one. `inexact` says which.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from oar.models.fit.curvature import MOST_DAMPING, Curvature
from oar.models.fit.refitting import SecondOrderTraining
from oar.models.protocol import delegated
from oar.models.torch.checks import check_functions
from oar.models.torch.module import numbers_of, torch_library
from oar.models.training import ALL, Array, Fit, Some, displaced
from oar.tolerances import CONVERGED


@delegated("_run.module", "flat")
class TorchTraining(SecondOrderTraining):
    """Implements `Training` for a `TorchModel`; `witness` says who retrains."""

    def __init__(self, model: Any, features: Any, targets: Any, weights: Any) -> None:
        super().__init__(model, features, targets, weights)
        self._run, self._tensor, self.inexact = model.passes, model.passes.module.tensor, ""
        self._start = model.passes.module.start
        self.parameter_count = self._start.size
        check_functions(model, self._features, self.targets)
        self.witness = model.witness
        self._bind()

    def _bind(self) -> None:
        self._targets, self._weights = self._cut(self.targets), self._cut(self.weights)
        most = MOST_DAMPING if self.model.train is None else np.inf
        self._curvature = Curvature(self.product, self.hessian, self.parameter_count, most)
        self._trained: tuple[Any, Fit, str] | None = None

    def _cut(self, array: Array) -> list[Any]:
        """Return an array's rows in chunks, as tensors."""
        rows = self.model.chunk
        return [self._tensor(array[begin : begin + rows]) for begin in range(0, len(array), rows)]

    def _parts(self, features: Any, weights: Any = None) -> Iterator[tuple[Any, ...]]:
        """Yield what adds up to the risk: a function of θ, and its other arguments; extras go with the first chunk."""
        chunks = zip(features, self._targets, self._weights if weights is None else weights, strict=True)
        for number, chunk in enumerate(chunks):
            yield self._run.weighed if number else self._run.risk, chunk

    def parameters(self, flat: Array) -> dict[str, Array]:
        """Return θ by the names of the module's parameters."""
        return self._run.module.arrays(flat)

    def moved(self, moves: Array | None, columns: Some = ALL) -> Any:
        """Return features in chunks, as tensors."""
        return self._cut(displaced(self._features, moves, columns))

    def risk_gradient(self, parameters: Array, features: Any) -> tuple[float, Array]:
        """Return the risk, regulariser and gauge included, and its gradient: one pass."""
        value, gradient = self._risk(parameters, features)
        return float(value), numbers_of(gradient)

    def _risk(self, parameters: Array, features: Any, weights: Any = None) -> tuple[Any, Any]:
        self.passes += 1
        theta = self._tensor(parameters)
        found = [self._run.value_gradient(part, theta, *chunk) for part, chunk in self._parts(features, weights)]
        return sum(value for value, _ in found), sum(gradient for _, gradient in found)

    def product(self, parameters: Array, features: Any, direction: Array) -> Array:
        """Return H times a direction: one pass."""
        self.passes += 1
        theta, along = self._tensor(parameters), self._tensor(direction)
        return numbers_of(sum(self._run.bend(part, theta, along, *chunk) for part, chunk in self._parts(features)))

    def hessian(self, parameters: Array, features: Any) -> Array:
        """Return H (p, p): as much work as p products."""
        self.passes += 1
        theta = self._tensor(parameters)
        found = numbers_of(sum(self._run.hessian(part, theta, *chunk) for part, chunk in self._parts(features)))
        return 0.5 * (found + found.T)

    def score_gradients(self, parameters: Array, features: Any, signal: Array, columns: Some = ALL) -> Array:
        """Return ∇_x s_i for everyone, in these columns: one pass."""
        return self._sound_scores(self._each(self._run.scores, parameters, features, signal, self._targets), columns)

    def scores(self, parameters: Array, features: Any, signal: Array, targets: Array) -> Array:
        """Return s = vᵀ∇_θ ℓ(θ; x, y) (n,) for everyone, if its target were that row of `targets` (n, o): one pass."""
        return self._each(self._run.values, parameters, features, signal, self._cut(targets))

    def _each(self, run: Any, parameters: Array, features: Any, signal: Array, targets: Any) -> Array:
        self.passes += 1
        at = self._tensor(parameters), self._tensor(signal)
        return np.concatenate([numbers_of(run(*at, *chunk)) for chunk in zip(features, targets, strict=True)])

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return the model's query loss and its gradients."""
        rows, targets = (np.asarray(one, dtype=np.float64)[None] for one in (query, target))
        losses, by_parameters, by_features = self.goals(parameters, rows, targets)
        return self._checked_goal(float(losses[0]), by_parameters, by_features[0])

    def goals(self, parameters: Array, rows: Array, targets: Array) -> tuple[Array, Array, Array]:
        """Return many people's losses (m,), their mean's ∇_θ, and each one's ∇_x (m, d)."""
        theta, chunks = self._tensor(parameters), zip(self._cut(rows), self._cut(targets), strict=True)
        losses, by_parameters, by_features = zip(*(self._run.goals(theta, *chunk) for chunk in chunks), strict=True)
        values, slopes = (np.concatenate([*map(numbers_of, those)]) for those in (losses, by_features))
        return values, numbers_of(sum(by_parameters)) / len(rows), slopes

    def outputs(self, parameters: Array, query: Array) -> Array:
        """Return f_θ(x†)."""
        found = self._run.outputs(self._tensor(parameters), self._tensor(query)[None])
        return self._checked_outputs(numbers_of(found)[0])

    def fit(self, features: Any, start: Array, tolerance: float) -> Fit:
        """Refit: by the user's own `train` if there is one, from scratch; otherwise by L-BFGS and Newton from `start`.

        Of what `train` returns nothing is left to converge, so its residual is 0.
        """
        if self.model.train is None:
            return super().fit(features, start, tolerance)
        # The same numbers are not trained on once more, wherever a refit starts.
        if self._trained is None or not all(map(torch_library().equal, self._trained[0], features)):
            self.passes += 1
            rows = np.concatenate([numbers_of(chunk) for chunk in features])
            parameters = self.model.trained(rows, self.targets, self.weights)
            left = float(np.linalg.norm(self.risk_gradient(parameters, features)[1]))
            inexact = (
                f" What `train` returned is not at a minimum (its gradient has a norm of {left:.1e}), so the gradient "
                "is approximate."
            )
            self._trained = features, Fit(parameters, features, 0.0, True), "" if left <= CONVERGED else inexact
        _, found, self.inexact = self._trained
        return found

    def _gradient_without_people(self, parameters: Array, features: Any) -> Array:
        nobody = [0.0 * weights for weights in self._weights]
        return numbers_of(self._risk(parameters, features, nobody)[1])

    def _term(self, argument: str, parameters: Array) -> tuple[Any, Any]:
        value, gradient = self._run.value_gradient(getattr(self._run, argument), self._tensor(parameters))
        return float(value), numbers_of(gradient)

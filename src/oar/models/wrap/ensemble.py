"""Ensembles, several models as one: a plan for an ensemble lowers the mean of its models' goal losses.

Each model is trained by itself, on the same people or on a bootstrap draw of them, in which person i counts c_i^k
times. With θ the models' parameters one after another and K of them, the refit falls apart into blocks:

    L = (1/K) Σ_k L_k(θ_k)          H = diag(H_1, …, H_K)          v_k = H_k⁻¹ ∇L_k / K
    dL/dδ_i = −Σ_k w̄_i^k ∇_x s_i^k = −w̄_i Σ_k (w̄_i^k / w̄_i) ∇_x s_i^k

so that everything `Training` asks for is what the models' own trainings say, put together.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from oar.checks import check_seed, check_that, is_listing, with_near_names
from oar.errors import DataError
from oar.models.differentiable import Differentiable
from oar.models.training import ALL, Array, Fit, Some
from oar.people import Population


def _of_every_model(capability: str) -> Any:
    return property(lambda ensemble: all(getattr(model, capability) for model in ensemble.models))


@with_near_names
@dataclass(frozen=True)
class Ensemble(Differentiable):
    """An ensemble of models that are trained separately and scored by the mean of their losses.

    Its outputs are means of the models' log-probabilities, or of their values.

    Args:
        models: one or more of oar.models, all for classes or all for values.
        draws: for each model, None to train it on everyone, or the seed of a bootstrap draw of the people; empty for
            everyone.
    """

    models: tuple[Differentiable, ...]
    draws: tuple[int | None, ...] = ()

    def __post_init__(self) -> None:
        for name in ("models", "draws"):
            check_that(is_listing(getattr(self, name)), name, "a list", getattr(self, name))
        object.__setattr__(self, "models", tuple(self.models))
        object.__setattr__(self, "draws", tuple(self.draws) or (None,) * len(self.models))
        trained = [isinstance(model, Differentiable) and not model.plain_means for model in self.models]
        check_that(trained and all(trained), "models", "one or more of oar.models that are trained", self.models)
        if len({bool(model.regresses) for model in self.models}) > 1:
            raise DataError("models: must all predict classes or all predict values, got both; leave some out.")
        number = len(self.models)
        check_that(len(self.draws) == number, "draws", f"one for each of {number} models", len(self.draws))
        for seed in self.draws:
            if seed is not None:
                check_seed(seed)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The models' names."""
        return f"ensemble of {', '.join(model.name for model in self.models)}"

    convex, equivariant, smooth = map(_of_every_model, ("convex", "equivariant", "smooth"))

    @property
    def regresses(self) -> bool:  # type: ignore[override]
        """Whether values are predicted."""
        return bool(self.models[0].regresses)

    @property
    def least_loss(self) -> float:  # type: ignore[override]
        """A lower bound of every query's mean loss."""
        return float(np.mean([model.least_loss for model in self.models]))

    def check(self, people: Population) -> None:
        """Raise where one of the models cannot be fitted to these people."""
        for model in self.models:
            model.check(people)

    def target_rows(self, targets: Any) -> Any:
        """Return every model's targets side by side; values are the same for all."""
        if self.regresses:
            return targets
        return np.hstack([model.target_rows(targets) for model in self.models])

    def outputs(self, parameters: Any, features: Any) -> Any:
        """Return mean log-probabilities (k,), or mean values (o,), for one person."""
        found = [model.outputs(own, features) for model, own in zip(self.models, parameters, strict=True)]
        if self.regresses:
            return sum(found) / len(found)
        return sum(map(_log_probabilities, found)) / len(found)

    def training(self, people: Population) -> EnsembleTraining:
        """Bind every model to people."""
        weights = people.row_weights
        counts = np.vstack([self._counts(people, seed) for seed in self.draws])
        return EnsembleTraining(self, [model.training(people) for model in self.models], weights, counts)

    def _counts(self, people: Population, seed: int | None) -> Array:
        """Return how often a bootstrap draw has everyone (n,), by Poisson's approximation; every class has somebody."""
        if seed is None:
            return np.ones(people.size)
        counts = np.random.default_rng(seed).poisson(1.0, people.size).astype(np.float64)
        if not self.regresses:
            codes, weights = people.codes(0, people.size), people.row_weights
            lacking = np.bincount(codes, counts * weights, len(people.classes)) == 0
            counts[lacking[codes]] = 1.0
        return counts


class EnsembleTraining:
    """Implements `Training` for models side by side; `counts` (K, n) say how often each model's draw has everyone."""

    def __init__(self, model: Ensemble, parts: list[Any], weights: Array, counts: Array) -> None:
        self.model, self._counts = model, counts
        self.size, self.dimensions = parts[0].size, parts[0].dimensions
        self.weights = weights / weights.sum()
        self.parts = [*map(self._drawn, parts, counts, [part.targets for part in parts])]
        self.parameter_count = sum(part.parameter_count for part in parts)
        self._ends = np.cumsum([part.parameter_count for part in parts])[:-1]
        self._columns = np.cumsum([part.targets.shape[1] for part in parts])[:-1]

    def _drawn(self, part: Any, counts: Array, targets: Array) -> Any:
        weights = self.weights * counts
        return part.contributing(targets, weights / weights.sum())

    @cached_property
    def _shares(self) -> Array:
        """w̄_i^k / w̄_i (K, n); who weighs nothing weighs nothing in any draw."""
        own = np.where(self.weights > 0, self.weights, 1.0)
        return np.vstack([part.weights for part in self.parts]) / own

    @property
    def passes(self) -> int:
        """The number of passes over all the data so far."""
        return max(part.passes for part in self.parts)

    @property
    def damping(self) -> float:
        """The largest damping of a Hessian."""
        return max(float(getattr(part, "damping", 0.0)) for part in self.parts)

    @property
    def targets(self) -> Array:
        """Everyone's targets (n, o), of all models side by side."""
        return self.parts[0].targets if self.model.regresses else np.hstack([part.targets for part in self.parts])

    def split(self, vector: Array) -> list[Array]:
        """Return parameters, or a direction among them, of each model."""
        return np.split(vector, self._ends)

    def _each(self, method: str, *arguments: Any) -> list[Any]:
        """Return what each part's method says of its own share of the arguments."""
        asked = zip(self.parts, *arguments, strict=True)
        return [getattr(part, method)(*own) for part, *own in asked]

    def _targets_of(self, targets: Array) -> list[Array]:
        if self.model.regresses:
            return [targets] * len(self.parts)
        return [np.ascontiguousarray(part) for part in np.split(targets, self._columns, axis=-1)]

    def start(self) -> Array:
        """Start every model as it starts."""
        return np.concatenate([part.start() for part in self.parts])

    def moved(self, moves: Array | None, columns: Some = ALL) -> list[Any]:
        """Return everyone's features after the moves, as each model wants them."""
        return [part.moved(moves, columns) for part in self.parts]

    def fit(self, features: list[Any], start: Array, tolerance: float) -> Fit:
        """Refit every model."""
        each = self._each("fit", features, self.split(start), [tolerance] * len(self.parts))
        residual = float(np.sqrt(sum(one.residual**2 for one in each)))
        parameters = np.concatenate([one.parameters for one in each])
        return Fit(parameters, features, residual, all(one.converged for one in each))

    def risk_gradient(self, parameters: Array, features: list[Any]) -> tuple[float, Array]:
        """Return the sum of the risks, and its gradient."""
        risks, gradients = zip(*self._each("risk_gradient", self.split(parameters), features), strict=True)
        return float(sum(risks)), np.concatenate(gradients)

    def product(self, parameters: Array, features: list[Any], direction: Array) -> Array:
        """Return H times a direction, block by block."""
        return np.concatenate(self._each("product", self.split(parameters), features, self.split(direction)))

    def solve(self, fit: Fit, right: Array, start: Array | None, tolerance: float) -> Array:
        """Solve block by block."""
        number = len(self.parts)
        starts = [None] * number if start is None else self.split(start)
        parts = zip(self.split(fit.parameters), fit.features, strict=True)
        fits = [replace(fit, parameters=parameters, features=features) for parameters, features in parts]
        return np.concatenate(self._each("solve", fits, self.split(right), starts, [tolerance] * number))

    def score_gradients(self, parameters: Array, features: list[Any], signal: Array, columns: Some = ALL) -> Array:
        """Return Σ_k (w̄_i^k / w̄_i) ∇_x s_i^k for everyone."""
        asked = self.split(parameters), features, self.split(signal), [columns] * len(self.parts)
        found = zip(self._shares, self._each("score_gradients", *asked), strict=True)
        return np.sum([share[:, None] * own for share, own in found], axis=0)

    def scores(self, parameters: Array, features: list[Any], signal: Array, targets: Array) -> Array:
        """Return Σ_k (w̄_i^k / w̄_i) s_i^k for everyone."""
        asked = self.split(parameters), features, self.split(signal), self._targets_of(targets)
        return np.sum(self._shares * np.array(self._each("scores", *asked)), axis=0)

    def contributing(self, targets: Array, weights: Array) -> EnsembleTraining:
        """Return the same for other targets and weights; draws stay as they were."""
        other = copy.copy(self)
        other.__dict__.pop("_shares", None)
        other.weights = weights
        other.parts = [*map(other._drawn, self.parts, self._counts, self._targets_of(targets))]
        return other

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return the mean of the models' losses, and its gradients."""
        number = len(self.parts)
        each = self._each("goal", self.split(parameters), [query] * number, self._targets_of(target))
        losses, pulls, slopes = zip(*each, strict=True)
        return float(np.mean(losses)), np.concatenate(pulls) / number, np.sum(slopes, axis=0) / number

    def outputs(self, parameters: Array, query: Array) -> Array:
        """Return the mean of the models' log-probabilities, or of their values, for one person."""
        found = self._each("outputs", self.split(parameters), [query] * len(self.parts))
        return np.mean(found if self.model.regresses else [*map(_log_probabilities, found)], axis=0)

    def parameters(self, flat: Array) -> list[Any]:
        """Return each model's parameters, as they apply to features as they were given."""
        return self._each("parameters", self.split(flat))


def _log_probabilities(outputs: Any) -> Any:
    """Return log-probabilities (k,) of outputs (o,); a single one is measured against 0."""
    if isinstance(outputs, np.ndarray):
        logits = np.array([0.0, outputs[0]]) if outputs.size == 1 else outputs
        return logits - np.logaddexp.reduce(logits)
    import jax
    import jax.numpy as jnp

    logits = jnp.stack([jnp.zeros_like(outputs[0]), outputs[0]]) if outputs.size == 1 else outputs
    return jax.nn.log_softmax(logits)

"""A multilayer perceptron, trained deterministically on everybody at once.

    h_0 = x,   h_l = activation(W_l h_{l−1} + b_l),   f(x) = W_L h_{L−1} + b_L

    R(θ) = Σ_i w̄_i φ(f(x_i), y_i) + l2/2 Σ_l ‖W_l‖²

Weights start from Glorot's uniform distribution, drawn from the seed; biases start at zero and are not penalised. Every
refit from scratch takes the same road (see `minimise`), so the trained network is a function of the data. It is one of
many minima, and a large move of the data can tip training into another: audits retrain for that reason.

Use a smooth activation where the network is differentiated: with ReLU training can end on a kink, where the gradient
never gets small and the second derivatives tell only half the story. Standardise features first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.checks import check_not_negative, check_seed, check_that, choose, is_whole, with_near_names
from oar.errors import OptionError
from oar.models.differentiable import Differentiable

SMOOTH = ("tanh", "sigmoid", "softplus", "gelu", "silu")
ACTIVATIONS = (*SMOOTH, "relu")
LOSSES = ("cross-entropy", "squared")


@with_near_names
@dataclass(frozen=True)
class MLP(Differentiable):
    """A feed-forward network.

    With l2 = alpha / n the risk is that of scikit-learn's `MLPClassifier(alpha=alpha)` (three classes or more) or
    `MLPRegressor`.

    Args:
        hidden: the widths of the hidden layers; empty for a linear model.
        activation: "tanh", "sigmoid", "softplus", "gelu", "silu" or "relu"; refused where nothing is hidden.
        l2: the penalty on weights, not on biases.
        seed: what the initial weights are drawn from.
        loss: "cross-entropy" for classes, "squared" (½‖f(x) − y‖²) for values.
    """

    hidden: tuple[int, ...] = (32,)
    activation: str = "tanh"
    l2: float = 1e-3
    seed: int = 0
    loss: str = "cross-entropy"
    name = "mlp"
    convex = False
    equivariant = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", checked_widths("hidden", self.hidden))
        choose("activation", self.activation, ACTIVATIONS)
        choose("loss", self.loss, LOSSES)
        check_not_negative("l2", self.l2)
        check_seed(self.seed)
        if not self.hidden and self.activation != MLP.activation:
            raise OptionError(
                f"activation: stands between layers, and does nothing without hidden ones, got {self.activation!r}; "
                "leave it out."
            )

    @property
    def regresses(self) -> bool:  # type: ignore[override]
        """Whether targets are values: with the squared loss."""
        return self.loss == "squared"

    def initial(self, dimensions: int, outputs: int) -> Any:
        """Return the layers that every refit starts from."""
        return initial_layers((dimensions, *self.hidden, outputs), self.seed)

    def outputs(self, parameters: Any, features: Any) -> Any:
        """Return f(x)."""
        return apply_layers(parameters, features, self.activation)

    def example_loss(self, parameters: Any, features: Any, target: Any) -> Any:
        """Return the cross-entropy log Σ e^f − yᵀf, or ½‖f − y‖²."""
        import jax

        outputs = self.outputs(parameters, features)
        if self.loss == "squared":
            return 0.5 * ((outputs - target) ** 2).sum()
        return jax.nn.logsumexp(outputs) * target.sum() - target @ outputs

    def penalty(self, parameters: Any) -> Any:
        """Return l2/2 Σ ‖W‖²."""
        return 0.5 * self.l2 * sum((layer["weights"] ** 2).sum() for layer in parameters)

    def gauge(self, parameters: Any) -> Any:
        """Return ½ (Σ b)² of the last layer's biases: a constant added to all logits moves no probability."""
        return 0.0 if self.regresses else 0.5 * parameters[-1]["biases"].sum() ** 2


def checked_widths(argument: str, widths: Any) -> tuple[int, ...]:
    """Return layer widths as a tuple, or raise a DataError."""
    fits = isinstance(widths, (tuple, list)) and all(is_whole(width) and width >= 1 for width in widths)
    check_that(fits, argument, "a tuple of whole numbers of at least 1, such as (32, 16)", widths)
    return tuple(int(width) for width in widths)


def initial_layers(widths: tuple[int, ...], seed: int) -> list[dict[str, Any]]:
    """Draw W_l uniformly within ±√(6 / (fan in + fan out)); biases are zero."""
    rng = np.random.default_rng(seed)
    layers = []
    for inputs, outputs in zip(widths, widths[1:], strict=False):
        limit = math.sqrt(6 / (inputs + outputs))
        layers.append({"weights": rng.uniform(-limit, limit, (outputs, inputs)), "biases": np.zeros(outputs)})
    return layers


def apply_layers(layers: Any, features: Any, activation: str) -> Any:
    """Return f(x); the activation stands between layers, not after the last."""
    import jax

    activate = getattr(jax.numpy if activation == "tanh" else jax.nn, activation)
    for layer in layers[:-1]:
        features = activate(layer["weights"] @ features + layer["biases"])
    return layers[-1]["weights"] @ features + layers[-1]["biases"]

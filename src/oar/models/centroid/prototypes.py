"""Prototype networks: nearest centroid in an embedding z(x) that is given, or learned.

    p(y | x) = exp(−‖z(x) − μ_y‖) / Σ_c exp(−‖z(x) − μ_c‖)          (distance, not squared, as in `nearest_centroid`)

**Frozen embedding.** Prototypes are the class means of z. They minimise

    R(μ) = Σ_i w̄_i ½ ‖z(x_i) − μ_{y_i}‖²,          H = diag(class weights) ⊗ I,

so refits have a closed form. With z(x) = x this is `NearestCentroid`.

**Trained embedding.** A network z_φ and the prototypes are learned together, as in convolutional prototype learning
(Yang et al., CVPR 2018): the cross-entropy of p, plus a pull of each person to its own prototype, plus l2/2 ‖φ‖²:

    ℓ(φ, μ; x, y) = −log p(y | x) + pull/2 ‖z_φ(x) − μ_y‖²

Sums of plain distances have their minima on kinks (a prototype settles exactly on a person, as medians do), where
nothing can be differentiated. So here distances are rounded off, √(‖z − μ‖² + softening²), which changes no order among
classes.

The embedding's last layer has no bias, since only differences z − μ count. What is left free is a rotation of the
embedding space; the gauge ½ Σ_{j>c} μ_cj² asks for the one in which the prototypes form a lower triangle.

**Ties.** A norm has no gradient at zero; there `safe_norm` answers with 0, as `nearest_centroid`'s solvers do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.checks import check_flag, check_not_negative, check_seed, choose, with_near_names
from oar.errors import DataError, OptionError
from oar.models.autodiff.mlp import ACTIVATIONS, apply_layers, checked_widths, initial_layers
from oar.models.autodiff.passes import UNTRACEABLE
from oar.models.differentiable import Differentiable
from oar.models.naive_bayes import GaussianNaiveBayes, class_weights
from oar.models.training import Array


@with_near_names
@dataclass(frozen=True)
class PrototypeNetwork(Differentiable):
    """Nearest centroid in an embedding.

    Options without effect are refused: `pull`, `softening` and `l2` where the embedding is not trained,
    `activation` and `seed` where it is no network.

    Args:
        embedding: None for the features themselves; a pure JAX function from one person's features (d,) to (m,); or
            the widths of a network, the last one being m (such as (16, 2)).
        train_embedding: whether the network is learned with the prototypes; otherwise it keeps its random initial
            weights.
        activation: of the network, as in `MLP`.
        pull: how strongly people are pulled to their own prototype while the embedding is trained.
        softening: the radius within which distances are rounded off while the embedding is trained.
        l2: the penalty on the network's weights while it is trained.
        seed: what the network's initial weights and the prototypes' positions are drawn from.

    >>> PrototypeNetwork().equivariant, PrototypeNetwork((8, 2), train_embedding=True).convex
    (True, False)
    """

    embedding: Callable[..., Any] | tuple[int, ...] | None = None
    train_embedding: bool = False
    activation: str = "tanh"
    pull: float = 0.1
    softening: float = 0.1
    l2: float = 1e-2
    seed: int = 0
    name = "prototype-network"
    holds_class_means = True

    def __post_init__(self) -> None:
        if self.embedding is not None and not callable(self.embedding):
            widths = checked_widths("embedding", self.embedding)
            if not widths:
                raise OptionError("embedding: must name at least one layer's width, got none; None means no embedding.")
            object.__setattr__(self, "embedding", widths)
        check_flag("train_embedding", self.train_embedding)
        if self.train_embedding and not self._is_network:
            raise OptionError(
                "train_embedding: needs an embedding with weights, got "
                f"{'a function' if callable(self.embedding) else 'no embedding'}; give the widths of a network, "
                "such as embedding=(16, 2), or make a Custom model."
            )
        choose("activation", self.activation, ACTIVATIONS)
        for argument in ("pull", "softening", "l2"):
            check_not_negative(argument, getattr(self, argument))
        check_seed(self.seed)
        self._refuse_idle_options()

    def _refuse_idle_options(self) -> None:
        """Refuse options that would do nothing with this embedding."""
        idle: dict[str, str] = {}
        if not self.train_embedding:
            idle |= dict.fromkeys(("pull", "softening", "l2"), "a trained embedding (train_embedding=True)")
        if not self._is_network:
            idle |= dict.fromkeys(("activation", "seed"), "a network as embedding, such as embedding=(16, 2)")
        elif len(self.embedding) == 1:  # type: ignore[arg-type]
            idle["activation"] = "more than one layer"
        for argument, needed in idle.items():
            if getattr(self, argument) != getattr(PrototypeNetwork, argument):
                raise OptionError(
                    f"{argument}: does nothing without {needed}, got {getattr(self, argument)!r}; leave it out."
                )

    @property
    def _is_network(self) -> bool:
        return isinstance(self.embedding, tuple)

    @property
    def convex(self) -> bool:  # type: ignore[override]
        """Whether there is one minimum: with a frozen embedding."""
        return not self.train_embedding

    @property
    def equivariant(self) -> bool:  # type: ignore[override]
        """Whether a common shift changes nothing: without an embedding."""
        return self.embedding is None

    def _network(self, dimensions: int) -> list[dict[str, Any]]:
        layers = initial_layers((dimensions, *self.embedding), self.seed)  # type: ignore[misc]
        return [*layers[:-1], {"weights": layers[-1]["weights"]}]

    def initial(self, dimensions: int, outputs: int) -> Any:
        """Return prototypes drawn from a standard normal distribution (and the network, if it is trained)."""
        width = self.width(dimensions)
        parameters = {"prototypes": np.random.default_rng(self.seed + 1).standard_normal((outputs, width))}
        return parameters | {"network": self._network(dimensions)} if self.train_embedding else parameters

    def width(self, dimensions: int) -> int:
        """Return how many numbers an embedded person has."""
        if not callable(self.embedding):
            return (dimensions, *(self.embedding or ()))[-1]
        import jax

        try:
            with jax.enable_x64(True):
                shape = jax.eval_shape(self.embedding, jax.ShapeDtypeStruct((dimensions,), np.float64)).shape
        except UNTRACEABLE as reason:
            raise DataError(
                "embedding: must be a pure JAX function of one person's features (d,) that JAX can differentiate; "
                f"tracing it with d = {dimensions} stopped with {type(reason).__name__}: "
                f"{str(reason).splitlines()[0]} Use jax.numpy throughout: no NumPy, no float(), no `if` on values."
            ) from reason
        if len(shape) != 1 or shape[0] == 0:
            raise OptionError(
                f"embedding: must return a vector (m,) for one person's features (d,), got shape {shape}."
            )
        return shape[0]

    def embed(self, parameters: Any, features: Any) -> Any:
        """Return z(x), shape (m,), for one person."""
        if self.embedding is None:
            return features
        if callable(self.embedding):
            return self.embedding(features)
        layers = parameters["network"] if self.train_embedding else self._network(features.shape[0])
        return apply_layers([*layers[:-1], {**layers[-1], "biases": 0.0}], features, self.activation)

    def outputs(self, parameters: Any, features: Any) -> Any:
        """Return −‖z(x) − μ_c‖ for every class, rounded off if the embedding is trained."""
        offsets = self.embed(parameters, features) - parameters["prototypes"]
        return -safe_norm(offsets, self.softening if self.train_embedding else 0.0)

    def example_loss(self, parameters: Any, features: Any, target: Any) -> Any:
        """Return ½ Σ_c y_c ‖z − μ_c‖²; if the embedding is trained, −log p(y | x) and the pull."""
        offsets = self.embed(parameters, features) - parameters["prototypes"]
        squares = 0.5 * target @ (offsets**2).sum(axis=-1)
        return self.query_loss(parameters, features, target) + self.pull * squares if self.train_embedding else squares

    query_loss = GaussianNaiveBayes.query_loss

    def penalty(self, parameters: Any) -> Any:
        """Return l2/2 ‖W‖² over the trained network's weights."""
        if not self.train_embedding:
            return 0.0
        return 0.5 * self.l2 * sum((layer["weights"] ** 2).sum() for layer in parameters["network"])

    def gauge(self, parameters: Any) -> Any:
        """Return ½ Σ_{j>c} μ_cj² if the embedding is trained: rotating it with the prototypes moves no prediction."""
        import jax.numpy as jnp

        return 0.5 * (jnp.triu(parameters["prototypes"], 1) ** 2).sum() if self.train_embedding else 0.0

    @property
    def closed_form(self) -> Callable[[Array, Array, Array], Any] | None:
        """The class means of a frozen embedding; None where the embedding is trained."""
        return None if self.train_embedding else self._means

    def _means(self, features: Array, targets: Array, weights: Array) -> Any:
        counts = class_weights(targets, weights, self.name)
        shares = weights[:, None] * targets / counts
        embedded = features if self.embedding is None else self._mapped(self.embed, {}, features)
        means = shares.T @ embedded
        # A second pass takes off the rounding of sums of large numbers.
        rest = [share @ (embedded - mean) for share, mean in zip(shares.T, means, strict=True)]
        return {"prototypes": means + np.stack(rest)}


def safe_norm(offsets: Any, softening: float = 0.0) -> Any:
    """Return √(‖offset‖² + softening²) over the last axis, with gradient 0 (not NaN) where it is zero."""
    import jax.numpy as jnp

    squares = (offsets**2).sum(axis=-1) + softening**2
    nonzero = squares > 0
    return jnp.where(nonzero, jnp.sqrt(jnp.where(nonzero, squares, 1.0)), 0.0)

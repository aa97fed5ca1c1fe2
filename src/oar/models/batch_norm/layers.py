"""The layers of a fixed network, and passes through those that see one row at a time.

A dense layer is W h + b; an activation is applied to every unit by itself, and never falls where its argument rises;
batch norm is γ (h − μ) / √(σ² + ϵ) + β, unit by unit, with a mean μ and a variance σ² of everybody's h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from oar.checks import choose, with_near_names
from oar.errors import DataError, OptionError
from oar.models.training import Array

SMOOTH = ("tanh", "sigmoid", "softplus")
ACTIVATIONS = (*SMOOTH, "relu")


@with_near_names
@dataclass(frozen=True, eq=False)
class Dense:
    """W h + b.

    Args:
        weights: W, (outputs, inputs).
        biases: b, (outputs,); None means 0.
    """

    weights: Any
    biases: Any = None

    if TYPE_CHECKING:  # what it takes; the fields are what becomes of it

        def __init__(self, weights: ArrayLike, biases: ArrayLike | None = None) -> None: ...

    def __post_init__(self) -> None:
        weights = finite("Dense weights", self.weights, 2)
        biases = np.zeros(len(weights)) if self.biases is None else finite("Dense biases", self.biases, 1)
        if biases.shape != (len(weights),):
            raise DataError(f"Dense biases: must be one for each of {len(weights)} outputs, got {biases.shape}.")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "biases", biases)

    @property
    def inputs(self) -> int:
        """The number of units that it takes."""
        return self.weights.shape[1]

    @property
    def outputs(self) -> int:
        """The number of units that it makes."""
        return self.weights.shape[0]

    @property
    def plain(self) -> tuple[str, tuple[Any, ...]]:
        """The kind of layer, and its numbers as bare arrays."""
        return "dense", (self.weights, self.biases)

    def __repr__(self) -> str:
        return f"Dense({self.weights.shape[1]} → {self.weights.shape[0]})"


@with_near_names
@dataclass(frozen=True, eq=False)
class BatchNorm:
    """γ (h − μ) / √(σ² + ϵ) + β, unit by unit.

    Args:
        scale: γ (units,), learned.
        shift: β (units,), learned; None means 0.
        mean: the running mean (units,) that training left; needed where it still counts (momentum below 1).
        variance: the running variance (units,), likewise.
    """

    scale: Any
    shift: Any = None
    mean: Any = None
    variance: Any = None

    if TYPE_CHECKING:  # what it takes; the fields are what becomes of it

        def __init__(
            self,
            scale: ArrayLike | None,
            shift: ArrayLike | None = None,
            mean: ArrayLike | None = None,
            variance: ArrayLike | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        scale = finite("BatchNorm scale", self.scale, 1)
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "shift", np.zeros(scale.size) if self.shift is None else self.shift)
        for name in ("shift", "mean", "variance"):
            if getattr(self, name) is None:
                continue
            value = finite(f"BatchNorm {name}", getattr(self, name), 1)
            if value.shape != scale.shape:
                raise DataError(f"BatchNorm {name}: must be one for each of {scale.size} units, got {value.shape}.")
            if name == "variance" and value.min() < 0:
                raise DataError(f"BatchNorm variance: must not be negative, got {value.min():.3g}.")
            object.__setattr__(self, name, value)
        if (self.mean is None) != (self.variance is None):
            raise DataError("BatchNorm mean and variance: must be given both, or neither; got one of them.")

    @property
    def inputs(self) -> int:
        """The number of units that it takes, and makes."""
        return self.scale.size

    outputs = inputs

    @property
    def plain(self) -> tuple[str, tuple[Any, ...]]:
        """The kind of layer, and its numbers; running statistics that are not there, and do not count, are zero."""
        nothing = np.zeros_like(self.scale)
        running = (nothing, nothing) if self.mean is None else (self.mean, self.variance)
        return "norm", (self.scale, self.shift, *running)

    def __repr__(self) -> str:
        return f"BatchNorm({self.scale.size}{'' if self.mean is None else ', with running statistics'})"


Layer = Dense | BatchNorm | str


def finite(argument: str, value: Any, axes: int) -> Array:
    """Return a float64 copy with so many axes, none of them empty, or raise a DataError."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{argument}: must be numbers, got an object of type {type(value).__name__}.") from None
    if array.ndim != axes or 0 in array.shape or not np.isfinite(array).all():
        got = f"shape {array.shape}" if array.ndim != axes or 0 in array.shape else "others"
        raise DataError(f"{argument}: must be finite numbers with {axes} axis or axes, none empty, got {got}.")
    array.setflags(write=False)
    return array


def checked_layers(layers: Any) -> tuple[Layer, ...]:
    """Return layers that fit one another, from the first to a dense one at the end; raise otherwise."""
    if not isinstance(layers, Sequence) or isinstance(layers, str):
        raise DataError(f"layers: must be a list of layers, got an object of type {type(layers).__name__}.")
    width = 0  # of the layers so far; there is none before the first
    for place, layer in enumerate(layers):
        match layer:
            case str():
                choose("layers", layer, ACTIVATIONS)
            case Dense() | BatchNorm():
                if width and layer.inputs != width:
                    raise DataError(
                        f"layers: {layer!r} at place {place} must take the {width} units before it, got {layer.inputs}."
                    )
                width = layer.outputs
            case _:
                raise OptionError(
                    f"layers: must be oar.models.Dense, oar.models.BatchNorm or one of {', '.join(ACTIVATIONS)}, got "
                    f"{layer!r} at place {place}."
                )
    if not layers or not isinstance(layers[-1], Dense):
        raise OptionError("layers: must end in an oar.models.Dense, whose outputs are the classes' logits.")
    if not any(isinstance(layer, BatchNorm) for layer in layers):
        raise OptionError("layers: must hold an oar.models.BatchNorm; without one nobody else's data matter.")
    return tuple(layers)


class Plain(NamedTuple):
    """A network as bare arrays, so that networks of the same shape share what is compiled for them."""

    kinds: tuple[str, ...]  # of each layer "dense", "norm" or its activation
    numbers: tuple[tuple[Any, ...], ...]  # of each layer (weights, biases), (scale, shift, mean, variance) or ()


def as_plain(layers: Sequence[Any]) -> Plain:
    """Return layers as bare arrays; activations have none."""
    each = [(layer, ()) if isinstance(layer, str) else layer.plain for layer in layers]
    return Plain(tuple(kind for kind, _ in each), tuple(numbers for _, numbers in each))


def through(network: Plain, rows: Any, shares: Any, momentum: Any, epsilon: Any, arrays: Any = np) -> Any:
    """Return everybody's outputs (n, o), for people (n, i) whose shares (n,) in the statistics sum to 1."""
    for kind, numbers in zip(network.kinds, network.numbers, strict=True):
        if kind == "dense":
            weights, biases = numbers
            rows = rows @ weights.T + biases
        elif kind == "norm":
            scale, shift, mean, variance = numbers
            centre = shares @ rows
            spread = shares @ (rows - centre) ** 2
            mean, variance = (1 - momentum) * mean + momentum * centre, (1 - momentum) * variance + momentum * spread
            rows = scale * (rows - mean) / arrays.sqrt(variance + epsilon) + shift
        else:
            rows = activated(kind, rows, arrays)
    return rows


def activated(name: str, values: Any, arrays: Any = np) -> Any:
    """Apply an activation, with NumPy or another library of arrays."""
    if name == "relu":
        return arrays.maximum(values, 0.0)
    if name == "tanh":
        return arrays.tanh(values)
    if name == "sigmoid":
        return 0.5 * (1.0 + arrays.tanh(0.5 * values))
    return arrays.logaddexp(values, 0.0)


def activation_slope(name: str, values: Array) -> Array:
    """Return an activation's derivative; at relu's kink the one from the left."""
    if name == "relu":
        return (values > 0).astype(np.float64)
    if name == "tanh":
        return 1.0 - np.tanh(values) ** 2
    sigmoid = activated("sigmoid", values)
    return sigmoid * (1.0 - sigmoid) if name == "sigmoid" else sigmoid


def passed(layers: Sequence[Any], rows: Array) -> tuple[Array, list[Array]]:
    """Return what dense layers and activations make of rows (n, i), and what each of them was given."""
    given = []
    for layer in layers:
        given.append(rows)
        rows = activated(layer, rows) if isinstance(layer, str) else rows @ layer.weights.T + layer.biases
    return rows, given


def pulled_back(layers: Sequence[Any], given: list[Array], slopes: Array) -> Array:
    """Return slopes at the inputs (n, i) from slopes at the outputs of `passed` (n, o): the chain rule, backwards."""
    for layer, rows in zip(reversed(layers), reversed(given), strict=True):
        slopes = slopes * activation_slope(layer, rows) if isinstance(layer, str) else slopes @ layer.weights
    return slopes

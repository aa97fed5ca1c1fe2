"""Models as plain settings that JSON can hold, and back: {"name": "softmax-regression", "l2": 0.01}.

Only models that are settings and nothing else can be written down; those made of functions, or of layers, cannot.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from oar.checks import check_that
from oar.errors import DataError
from oar.models.autodiff.mlp import MLP
from oar.models.centroid.prototypes import PrototypeNetwork
from oar.models.differentiable import Differentiable
from oar.models.linear.losses import LinearSVM, Ridge, SoftmaxRegression
from oar.models.naive_bayes import GaussianNaiveBayes
from oar.people.labels import plain

KINDS: dict[str, Any] = {
    kind.name: kind for kind in (SoftmaxRegression, Ridge, LinearSVM, GaussianNaiveBayes, PrototypeNetwork, MLP)
}


def to_spec(model: Differentiable) -> dict[str, Any]:
    """Return a model's name and settings; raise a DataError where it is more than these.

    >>> to_spec(MLP((8,), seed=3))
    {'name': 'mlp', 'hidden': [8], 'activation': 'tanh', 'l2': 0.001, 'seed': 3, 'loss': 'cross-entropy'}
    """
    if type(model) is not KINDS.get(model.name):
        raise DataError(
            f"model: must be one of {', '.join(KINDS)} to be written down, got {model!r}, which is more than "
            "a name and a few settings; hand members their rows of plan.moves()."
        )
    if callable(getattr(model, "embedding", None)):
        raise DataError(
            "model: an embedding that is a function cannot be written down, got one; give the widths of a network, "
            "embed the features before planning, or hand members their rows of plan.moves()."
        )
    settings = dataclasses.asdict(model)  # type: ignore[call-overload]
    return {"name": model.name} | {
        name: list(value) if isinstance(value, tuple) else plain(value) for name, value in settings.items()
    }


def from_spec(spec: dict[str, Any]) -> Differentiable:
    """Return the model; raise where the name is not known or the settings are not its own.

    >>> from_spec({"name": "ridge", "l2": 0.5})
    Ridge(l2=0.5)
    """
    settings = dict(spec)
    name = settings.pop("name")
    check_that(name in KINDS, "model", f"one of {', '.join(KINDS)}", name)
    return KINDS[name](**settings)


def parameter_count(model: Differentiable, dimensions: int, outputs: int) -> int:
    """Return how long θ is; without JAX, and without making one: sizes may be somebody else's claim."""
    match model:
        case MLP():
            return _layers((dimensions, *model.hidden, outputs))
        case GaussianNaiveBayes():
            return outputs * (2 * dimensions + 1)
        case PrototypeNetwork():
            width = model.width(dimensions)
            # The embedding's last layer has no bias: only differences to prototypes count.
            return outputs * width + (drawn_count(model, dimensions) - width if model.train_embedding else 0)
    return outputs * (dimensions + 1)


def drawn_count(model: Differentiable, dimensions: int) -> int:
    """Return how many weights a model draws from its seed and keeps beside θ, or begins training with."""
    widths = getattr(model, "embedding", None)
    return _layers((dimensions, *widths)) if isinstance(widths, tuple) else 0


def _layers(widths: tuple[int, ...]) -> int:
    return sum(outputs * (inputs + 1) for inputs, outputs in zip(widths, widths[1:], strict=False))

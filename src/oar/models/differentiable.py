"""Models that are given by pure JAX functions of (parameters, one person's features, one person's target).

The operator's training problem is

    θ* = argmin_θ  R(θ) = Σ_i w̄_i ℓ(θ; x_i, y_i) + Ω(θ),        w̄_i = w_i / Σ w,

with targets y_i that are one-hot or soft class labels, or real vectors. Parameters are a pytree of float arrays;
JAX is imported only when such a model is used, and always computes in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError
from oar.people import Population


class Differentiable:
    """Base of every model that is differentiated; a subclass says what is learned and how it is judged.

    Attributes:
        name: under which cards and reports know it.
        convex: whether the risk has one minimum, whatever the start.
        equivariant: whether shifting all people and the query together changes nothing (then the collective
            never does worse than the individual).
    """

    name: str
    convex: bool
    equivariant: bool

    def initial(self, dimensions: int, outputs: int) -> Any:
        """Return the parameters that every refit from scratch starts from."""
        raise NotImplementedError

    def outputs(self, parameters: Any, features: Any) -> Any:
        """Return the outputs (o,) for one person: logits, or predicted values."""
        raise NotImplementedError

    def example_loss(self, parameters: Any, features: Any, target: Any) -> Any:
        """Return the training loss ℓ of one person."""
        raise NotImplementedError

    def penalty(self, parameters: Any) -> Any:
        """Return the operator's regulariser Ω."""
        return 0.0

    def gauge(self, parameters: Any) -> Any:
        """Return a term that fixes directions which move no prediction, so that the Hessian can be inverted."""
        return 0.0

    def query_loss(self, parameters: Any, features: Any, target: Any) -> Any:
        """Return the loss at the query for its goal; the training loss unless a model says otherwise."""
        return self.example_loss(parameters, features, target)

    def check(self, people: Population) -> None:
        """Raise a DataError if this model cannot be fitted to these people."""
        if len(people.classes) < 2:
            raise DataError(
                f"labels: {self.name} needs at least two classes, got only {people.classes[0]!r}; "
                "add people of another class."
            )


def one_hot(codes: NDArray[np.int32], classes: int) -> NDArray[np.float64]:
    """Return class codes (n,) as indicator rows (n, k)."""
    rows = np.zeros((codes.size, classes))
    rows[np.arange(codes.size), codes] = 1.0
    return rows

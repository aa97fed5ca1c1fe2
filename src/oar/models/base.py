"""What the rest of the house asks of a model: the same few methods, whatever it learns.

A model is an immutable bag of settings. What it learns, its *parameters*, is a separate value, so that
a refit is a function: same people, same parameters.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from oar.people import Population

Parameters = TypeVar("Parameters")


class Model(Protocol[Parameters]):
    """The protocol. `features` is (d,) or (n, d).

    The loss at a goal is `NearestCentroid.loss` and `Differentiable.goal_loss`, both (parameters, features, goal): to
    models that are given a loss to train on, `loss` is a setting.
    """

    @property
    def name(self) -> str:
        """The name under which cards and reports know it."""
        ...

    def check(self, people: Population) -> None:
        """Raise a DataError if this model cannot be fitted to these people."""
        ...

    def fit(self, people: Population) -> Parameters:
        """Refit from scratch."""
        ...

    def probabilities(self, parameters: Parameters, features: Any) -> NDArray[np.float64]:
        """Return class probabilities, shape (..., k)."""
        ...

    def predict(self, parameters: Parameters, features: Any) -> NDArray[Any]:
        """Return class codes, shape (...), or predicted values, shape (..., o)."""
        ...

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
    """The protocol. `features` is (d,) or (n, d)."""

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

    def goal_loss(self, parameters: Parameters, features: Any, goal: Any) -> NDArray[np.float64]:
        """Return the loss (...) for a goal: a class code, or a value for each output."""
        ...

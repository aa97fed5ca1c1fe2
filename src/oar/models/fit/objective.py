"""The objective that training minimises, and points on the way: kept apart from how it is minimised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.models.fit.conjugate_gradients import in_range
from oar.models.fit.spectrum import Spectrum

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Point:
    """Parameters with the risk and its gradient there."""

    parameters: Array
    value: float
    gradient: Array

    @property
    def residual(self) -> float:
        """‖∇R‖."""
        return float(np.linalg.norm(self.gradient))

    @property
    def sound(self) -> bool:
        """Whether risk and gradient are numbers, small enough to be reckoned with."""
        return in_range(self.value) and in_range(self.gradient)


@dataclass(frozen=True, eq=False)
class Objective:
    """A function to minimise.

    Attributes:
        value_gradient: its value and gradient.
        product: its Hessian at a point, times a direction.
        kept_spectrum: that of its Hessian somewhere else, if one is at hand, or None.
        spectrum: that of its Hessian at a point; None where that costs too much, or there is none.
    """

    value_gradient: Callable[[Array], tuple[float, Array]]
    product: Callable[[Array, Array], Array]
    kept_spectrum: Callable[[], Spectrum | None]
    spectrum: Callable[[Array], Spectrum | None]

    def at(self, parameters: Array) -> Point:
        """Evaluate."""
        return Point(parameters, *self.value_gradient(parameters))

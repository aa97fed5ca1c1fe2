"""The p-balls that bound a move: lengths, projections, linear and distance maximisers, and everybody's radius.

Everything works on the last axis and broadcasts a radius over the others. `p` is 1, 2 or ∞.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.checks import is_number, read_only
from oar.errors import OptionError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Norm:
    """The p-norm on ℝᵈ and its ball.

    >>> Norm.of("inf").length(np.array([3.0, -4.0]))
    np.float64(4.0)
    """

    p: float

    @staticmethod
    def of(value: Any) -> Norm:
        """Read 1, 2, `numpy.inf` or "inf"; anything else raises."""
        if isinstance(value, Norm):
            return value
        if (isinstance(value, str) and value == "inf") or (is_number(value) and value in (1, 2, np.inf)):
            return Norm(float(value))
        raise OptionError(f"norm: must be 1, 2 or numpy.inf, got {value!r}.")

    def __str__(self) -> str:
        return "∞" if self.p == np.inf else f"{self.p:g}"

    @property
    def dual(self) -> Norm:
        """The norm q with 1/p + 1/q = 1."""
        return {1.0: Norm(np.inf), 2.0: self, np.inf: Norm(1.0)}[self.p]

    def length(self, vectors: Any) -> Array:
        """Return ‖v‖_p; of rows in parts by one pass."""
        if hasattr(vectors, "of_chunk"):
            return vectors.each(self.length)
        if self.p == 1:
            return np.abs(vectors).sum(axis=-1)
        if self.p == 2:
            return euclidean(vectors)
        return np.abs(vectors).max(axis=-1, initial=0.0)

    def project(self, vectors: Array, radius: Any) -> Array:
        """Return the Euclidean projection of v onto the ball of this radius.

        p=2 shrinks, p=∞ clips, p=1 soft-thresholds.
        """
        radius = np.asarray(radius, dtype=np.float64)[..., None]
        if self.p == np.inf:
            return np.clip(vectors, -radius, radius)
        if self.p == 2:
            length = euclidean(vectors)[..., None]
            return vectors * np.where(length > radius, radius / np.where(length > radius, length, 1.0), 1.0)
        sizes = np.abs(vectors)
        shrunk = np.sign(vectors) * lifted(sizes - sizes.max(axis=-1, keepdims=True), radius)
        return np.where(sizes.sum(axis=-1, keepdims=True) <= radius, vectors, shrunk)

    def maximise(self, gradient: Array, radius: Any) -> Array:
        """Return the point of the ball with the largest inner product; "stay" where the gradient is 0.

        p=2: r g/‖g‖. p=∞: r sign(g). p=1: r sign(g_j) e_j at j = argmax |g_j|.
        """
        radius = np.asarray(radius, dtype=np.float64)[..., None]
        if self.p == np.inf:
            return radius * np.sign(gradient)
        if self.p == 2:
            length = euclidean(gradient)[..., None]
            return radius * (gradient / np.where(length > 0, length, 1.0))
        return radius * _one_coordinate(gradient, np.sign)

    def farthest(self, offset: Array, radius: Any) -> Array:
        """Return the shift s in the ball that maximises ‖offset + s‖₂.

        The same as `maximise(offset)`, except that a zero never means "stay": from the ball's own
        centre every direction leads away, so a fixed one is taken.
        """
        radius = np.asarray(radius, dtype=np.float64)[..., None]
        if self.p == np.inf:
            return radius * _sign_or_one(offset)
        if self.p == 2:
            length = euclidean(offset)[..., None]
            fixed = np.zeros_like(offset)
            fixed[..., 0] = 1.0
            return radius * np.where(length > 0, offset / np.where(length > 0, length, 1.0), fixed)
        return radius * _one_coordinate(offset, _sign_or_one)

    def farthest_distance(self, offset: Array, radius: Any) -> Array:
        """Return max ‖offset + s‖₂ over the ball, in closed form.

        With a the offset: p=2: ‖a‖₂ + r. p=∞: √(‖a‖₂² + 2r‖a‖₁ + d r²). p=1: √(‖a‖₂² + 2r‖a‖_∞ + r²).
        """
        straight = euclidean(offset)
        if self.p == 2:
            return straight + radius
        dimensions = offset.shape[-1] if self.p == np.inf else 1
        unit = np.maximum(straight, radius)  # divided out, so that nothing is squared that is very large or small
        unit = np.where(unit > 0, unit, 1.0)
        near, far = straight / unit, radius / unit
        return unit * np.sqrt(near**2 + 2 * far * (self.dual.length(offset) / unit) + dimensions * far**2)

    def nearest_distance(self, offset: Array, radius: Any) -> Array:
        """Return min ‖offset + s‖₂ over the ball: the distance from the origin to a ball around `offset`."""
        if self.p == 2:
            return np.maximum(euclidean(offset) - radius, 0.0)
        offset = np.broadcast_to(offset, (*np.broadcast_shapes(offset.shape[:-1], np.shape(radius)), offset.shape[-1]))
        if self.p == np.inf:
            return euclidean(np.maximum(np.abs(offset) - np.asarray(radius)[..., None], 0.0))
        return euclidean(offset - self.project(offset, radius))


@dataclass(frozen=True, eq=False)
class Allowance:
    """A resolved action: the norm, the budget of one or of each, and who takes part (None: all)."""

    norm: Norm
    budget: float | NDArray[np.float64]
    mask: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        """Keep whoever reads budgets and participation from writing to them."""
        for name in ("budget", "mask"):
            if isinstance(getattr(self, name), np.ndarray):
                object.__setattr__(self, name, read_only(getattr(self, name)))

    @property
    def single(self) -> bool:
        """Whether all have the same budget."""
        return isinstance(self.budget, float)

    @property
    def same_for_everyone(self) -> bool:
        """Whether everyone takes part, with the same budget."""
        return self.single and self.mask is None

    def acting(self, size: int) -> NDArray[np.bool_]:
        """Return who takes part (n,)."""
        return np.ones(size, dtype=bool) if self.mask is None else self.mask

    def of(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return the radius of each of some consecutive people: ε_i, or 0 for those who stay out."""
        radii = np.full(stop - start, self.budget) if self.single else np.asarray(self.budget)[start:stop]
        return radii if self.mask is None else np.where(self.mask[start:stop], radii, 0.0)

    def everyones(self, size: int) -> NDArray[np.float64]:
        """Return the radius of every person, 0 for those who stay out."""
        return self.of(0, size)


def euclidean(vectors: Array) -> Array:
    """Return ‖v‖₂ over the last axis, for vectors of any size: where squares would overflow or vanish, rescale."""
    squares = np.einsum("...d,...d->...", vectors, vectors)  # einsum overflows without a warning
    if squares.min(initial=1.0) > 1e-290 and squares.max(initial=1.0) < 1e290:
        return np.sqrt(squares)
    size = np.abs(vectors).max(axis=-1, initial=0.0)
    scaled = vectors / np.where(size > 0, size, 1.0)[..., None]
    return size * np.sqrt(np.einsum("...d,...d->...", scaled, scaled))


def _sign_or_one(values: Array) -> Array:
    return np.where(values < 0, -1.0, 1.0)


def _one_coordinate(values: Array, sign: Any) -> Array:
    """Return sign(v_j) e_j at the coordinate j of largest size."""
    place = np.abs(values).argmax(axis=-1)[..., None]
    unit = np.zeros_like(values)
    np.put_along_axis(unit, place, sign(np.take_along_axis(values, place, axis=-1)), axis=-1)
    return unit


def lifted(below: Array, total: Array) -> Array:
    """Return max(w_j + σ, 0) with the σ that makes them add up to a total r, for w of which the largest is 0.

    So sizes are soft-thresholded: with w_j = |v_j| − m measured from the largest size m, so that nothing cancels where
    r is far smaller than v, and σ = m − τ, these are max(|v_j| − τ, 0). Sort w downwards; with the j largest above the
    threshold σ_j = (r − Σ_{i≤j} w_(i))/j, and the right j is the last one with σ_j + w_(j) > 0.
    """
    ordered = -np.sort(-below, axis=-1)
    candidates = (total - np.cumsum(ordered, axis=-1)) / np.arange(1, below.shape[-1] + 1)
    last = np.maximum((candidates + ordered > 0).sum(axis=-1, keepdims=True), 1) - 1
    return np.maximum(np.take_along_axis(candidates, last, axis=-1) + below, 0.0)

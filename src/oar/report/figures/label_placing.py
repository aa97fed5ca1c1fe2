"""Positions of labels on a map, chosen so that they cover as little as possible. All in the units of the axes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_ANGLES = np.arange(24) * np.pi / 12


def direction(angle: float) -> Array:
    """Return the unit vector at this angle."""
    return np.array([np.cos(angle), np.sin(angle)])


def along(start: Array, end: Array, count: int) -> Array:
    """Return places (count, 2) on the way from start to end, both included."""
    return start + np.linspace(0.0, 1.0, count)[:, None] * (end - start)


def circle(centre: Array, radius: float, count: int = 24) -> Array:
    """Return places (count, 2) on a circle."""
    return np.array([centre + radius * direction(angle) for angle in np.arange(count) * 2 * np.pi / count])


def beside(place: Array, half_width: float, busy: Array, low: Array, high: Array) -> Array:
    """Return the row of places (5, 2) that a label beside `place` should cover; its middle is the label's centre.

    Of many directions take the one that stays farthest from everything busy, inside the box from `low` to `high`.
    Labels are wider than high, so sideways they stand farther off.
    """
    unit = (high - low)[0]
    reach = np.array([half_width + 0.03 * unit, 0.055 * unit])
    spots = np.array([place + far * reach * direction(angle) for far in (1.0, 1.25) for angle in _ANGLES])
    return _clearest(spots[:, None] + np.outer(np.linspace(-1, 1, 5), [half_width, 0.0]), busy, low, high)


def radius_end(centre: Array, radius: float, width: float, busy: Array, low: Array, high: Array) -> Array:
    """Return places (6, 2): the end of a radius to the right, and what a label of this width would cover from there."""
    edges = np.array([centre + radius * direction(angle) for angle in np.linspace(-0.8, 0.8, 17)])
    return _clearest(edges[:, None] + np.outer(np.linspace(0.0, 1.1, 6), [width, 0.0]), busy, low, high)


def _clearest(covered: Array, busy: Array, low: Array, high: Array) -> Array:
    """Return the candidate (of c × m places) that is farthest from everything busy and inside the box if any is."""
    room = np.minimum(covered - low, high - covered).min(axis=(1, 2)) - 0.01 * (high - low)[0]
    clearance = np.linalg.norm(covered[:, :, None] - busy, axis=3).min(axis=(1, 2))
    return covered[np.where(room > 0, clearance, room).argmax()]


def emptiest_place(centroids: Array, code: int, busy: Array, low: Array, high: Array) -> Array | None:
    """Return the place of a class's region that is farthest from everything busy and from the region's boundaries.

    None if the region has no place in the box.
    """
    margin = 0.09 * (high - low)
    grid = np.stack(np.meshgrid(*np.linspace(low + margin, high - margin, 60).T), axis=-1).reshape(-1, 2)
    distances = np.linalg.norm(grid[:, None] - centroids, axis=2)
    clearance = np.linalg.norm(grid[:, None] - busy, axis=2).min(axis=1)
    for other in range(len(centroids)):
        if other != code:
            # The signed distance to the bisector: (d_other² − d_own²) / (2 ‖μ_other − μ_own‖).
            ahead = distances[:, other] ** 2 - distances[:, code] ** 2
            clearance = np.minimum(clearance, ahead / (2 * np.linalg.norm(centroids[other] - centroids[code])))
    best = int(clearance.argmax())
    return grid[best] if clearance[best] > 0 else None

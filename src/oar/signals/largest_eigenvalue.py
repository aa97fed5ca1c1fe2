"""The largest |eigenvalue| of H, the sharpness of the training risk, which bounds every stable step η < 2/‖H‖."""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.models.training import Array, Training

COLD, WARM = 12, 2  # power iterations without and with the direction of an earlier estimate
SAFETY = 1.1  # power iteration looks from below


def sharpness(
    training: Training, parameters: Array, features: Any, earlier: Array | None = None
) -> tuple[float, Array]:
    """Estimate ‖H‖ at θ and moved features by power iteration; return it, and the direction found.

    The next estimate may start from there, as this one does from an `earlier` direction.
    """
    # A random start is orthogonal to the leading direction with probability zero; the seed keeps runs alike.
    rounds = WARM
    if earlier is None:
        earlier, rounds = np.random.default_rng(0).standard_normal(parameters.size), COLD
    direction = earlier / np.linalg.norm(earlier)
    size = 0.0
    for _ in range(rounds):
        image = training.product(parameters, features, direction)
        size = float(np.linalg.norm(image))
        if size == 0.0:
            break
        direction = image / size
    return SAFETY * size, direction

"""The probability that a deployed model gives to a class, for many people at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.worlds.protocol import Array

FARTHEST = 500.0  # logits beyond this are certain, and would overflow


def chances(model: Any, parameters: Any, features: Array, code: int) -> Array:
    """Return how probable the model finds a class (m,) at features (m, d).

    A single logit, the second class's, is computed with NumPy: films and refits ask often, and calling compiled code
    takes longer than the work.
    """
    if isinstance(parameters, np.ndarray) and len(parameters) == 1:
        logits = features @ parameters[0, :-1] + parameters[0, -1]
        return np.asarray(1 / (1 + np.exp(-np.clip(logits if code else -logits, -FARTHEST, FARTHEST))))
    return np.asarray(model.probabilities(parameters, features), dtype=np.float64)[:, code]

"""Random numbers by name: each source has its own stream, so that one more actor changes nobody else's draws."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from oar.checks import check_that, is_whole

LARGEST_SEED = 2**63


def stream(seed: int, *names: Any) -> np.random.Generator:
    """Return the random stream of this seed for these names (words and whole numbers ≥ 0).

    >>> stream(3, "arrivals", 0).integers(100) == stream(3, "arrivals", 0).integers(100)
    np.True_
    """
    key = tuple(_digest(name) if isinstance(name, str) else int(name) for name in names)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def _digest(name: str) -> int:
    """Return a number of 128 bits that no other name has."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "big")


def check_seed(seed: Any) -> int:
    """Return a seed; raise unless it is a whole number ≥ 0."""
    check_that(is_whole(seed) and 0 <= seed < LARGEST_SEED, "seed", "a whole number ≥ 0 (and below 2⁶³)", seed)
    return int(seed)

"""Random numbers by name: each source has its own stream, so that one more actor changes nobody else's draws.

Each person has a fixed random number with each actor. A share s selects the people whose numbers are below s. A person
who returns is selected again, as long as the share does not fall, and all rows of a person are selected or none. The
number of people is random: s · n on average, with a standard deviation of √(s (1 − s) n) if nobody has several rows.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from oar.checks import check_that, is_whole
from oar.worlds.protocol import Array, Crowd, Rows

LARGEST_SEED = 2**63


def stream(seed: int, *names: Any) -> np.random.Generator:
    """Return the random stream of this seed for these names (words and whole numbers ≥ 0).

    >>> stream(3, "arrivals", 0).integers(100) == stream(3, "arrivals", 0).integers(100)
    np.True_
    """

    def digest(name: str) -> int:  # of 128 bits, which no other name has
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "big")

    key = tuple(digest(name) if isinstance(name, str) else int(name) for name in names)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def check_seed(seed: Any) -> int:
    """Return a seed; raise unless it is a whole number ≥ 0."""
    check_that(is_whole(seed) and 0 <= seed < LARGEST_SEED, "seed", "a whole number ≥ 0 (and below 2⁶³)", seed)
    return int(seed)


def drawn_share(share: float, eligible: Rows, crowd: Crowd, rng: np.random.Generator) -> Rows:
    """Return those of some people of the crowd whose numbers are below a share, in their order."""
    return eligible[_lots(eligible, crowd, rng) < share]


def drawn_count(count: int, eligible: Rows, crowd: Crowd, rng: np.random.Generator) -> Rows:
    """Return `count` of some people of the crowd, those with the lowest numbers; all of them where there are fewer.

    A person who returns is selected again, unless enough others with lower numbers have arrived.
    """
    return np.sort(eligible[np.argsort(_lots(eligible, crowd, rng), kind="stable")[:count]]).astype(np.intp)


def _lots(eligible: Rows, crowd: Crowd, rng: np.random.Generator) -> Array:
    return lots(crowd.persons[eligible], int(rng.integers(2**63)))


def lots(persons: Rows, key: int) -> Array:
    """Return a number in [0, 1) for each person, as if drawn: SplitMix64 of its number (Steele et al. 2014)."""
    with np.errstate(over="ignore"):
        mixed = persons.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53  # the first 53 bits: all of 64 might round to 1

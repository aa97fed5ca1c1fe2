"""Uniform draws: each person has a fixed random number with each actor.

A share s are those whose lots are below s. Whoever comes again is then drawn again, as long as the share does not fall,
and who is there twice is drawn twice or not at all. How many there are is left to chance: s · n on average, with a
standard deviation of √(s (1 − s) n) where nobody is there twice.
"""

from __future__ import annotations

import numpy as np

from oar.worlds.protocol import Array, Crowd, Rows


def drawn_share(share: float, eligible: Rows, crowd: Crowd, rng: np.random.Generator) -> Rows:
    """Return those of some people of the crowd whose lots are below a share, in the order in which they stand."""
    return eligible[_lots(eligible, crowd, rng) < share]


def drawn_count(count: int, eligible: Rows, crowd: Crowd, rng: np.random.Generator) -> Rows:
    """Return so many of some people of the crowd, those whose lots are lowest; all of them where there are fewer.

    Whoever comes again is drawn again, unless so many others with lower lots have come.
    """
    return np.sort(eligible[np.argsort(_lots(eligible, crowd, rng), kind="stable")[:count]]).astype(np.intp)


def _lots(eligible: Rows, crowd: Crowd, rng: np.random.Generator) -> Array:
    return lots(crowd.persons[eligible], int(rng.integers(2**63)))


def lots(persons: Rows, key: int) -> Array:
    """Return a number in [0, 1) for each person, as if drawn: SplitMix64 of who it is (Steele et al. 2014)."""
    with np.errstate(over="ignore"):
        mixed = persons.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53  # the first 53 bits: all of 64 might round to 1

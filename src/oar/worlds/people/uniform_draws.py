"""Uniform draws: each person has a fixed random number with each actor.

A share s selects the people whose numbers are below s. A person who returns is selected again, as long as the share
does not fall, and all rows of a person are selected or none. The number of people is random: s · n on average, with a
standard deviation of √(s (1 − s) n) if nobody has several rows.
"""

from __future__ import annotations

import numpy as np

from oar.worlds.protocol import Array, Crowd, Rows


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

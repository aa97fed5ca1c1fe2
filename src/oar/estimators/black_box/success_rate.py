"""How often random training reaches the goal, and how sure of that so many refits make us."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rate:
    """A share of refits, with Wilson's interval for the share of all refits that could be.

    >>> Rate(18, 20)
    Rate(18 of 20 refits, 90 %; 70–97 % with confidence 0.95)
    """

    successes: int
    refits: int
    confidence: float = 0.95

    @property
    def share(self) -> float:
        """The share of these refits."""
        return self.successes / self.refits

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval: those p for which so many successes are within z standard deviations of n p."""
        from scipy.special import ndtri

        z, n = float(ndtri(0.5 + self.confidence / 2)), self.refits
        middle = (self.share + z**2 / (2 * n)) / (1 + z**2 / n)
        half = z / (1 + z**2 / n) * (self.share * (1 - self.share) / n + z**2 / (4 * n**2)) ** 0.5
        return max(0.0, middle - half), min(1.0, middle + half)

    def __repr__(self) -> str:
        """Say all of it."""
        low, high = (f"{100 * end:.0f}" for end in self.interval)
        shown = f"{self.successes} of {self.refits} refits, {100 * self.share:.0f} %"
        return f"Rate({shown}; {low}–{high} % with confidence {self.confidence:g})"

"""What was asked of somebody else's model, counted: trainings may cost money, and a service may count them too."""

from __future__ import annotations

from dataclasses import dataclass

from oar.people.wording import counted


@dataclass
class Calls:
    """How often a black box was called.

    Attributes:
        fits: trainings that were begun. failures: those that raised.
        predictions: questions, of however many people. rows: people asked about in all of them.
        seconds: time inside its own training. longest: that of the longest one.
    """

    fits: int = 0
    failures: int = 0
    predictions: int = 0
    rows: int = 0
    seconds: float = 0.0
    longest: float = 0.0

    def since(self, before: Calls) -> Calls:
        """Return what was called since `before`, a `copy` of these counts at that time."""
        return Calls(
            self.fits - before.fits,
            self.failures - before.failures,
            self.predictions - before.predictions,
            self.rows - before.rows,
            self.seconds - before.seconds,
            self.longest,
        )

    def __add__(self, other: Calls) -> Calls:
        """Return what was called in two parts."""
        return Calls(
            self.fits + other.fits,
            self.failures + other.failures,
            self.predictions + other.predictions,
            self.rows + other.rows,
            self.seconds + other.seconds,
            max(self.longest, other.longest),
        )

    def copy(self) -> Calls:
        """Return these counts as they are now."""
        return Calls(**vars(self))

    def __str__(self) -> str:
        """Say it in a line."""
        failed = f" ({self.failures:,} failed)" if self.failures else ""
        asked = counted(self.predictions, "question", "questions")
        return f"{counted(self.fits, 'training', 'trainings')}{failed}, {asked} about {self.rows:,} rows"

"""The independence of an audit from the solver that it judges: three words, and what each means."""

from __future__ import annotations

from enum import StrEnum


class Independence(StrEnum):
    """The part of an audit's refit that was not the solver's own code; `meaning` says it in a sentence.

    >>> Independence.IMPLEMENTATION.value
    'another implementation'
    """

    IMPLEMENTATION = "another implementation"
    OPTIMISER = "another optimiser on the same risk"
    REPEATED = "the model's own training, repeated"

    @property
    def meaning(self) -> str:
        """What was and what was not shared."""
        return _MEANINGS[self]

    @classmethod
    def weakest(cls, several: list[Independence]) -> Independence:
        """Return the least independent of several."""
        return max(several, key=list(cls).index)


_MEANINGS = {
    Independence.IMPLEMENTATION: "The refit shares no code with the solver: risk and training are written elsewhere.",
    Independence.OPTIMISER: (
        "The refit is the model's own, and an optimiser of another library (SciPy), which is given the model's own "
        "risk, finds the same minimum, or none lower around it."
    ),
    Independence.REPEATED: (
        "The refit runs the model's own training once more, from its start and on the moved data: training is what "
        "defines this model, and nobody else's code confirms where it ends."
    ),
}

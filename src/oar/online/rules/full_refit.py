"""Refit from everything so far, or from the newest batches: θ_t = argmin R(θ; those who are read)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from oar.errors import OptionError, with_near_names
from oar.models.settings import check_flag
from oar.online.rules.protocol import PulledBack, Update
from oar.online.rules.refits import Array, check_present, pulled_through, refitted
from oar.online.rules.requirements import check_every_class
from oar.online.rules.settings import check_count
from oar.online.stream import Stream


@dataclass(frozen=True)
class _Refit:
    """What both have in common: θ_t depends on θ_{t−1} in no way that can be differentiated."""

    name: ClassVar[str]
    reads: ClassVar[int | None]

    @property
    def _warm(self) -> bool:
        raise NotImplementedError

    @property
    def remembers(self) -> bool:
        """Whether θ before is needed: of a model with many minima, to say which one a warm refit goes to."""
        return self._warm

    def check(self, stream: Stream, model: Any, started: bool) -> None:
        """Raise where some round lacks a class, or where `warm` would do nothing."""
        if self._warm and getattr(model, "convex", True):
            raise OptionError(
                f"warm: does nothing for {model.name}, which has one minimum wherever it starts; leave it out."
            )
        if self._warm and getattr(model, "train", None) is not None:
            raise OptionError(
                f"warm: does nothing for {model.name}, whose own `train` starts from its module as given; leave it out."
            )
        check_every_class(self.name, self.reads, stream, model, range(stream.rounds))

    def update(self, update: Update) -> Array:
        """Refit."""
        return refitted(update, self.name, self._warm)

    def kept_share(self, class_weights: Array, started: bool) -> Array:
        """Return κ of μ_c ← κ_c μ_c + (1 − κ_c) mean_c: nothing is kept."""
        return np.zeros_like(class_weights)

    def pull_back(self, update: Update, after: Array, adjoint: Array) -> PulledBack:
        """Solve H v = λ_t; nothing goes on to θ_{t−1}."""
        check_present(update, self.name)
        moves, signal = pulled_through(update, after, adjoint)
        return PulledBack(np.zeros_like(adjoint), moves, ((after, signal),))


@with_near_names
@dataclass(frozen=True)
class FullRefit(_Refit):
    """Refit from everything so far, history included.

    Args:
        warm: for models with many minima: start from the last θ rather than from the model's own start. θ_{t−1} then
            says which minimum is found, and moves it by nothing.
    """

    warm: bool = False
    name: ClassVar[str] = "full refit"
    reads: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        """Refuse settings that cannot be."""
        check_flag("warm", self.warm)

    @property
    def _warm(self) -> bool:
        return self.warm


@with_near_names
@dataclass(frozen=True)
class Window(_Refit):
    """Refit from the newest batches; the history counts as the batch before round 0.

    Args:
        batches: how many, at least 1; no more than the stream has.
        warm: as for `FullRefit`.

    >>> Window(3).reads
    3
    """

    batches: int
    warm: bool = False
    name: ClassVar[str] = "window refit"

    def __post_init__(self) -> None:
        """Refuse settings that cannot be."""
        check_count("batches", self.batches)
        check_flag("warm", self.warm)

    @property
    def reads(self) -> int | None:  # type: ignore[override]
        """How many of the newest batches an update reads."""
        return self.batches

    @property
    def _warm(self) -> bool:
        return self.warm

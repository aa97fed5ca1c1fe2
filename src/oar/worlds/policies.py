"""What a collective may do, round by round."""

from __future__ import annotations

from dataclasses import dataclass

from oar.worlds.collective import CollectiveView
from oar.worlds.parts import Deed


@dataclass(frozen=True)
class DoNothing:
    """Nobody does anything."""

    def __call__(self, view: CollectiveView) -> Deed:
        """Return no deed."""
        return Deed()

"""HOW TRAINING IS DIFFERENTIATED: signal makers, from exact to cheap."""

from oar.signals.base import Memory, Outcome, Signal, Step, refit
from oar.signals.implicit import Implicit
from oar.signals.neumann import Neumann

__all__ = ["Implicit", "Memory", "Neumann", "Outcome", "Signal", "Step", "refit"]

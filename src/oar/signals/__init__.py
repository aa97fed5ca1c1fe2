"""Derivatives through training: signals, from exact to cheap.

`refit` tests moves by retraining; a `Signal` gives the gradient of the next step; `as_signal` reads a user's choice.
"""

from oar.signals.alternating import Alternating
from oar.signals.base import SIGNALS, Memory, Outcome, Signal, Step, as_signal, choose_signal, refit
from oar.signals.gradient_matching import GradientMatching
from oar.signals.hypernetwork import Hypernetwork
from oar.signals.implicit import Implicit
from oar.signals.neumann import Neumann
from oar.signals.unrolled import Unrolled

SIGNALS.update({kind.name: kind for kind in (Implicit, Neumann, Unrolled, Alternating, GradientMatching, Hypernetwork)})

__all__ = [
    "SIGNALS",
    "Alternating",
    "GradientMatching",
    "Hypernetwork",
    "Implicit",
    "Memory",
    "Neumann",
    "Outcome",
    "Signal",
    "Step",
    "Unrolled",
    "as_signal",
    "choose_signal",
    "refit",
]

"""HOW TRAINING IS DIFFERENTIATED: signal makers, from exact to cheap.

`refit` judges moves by retraining; a `Signal` says where they should go next; `as_signal` reads what users ask for.
"""

from oar.signals.alternating import Alternating
from oar.signals.base import Memory, Outcome, Signal, Step, refit
from oar.signals.choice import SIGNALS, as_signal, choose_signal
from oar.signals.gradient_matching import GradientMatching
from oar.signals.hypernetworks.signal import Hypernetwork
from oar.signals.implicit import Implicit
from oar.signals.neumann import Neumann
from oar.signals.unrolled import Unrolled

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

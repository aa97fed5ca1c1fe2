"""WHAT HAPPENS OVER TIME: batches that arrive, the operator's update rule, and what is asked of both."""

from oar.online.full_refit import FullRefit, Window
from oar.online.problem import OnlineProblem
from oar.online.rule import PulledBack, Rule, Update
from oar.online.stream import Stream
from oar.online.walk import Back, Path, Walk

__all__ = [
    "Back",
    "FullRefit",
    "OnlineProblem",
    "Path",
    "PulledBack",
    "Rule",
    "Stream",
    "Update",
    "Walk",
    "Window",
]

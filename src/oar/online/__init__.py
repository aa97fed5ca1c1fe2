"""WHAT HAPPENS OVER TIME: batches that arrive, the operator's update rule, and what is asked of both."""

from oar.online.exponential_means import ExponentialMeans
from oar.online.fine_tune import FineTune
from oar.online.full_refit import FullRefit, Window
from oar.online.gradient_steps import GradientSteps
from oar.online.problem import OnlineProblem
from oar.online.rule import PulledBack, Rule, Update
from oar.online.stream import Stream
from oar.online.walk import Back, Path, Walk
from oar.online.weights import centroid_weights

__all__ = [
    "Back",
    "ExponentialMeans",
    "FineTune",
    "FullRefit",
    "GradientSteps",
    "OnlineProblem",
    "Path",
    "PulledBack",
    "Rule",
    "Stream",
    "Update",
    "Walk",
    "Window",
    "centroid_weights",
]

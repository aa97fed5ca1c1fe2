"""WHAT HAPPENS OVER TIME: batches that arrive, the operator's update rule, and what is asked of both."""

from oar.online.centroid_weights import centroid_weights
from oar.online.problem import OnlineProblem
from oar.online.rollout import Back, Path, Rollout
from oar.online.rules.exponential_means import ExponentialMeans
from oar.online.rules.fine_tune import FineTune
from oar.online.rules.full_refit import FullRefit, Window
from oar.online.rules.gradient_steps import GradientSteps
from oar.online.rules.protocol import PulledBack, Rule, Update
from oar.online.stream import Stream

Walk = Rollout  # its name before

__all__ = [
    "Back",
    "ExponentialMeans",
    "FineTune",
    "FullRefit",
    "GradientSteps",
    "OnlineProblem",
    "Path",
    "PulledBack",
    "Rollout",
    "Rule",
    "Stream",
    "Update",
    "Walk",
    "Window",
    "centroid_weights",
]

"""Problems over several rounds: batches that arrive, the operator's update rule, problems and their results.

Plans and results over rounds, and the types of `oar.follow`, are defined in rooms above this one. They are named here
because users look for them here, and are imported on first use.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from oar.online.centroid_weights import centroid_weights
from oar.online.problem import OnlineProblem
from oar.online.rollout import Back, Path, Rollout
from oar.online.rules.exponential_means import ExponentialMeans
from oar.online.rules.fine_tune import FineTune
from oar.online.rules.gradient_steps import GradientSteps
from oar.online.rules.protocol import PulledBack, Rule, Update
from oar.online.rules.refits import FullRefit, Window
from oar.online.stream import Stream

if TYPE_CHECKING:
    from oar.plans.result import RoundOutcome
    from oar.plans.rounds.plan import OnlinePlan
    from oar.plans.rounds.result import OnlineAudit, OnlineResult
    from oar.questions.receding_horizon import Followed, Happened, Reality, Round

__all__ = [
    "Back",
    "ExponentialMeans",
    "FineTune",
    "Followed",
    "FullRefit",
    "GradientSteps",
    "Happened",
    "OnlineAudit",
    "OnlinePlan",
    "OnlineProblem",
    "OnlineResult",
    "Path",
    "PulledBack",
    "Reality",
    "Rollout",
    "Round",
    "RoundOutcome",
    "Rule",
    "Stream",
    "Update",
    "Window",
    "centroid_weights",
]

_ABOVE = {
    "Followed": "oar.questions.receding_horizon",
    "Happened": "oar.questions.receding_horizon",
    "Reality": "oar.questions.receding_horizon",
    "Round": "oar.questions.receding_horizon",
    "OnlinePlan": "oar.plans.rounds.plan",
    "OnlineAudit": "oar.plans.rounds.result",
    "OnlineResult": "oar.plans.rounds.result",
    "RoundOutcome": "oar.plans.result",
}


def __getattr__(name: str) -> Any:
    """Import what is made in rooms above this one when it is asked for."""
    if name == "Walk":
        warnings.warn("oar.online.Walk is oar.online.Rollout now; use that name.", DeprecationWarning, stacklevel=2)
        return Rollout
    if name not in _ABOVE:
        raise AttributeError(f"module 'oar.online' has no attribute {name!r}")
    globals()[name] = getattr(import_module(_ABOVE[name]), name)
    return globals()[name]

"""Online algorithmic recourse by collective action.

A group of people whose data a model is trained on each make a small, bounded change; the operator retrains; the
new model gives somebody the prediction that they want. `oar` computes who should change what, certifies it, and
audits it by really retraining.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from oar.interrupts import end_at_once
from oar.version import __version__

end_at_once()  # before anything is imported that takes long

if TYPE_CHECKING:
    from oar import datasets, defences, limits, models, online, signals, solvers, testing, worlds
    from oar.actions import Perturb, Relabel, Withhold
    from oar.actions.limits.limit import Limit, Limits
    from oar.actions.limits.plausible import Plausible
    from oar.actions.participation import Best
    from oar.advice import Cheapest, cheapest
    from oar.errors import (
        DataError,
        EngineError,
        EstimatorError,
        NumericsError,
        OARError,
        OptionError,
        Status,
        StorageError,
    )
    from oar.estimators import BlackBox
    from oar.following import Followed, Happened, Reality, follow
    from oar.goals import AnyBut, Between, Keep, Members
    from oar.models import NearestCentroid, SoftmaxRegression
    from oar.online import OnlineProblem
    from oar.people import Population, Schema
    from oar.plans import Audit, Card, Plan, Result
    from oar.plans.individual.advice import Advice
    from oar.plans.rounds.plan import OnlinePlan
    from oar.plans.rounds.result import OnlineAudit, OnlineResult
    from oar.problem import Problem, Query
    from oar.questions import (
        Power,
        alternatives,
        break_even,
        collateral,
        credit,
        leverage,
        minimal_budget,
        minimal_coalition,
        power,
        private_card,
        transfer,
        worth,
    )
    from oar.recourse import collective, individual, joint
    from oar.referee import audit
    from oar.studies import Study, study
    from oar.worlds import simulate

__all__ = [
    "Advice",
    "AnyBut",
    "Audit",
    "Best",
    "Between",
    "BlackBox",
    "Card",
    "Cheapest",
    "DataError",
    "EngineError",
    "EstimatorError",
    "Followed",
    "Happened",
    "Keep",
    "Limit",
    "Limits",
    "Members",
    "NearestCentroid",
    "NumericsError",
    "OARError",
    "OnlineAudit",
    "OnlinePlan",
    "OnlineProblem",
    "OnlineResult",
    "OptionError",
    "Perturb",
    "Plan",
    "Plausible",
    "Population",
    "Power",
    "Problem",
    "Query",
    "Reality",
    "Relabel",
    "Result",
    "Schema",
    "SoftmaxRegression",
    "Status",
    "StorageError",
    "Study",
    "Withhold",
    "__version__",
    "alternatives",
    "audit",
    "break_even",
    "cheapest",
    "collateral",
    "collective",
    "credit",
    "datasets",
    "defences",
    "follow",
    "individual",
    "joint",
    "leverage",
    "limits",
    "minimal_budget",
    "minimal_coalition",
    "models",
    "online",
    "power",
    "private_card",
    "signals",
    "simulate",
    "solvers",
    "study",
    "testing",
    "transfer",
    "worlds",
    "worth",
]


# Where names live: they are imported when they are asked for (PEP 562), so that `import oar` takes no time.
_HOME = {
    "Perturb": "oar.actions",
    "Relabel": "oar.actions",
    "Withhold": "oar.actions",
    "Limit": "oar.actions.limits.limit",
    "Limits": "oar.actions.limits.limit",
    "Plausible": "oar.actions.limits.plausible",
    "Best": "oar.actions.participation",
    "Cheapest": "oar.advice",
    "cheapest": "oar.advice",
    "DataError": "oar.errors",
    "EngineError": "oar.errors",
    "EstimatorError": "oar.errors",
    "NumericsError": "oar.errors",
    "OARError": "oar.errors",
    "OptionError": "oar.errors",
    "Status": "oar.errors",
    "StorageError": "oar.errors",
    "BlackBox": "oar.estimators",
    "Followed": "oar.following",
    "Happened": "oar.following",
    "Reality": "oar.following",
    "follow": "oar.following",
    "AnyBut": "oar.goals",
    "Between": "oar.goals",
    "Keep": "oar.goals",
    "Members": "oar.goals",
    "NearestCentroid": "oar.models",
    "SoftmaxRegression": "oar.models",
    "OnlineProblem": "oar.online",
    "Population": "oar.people",
    "Schema": "oar.people",
    "Audit": "oar.plans",
    "Card": "oar.plans",
    "Plan": "oar.plans",
    "Result": "oar.plans",
    "Advice": "oar.plans.individual.advice",
    "OnlinePlan": "oar.plans.rounds.plan",
    "OnlineAudit": "oar.plans.rounds.result",
    "OnlineResult": "oar.plans.rounds.result",
    "Problem": "oar.problem",
    "Query": "oar.problem",
    "Power": "oar.questions",
    "alternatives": "oar.questions",
    "break_even": "oar.questions",
    "collateral": "oar.questions",
    "credit": "oar.questions",
    "leverage": "oar.questions",
    "minimal_budget": "oar.questions",
    "minimal_coalition": "oar.questions",
    "power": "oar.questions",
    "private_card": "oar.questions",
    "transfer": "oar.questions",
    "worth": "oar.questions",
    "collective": "oar.recourse",
    "individual": "oar.recourse",
    "joint": "oar.recourse",
    "audit": "oar.referee",
    "Study": "oar.studies",
    "study": "oar.studies",
    "simulate": "oar.worlds",
}
_ROOMS = frozenset(
    {
        "actions",
        "advice",
        "cli",
        "datasets",
        "defences",
        "errors",
        "estimators",
        "files",
        "following",
        "goals",
        "interrupts",
        "limits",
        "models",
        "online",
        "opening",
        "people",
        "pictures",
        "plans",
        "problem",
        "progress",
        "questions",
        "recourse",
        "referee",
        "report",
        "retraining",
        "signals",
        "solvers",
        "streaming",
        "studies",
        "testing",
        "worlds",
    }
)


def __getattr__(name: str) -> Any:
    """Import what is asked for, once."""
    if name in _HOME:
        found = getattr(import_module(_HOME[name]), name)
    elif name in _ROOMS:
        found = import_module(f"oar.{name}")
    else:
        raise AttributeError(f"module 'oar' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)

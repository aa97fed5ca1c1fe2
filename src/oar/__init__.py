"""Online algorithmic recourse by collective action.

A group of people whose data a model is trained on each make a small, bounded change; the operator retrains; the
new model gives somebody the prediction that they want. `oar` computes who should change what, certifies it, and
audits it by really retraining.
"""

from oar.interrupts import end_at_once

end_at_once()  # before anything is imported that takes long

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
from oar.version import __version__
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

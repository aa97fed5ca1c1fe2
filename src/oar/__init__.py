"""Online algorithmic recourse by collective action.

Data subjects each make a small, bounded change to their data; the operator retrains the model on them; the new model
predicts what the query subject wants. `oar` computes who should change what, certifies it, and audits it by retraining.

The names below are all that most users need. The types of results are in `oar.results`, further questions in
`oar.questions`, rounds and update rules in `oar.online`, exceptions in `oar.errors`.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from oar.progress import end_at_once
from oar.version import __version__

end_at_once()  # before anything is imported that takes long

if TYPE_CHECKING:
    from oar import (
        datasets,
        defences,
        errors,
        limits,
        models,
        online,
        questions,
        results,
        signals,
        solvers,
        testing,
        worlds,
    )
    from oar.actions import Perturb, Relabel, Withhold
    from oar.actions.limits.limit import Limit, Limits
    from oar.actions.participation import Best
    from oar.estimators import BlackBox
    from oar.goals import AnyBut, Between, Keep, Members
    from oar.models import NearestCentroid, SoftmaxRegression
    from oar.online import OnlineProblem
    from oar.people import Population, Schema
    from oar.problem import Problem, Query
    from oar.questions import break_even, minimal_budget, minimal_coalition
    from oar.questions.cheapest_change import Cheapest, cheapest
    from oar.questions.receding_horizon import follow
    from oar.recourse import collective, individual, joint
    from oar.referee import audit
    from oar.studies import study
    from oar.worlds import simulate

__all__ = [
    # people and problems
    "Population",
    "Schema",
    "Query",
    "Problem",
    "OnlineProblem",
    # actions, limits and goals
    "Perturb",
    "Relabel",
    "Withhold",
    "Best",
    "Limit",
    "Limits",
    "AnyBut",
    "Between",
    "Members",
    "Keep",
    # models
    "NearestCentroid",
    "SoftmaxRegression",
    "BlackBox",
    # the verbs
    "individual",
    "collective",
    "joint",
    "cheapest",
    "Cheapest",
    "follow",
    "simulate",
    "study",
    # the questions that everybody asks
    "minimal_budget",
    "minimal_coalition",
    "break_even",
    # the audit
    "audit",
    # submodules
    "datasets",
    "defences",
    "errors",
    "limits",
    "models",
    "online",
    "questions",
    "results",
    "signals",
    "solvers",
    "testing",
    "worlds",
    "__version__",
]

# The core: names that whoever states a problem and solves it needs. They are loaded together when the first of them
# is asked for (PEP 562), so that `import oar` takes no time and no call imports anything while it runs.
_CORE = {
    "oar.people": ("Population", "Schema"),
    "oar.problem": ("Query", "Problem"),
    "oar.online": ("OnlineProblem",),
    "oar.actions": ("Perturb", "Relabel", "Withhold"),
    "oar.actions.participation": ("Best",),
    "oar.actions.limits.limit": ("Limit", "Limits"),
    "oar.goals": ("AnyBut", "Between", "Members", "Keep"),
    "oar.models": ("NearestCentroid", "SoftmaxRegression"),
    "oar.estimators": ("BlackBox",),
    "oar.referee": ("audit",),
    "oar.recourse": ("individual", "collective", "joint"),
}
# Verbs that stand on the core, each loaded when it is asked for.
_FURTHER = {
    "oar.questions.cheapest_change": ("cheapest", "Cheapest"),
    "oar.questions.receding_horizon": ("follow",),
    "oar.worlds": ("simulate",),
    "oar.studies": ("study",),
    "oar.questions": ("minimal_budget", "minimal_coalition", "break_even"),
}
# Names that stood at the top before, by the submodule that they are in now.
_MOVED = {
    "oar.results": ("Advice", "Audit", "Card", "Plan", "Result", "Status", "Study"),
    "oar.limits": ("Plausible",),
    "oar.errors": tuple(
        f"{kind}Error" for kind in ("Data", "Engine", "Estimator", "Numerics", "OAR", "Option", "Storage")
    ),
    "oar.online": ("Followed", "Happened", "OnlineAudit", "OnlinePlan", "OnlineResult", "Reality"),
    "oar.questions": ("Power", "alternatives", "collateral", "credit", "leverage")
    + ("power", "private_card", "transfer", "worth"),
}
# Modules that stood at the top before, by what they are now.
_FORMER_MODULES = {
    "advice": "oar.questions.cheapest_change",
    "black_boxes": "oar.solvers.black_box",
    "following": "oar.questions.receding_horizon",
}


def __getattr__(name: str) -> Any:
    """Return a name that is loaded when it is first asked for."""
    if _home(name, _CORE):
        import_module("oar.recourse")  # which imports the rest of the core
        globals().update({one: getattr(import_module(home), one) for home in _CORE for one in _CORE[home]})
        return globals()[name]
    if home := _home(name, _FURTHER):
        globals()[name] = getattr(import_module(home), name)
        return globals()[name]
    if home := _home(name, _MOVED):
        warnings.warn(f"oar.{name} is {home}.{name} now; use that name.", DeprecationWarning, stacklevel=2)
        return getattr(import_module(home), name)
    if home := _FORMER_MODULES.get(name):
        warnings.warn(f"oar.{name} is {home} now; use that name.", DeprecationWarning, stacklevel=2)
        return import_module(home)
    if name.startswith("_") or not name.isidentifier() or find_spec(f"oar.{name}") is None:
        raise AttributeError(f"module 'oar' has no attribute {name!r}")
    return import_module(f"oar.{name}")


def _home(name: str, homes: dict[str, tuple[str, ...]]) -> str | None:
    return next((home for home, names in homes.items() if name in names), None)


def __dir__() -> list[str]:
    return sorted(__all__)

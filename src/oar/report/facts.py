"""Everything that a report tells, as plain values: what audit.json holds, and all that report.html is made of.

Whoever writes a page from this cannot let a member's row slip into it, because there is none here: only counts, sums
and what the audit found about the query.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from oar.actions.participation import members_in_share
from oar.errors import Status
from oar.models import LinearSVM
from oar.models.scaled import unscaled
from oar.people.labels import plain
from oar.people.wording import counted
from oar.plans import Result
from oar.plans.effort import Efforts, group_word
from oar.plans.picture import goal_probability
from oar.problem import Problem
from oar.questions import Collateral, Power, minimal_budget, minimal_coalition
from oar.questions.trying import has_closed_form
from oar.version import __version__

FORMAT, VERSION = "oar-audit", 1
OWN_UNITS, COSTS = "the columns' own units", "standard deviations, flips and switches, or as limits say"
PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "jax")


@dataclass(frozen=True)
class Origin:
    """What a plan was made from, so that it can be made again.

    Attributes:
        command: what was typed. file: the data's name. sha256: of the file's bytes. rows: in it. seed: of all draws.
        settings: everything that was asked for.
        asking: how many of those who ask are among the people.
    """

    command: str
    file: str
    sha256: str
    rows: int
    seed: int
    settings: Mapping[str, Any]
    asking: int = 0


def facts_of(
    result: Result,
    *,
    origin: Origin,
    groups: Mapping[str, Any] | None = None,
    power: Power | None = None,
    collateral: Collateral | None = None,
    card: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Collect what is told about a result.

    Args:
        result: what was planned and audited.
        origin: what it was made from.
        groups: of each column by which burdens are told, everyone's value (n,).
        power: what `oar.power` found.
        collateral: what `oar.collateral` found.
        card: whether there is a card, and what it is worth.
    """
    efforts = Efforts.of(result.plan)
    people = result.problem.people
    by = {} if result.problem.regresses else {people.target or "class": people.labels}
    return {
        "format": FORMAT,
        "version": VERSION,
        "oar": __version__,
        "answer": answer(result),
        "status": str(result.status),
        "explanation": result.explanation,
        "asked": _asked(result.problem) | {"asking_among_people": origin.asking},
        "outcome": _outcome(result),
        "least": _least(result, power),
        "power": None if power is None else power_facts(power),
        "columns": efforts.by_column(),
        "burden": {str(name): efforts.by_group(values) for name, values in {**by, **(groups or {})}.items()},
        "collateral": None if collateral is None else _collateral(collateral),
        "certificate": _certificate(result),
        "card": card,
        "repeat": _repeat(origin),
    }


def _asked(problem: Problem) -> dict[str, Any]:
    people, allowance = problem.people, problem.allowance
    radii = allowance.everyones(people.size)
    return {
        "people": people.size,
        "features": people.dimensions,
        "columns": people.dimensions if people.schema is None else len(people.schema),
        "classes": None if problem.regresses else [plain(label) for label in people.classes],
        "model": problem.model.name,
        "goal": told(problem.goal_label) if problem.plain and problem.query.probability is None else problem.goal_words,
        "asking": len(problem.asked.points),
        "several": problem.query.several if problem.several else None,
        "within": problem.query.within,
        "budget": float(allowance.budget) if allowance.single else None,
        "budget_unit": OWN_UNITS if people.encoding is None else COSTS,
        "norm": str(allowance.norm),
        "participants": int((radii > 0).sum()),
        "levers": None if problem.levers is None else repr(problem.action),
    }


def _outcome(result: Result) -> dict[str, Any]:
    audit, problem = result.audit, result.problem
    found = {field.name: told(getattr(audit, field.name)) for field in fields(audit) if field.name != "queries"}
    queries = [told(asdict(one)) for one in audit.queries]
    if isinstance(unscaled(problem.model), LinearSVM):  # a softmax of margins is no probability
        queries = [one | {"probability_before": None, "probability": None} for one in queries]
    first = queries[0] if len(queries) == 1 else {}
    return found | {
        "goal_probability_before": first.get("probability_before"),
        "goal_probability": first.get("probability"),
        "loss_is_log_probability": goal_probability(problem, audit.loss) is not None,
        "queries": queries,
    }


def _certificate(result: Result) -> dict[str, Any]:
    proposal = result.proposal
    return {
        "solver": proposal.solver,
        "exact": proposal.exact,
        "impossible": proposal.impossible,
        "finished": proposal.finished,
        "gap": told(proposal.gap),
        "bound": told(proposal.bound),
        "claimed_loss": told(proposal.claimed_loss),
        "residual": told(proposal.residual),
        "steps": proposal.steps,
        "note": proposal.note,
        "suffices": proposal.suffices,
        "ended": proposal.ended,
        "promised": proposal.promised,
    }


def _least(result: Result, power: Power | None) -> dict[str, Any]:
    """Return the least budget and number of people that are known to do, and that are proved to be needed."""
    found: dict[str, Any] = {"budget_at_most": None, "people_at_most": None, "proved": []}
    if power is not None:
        found["budget_at_most"] = told(power.at_most_budget)
        if power.at_most_share is not None:
            found["people_at_most"] = members_in_share(result.audit.movers, power.at_most_share)
    if result.audit.success_before:
        return found | {"budget_at_most": 0.0, "people_at_most": 0}
    if power is not None and has_closed_form(result.problem):
        far, many = minimal_budget(result.problem), minimal_coalition(result.problem)
        found |= {"budget_at_most": told(far.value), "people_at_most": many.size}
        found["proved"] = [far.explanation, many.explanation]
    return found


def power_facts(power: Power) -> dict[str, Any]:
    """Return what a power curve says: a row a budget, a column a share."""
    return {
        "shares": told(power.shares),
        "budgets": told(power.budgets),
        "losses": told(power.losses),
        "success": told(power.success),
        "at_most_budget": told(power.at_most_budget),
        "at_most_share": told(power.at_most_share),
        "note": power.note,
    }


def _collateral(found: Collateral) -> dict[str, Any]:
    """Return whose predictions change besides, and how good the model is before and after."""
    groups = None
    if found.by_group is not None:
        rows = zip(found.by_group.index, found.by_group.to_dict("records"), strict=True)
        groups = [{"group": group_word(group)} | told(row) for group, row in rows]
    return {
        "bystanders": found.bystanders._asdict(),
        "actors": found.actors._asdict(),
        "by_group": groups,
        "grouped_by": None if found.by_group is None else str(found.by_group.index.name),
        "score": found.score,
        "own": told([found.own_before, found.own_after]),
        "held_out": None if found.held_out_before is None else told([found.held_out_before, found.held_out_after]),
    }


def _repeat(origin: Origin) -> dict[str, Any]:
    versions = {"oar": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "command": origin.command,
        "seed": origin.seed,
        "data": {"file": origin.file, "sha256": origin.sha256, "rows": origin.rows},
        "settings": told(dict(origin.settings)),
        "versions": versions,
    }


def told(value: Any) -> Any:
    """Return a value as JSON has it: no NaN and no infinity, which are None there."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): told(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [told(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)


def answer(result: Result) -> str:
    """Return the answer in one sentence."""
    audit, problem = result.audit, result.problem
    goal, who = problem.goal_words, _acts(result)
    now, then = (repr(told(label)) for label in (audit.prediction, audit.prediction_before))
    gets, instead = f"predicts {now} for who asks", f"instead of {then}"
    stays = f"it stays {now}"
    if problem.several:
        had, have = (sum(getattr(one, when) for one in audit.queries) for when in ("success_before", "success"))
        gets, instead = f"gives {have:,} of the {len(audit.queries):,} who ask {goal}", f"instead of {had:,}"
        stays = f"{have:,} of {len(audit.queries):,} get it"
    match result.status:
        case Status.ACHIEVED:
            return f"Yes: if {who}, the retrained model {gets}, {instead}."
        case Status.ALREADY:
            return f"Nothing is needed: the model {gets} before anybody moves, and does so after."
        case Status.IMPOSSIBLE:
            return f"No, and that is proved: within these limits no moves lead to {goal}; if {who}, {stays}."
        case Status.NOT_CONVERGED:
            return "There is no answer: a refit of the model did not come to an end."
        case Status.REFUSED:
            return "There is no answer: the plan that was found breaks a limit."
        case Status.NOT_IMPROVED | Status.NOT_FOUND:
            return f"Not found: no moves were found that lead who asks nearer to {goal}; {stays}."
    nearer = "nearer" if result.loss < result.loss_before else "no nearer"
    return f"Not yet: if {who}, the retrained model {gets}; that is {nearer} to {goal} than before."


def _acts(result: Result) -> str:
    audit = result.audit
    acts = [counted(audit.movers, "member moves", "members move")] if audit.movers else []
    acts += [counted(audit.relabelled, "label changes", "labels change")] if audit.relabelled else []
    acts += [counted(audit.leavers, "member leaves", "members leave")] if audit.leavers else []
    return " and ".join(acts) or "nobody does anything"

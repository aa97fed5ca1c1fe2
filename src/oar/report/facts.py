"""Everything that a report tells, as plain values: what audit.json holds, and all that report.html is made of.

Whoever writes a page from this cannot let a member's row slip into it, because there is none here: only counts, sums
and what the audit found about the query.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from oar.actions.participation import members_in_share
from oar.errors import OptionError
from oar.goals import Between
from oar.models import LinearSVM, Scaled
from oar.models.scaled import unscaled
from oar.people.labels import plain
from oar.plans import Result
from oar.plans.effort import FEW, Efforts
from oar.plans.picture import goal_probability
from oar.problem import Problem
from oar.questions import Collateral, Power, minimal_budget, minimal_coalition
from oar.questions.trying import has_closed_form
from oar.report.answer import answer, told
from oar.report.command_words import in_command_words
from oar.report.pooling import Pooled, pooled, withheld
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
    """

    command: str
    file: str
    sha256: str
    rows: int
    seed: int
    settings: Mapping[str, Any]


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
        groups: of each column by which burdens are told, everyone's value (n,), pooled or to be pooled.
        power: what `oar.power` found.
        collateral: what `oar.collateral` found.
        card: whether there is a card, and what it is worth.
    """
    efforts = Efforts.of(result.plan)
    people = result.problem.people
    by = {} if result.problem.regresses else {people.target or "class": people.labels}
    pools = {str(name): pooled(values) for name, values in {**by, **(groups or {})}.items()}
    return {
        "format": FORMAT,
        "version": VERSION,
        "oar": __version__,
        "answer": answer(result),
        "status": str(result.status),
        "explanation": in_command_words(result.explanation),
        "asked": _asked(result.problem),
        "outcome": _outcome(result),
        "least": _least(result, power),
        "power": None if power is None else power_facts(power),
        "columns": _columns(efforts),
        "burden": {name: _burden(efforts, pool) for name, pool in pools.items()},
        "left_out": {name: pool.note for name, pool in pools.items() if pool.note},
        "collateral": None if collateral is None else _collateral(collateral, pools),
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
        "model_settings": _settings(problem.model),
        "standardised": _standardised(problem),
        "keep": None if problem.keep is None else {"changed": problem.keep.changed, "worse": problem.keep.worse},
        "goal": _goal(problem),
        "goal_words": problem.goal_words,
        "asking": len(problem.asked.points),
        "asking_among_people": 0 if problem.asked.among is None else len(problem.asked.among),
        "several": problem.query.several if problem.several else None,
        "within": problem.query.within,
        "budget": float(allowance.budget) if allowance.single else None,
        "budget_unit": OWN_UNITS if people.encoding is None else COSTS,
        "norm": str(allowance.norm),
        "participants": int((radii > 0).sum()),
        "levers": None if problem.levers is None else repr(problem.action),
    }


def _settings(model: Any) -> dict[str, Any]:
    """Return the model's settings that are numbers, words or truths; the scaler's tell whether it is refitted."""
    inner = unscaled(model)
    found = {field.name: getattr(inner, field.name) for field in fields(inner)} if is_dataclass(inner) else {}
    plain_ones = {name: value for name, value in found.items() if value is None or isinstance(value, str | int | float)}
    return plain_ones | ({"scaler_refitted": not model.frozen} if isinstance(model, Scaled) else {})


def _standardised(problem: Problem) -> list[str]:
    """Return the columns that the model sees in standard deviations from their mean."""
    people, model = problem.people, problem.model
    if not isinstance(model, Scaled):
        return []
    names = people.names or tuple(f"feature {number}" for number in range(people.dimensions))
    return [str(name) for name, scaled in zip(names, model.columns(people), strict=True) if scaled]


def _goal(problem: Problem) -> Any:
    """Return the goal as a label or a number, without what rounding adds to it; else in words."""
    goal = problem.goal_label
    if not problem.plain or problem.query.probability is not None or isinstance(goal, Between):
        return problem.goal_words
    return float(f"{goal:.12g}") if isinstance(goal, float) else told(goal)


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
        "exact": result.exact,
        "impossible": proposal.impossible and not result.disagreement,
        "finished": proposal.finished,
        "gap": told(proposal.gap),
        "bound": told(result.bound),
        "claimed_loss": told(proposal.claimed_loss),
        "residual": told(proposal.residual),
        "steps": proposal.steps,
        "note": in_command_words(proposal.note),
        "suffices": in_command_words(proposal.suffices),
        "ended": in_command_words(proposal.ended),
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


def _columns(efforts: Efforts) -> list[dict[str, Any]]:
    """Return what happens to columns; what few people's changes cost is not told."""
    rows = efforts.by_column()
    hidden = [0 < row["movers"] < FEW for row in rows]
    if efforts.plan.problem.allowance.norm.p == 1 and sum(hidden) == 1 and len(rows) > 1:
        # Columns' efforts add up to everyone's: the one that is missing could be computed.
        hidden[min((row["movers"], place) for place, row in enumerate(rows) if not hidden[place])[1]] = True
    return [row | {"effort": None} if hide else row for row, hide in zip(rows, hidden, strict=True)]


def _burden(efforts: Efforts, pool: Pooled) -> list[dict[str, Any]]:
    """Return what is asked of groups; what it costs few people is not told."""
    found = {row["group"]: row for row in efforts.by_group(pool.values)}
    rows = [found[name] for name in pool.order]
    hidden = withheld([row["movers"] for row in rows], int(efforts.movers.sum()))
    return [
        row | dict.fromkeys(("effort", "effort_per_member", "effort_per_mover")) if hide else row
        for row, hide in zip(rows, hidden, strict=True)
    ]


def _collateral(found: Collateral, pools: Mapping[str, Pooled]) -> dict[str, Any]:
    """Return whose predictions change besides, and how good the model is before and after."""
    name = None if found.by_group is None else str(found.by_group.index.name)
    both = [found.bystanders._asdict(), found.actors._asdict()]
    bystanders, actors = (_unless_few(row, 0 < row["people"] < FEW, "people") for row in both)
    return {
        "bystanders": bystanders,
        "actors": actors,
        "by_group": None if name is None else _side_effects(found.by_group, "bystanders", pools.get(name)),
        "actors_by_group": None if name is None else _side_effects(found.actors_by_group, "actors", pools.get(name)),
        "grouped_by": name,
        "score": found.score,
        "own": told([found.own_before, found.own_after]),
        "held_out_people": found.held_out_size,
        "held_out": None if found.held_out_before is None else told([found.held_out_before, found.held_out_after]),
    }


def _side_effects(by_group: Any, people: str, pool: Pooled | None) -> list[dict[str, Any]]:
    """Return what happens to groups of bystanders or actors; what happens to few of them is not told."""
    if pool is None:
        raise OptionError(f"groups: must have {by_group.index.name!r}, by which the side effects are grouped.")
    by = {str(name): row for name, row in zip(by_group.index, by_group.to_dict("records"), strict=True)}
    rows = [{"group": name} | told(by[name]) for name in pool.order if name in by]
    hidden = withheld([int(row[people]) for row in rows], int(by_group[people].sum()))
    return [_unless_few(row, hide, "group", people) for row, hide in zip(rows, hidden, strict=True)]


def _unless_few(row: dict[str, Any], hide: bool, *kept: str) -> dict[str, Any]:
    return {name: None if hide and name not in kept else value for name, value in row.items()}


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

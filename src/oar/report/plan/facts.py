"""The facts of a report as plain values: the contents of audit.json, from which report.html is made.

Whoever writes a page from this cannot let a member's row slip into it, because there is none here: only counts, sums
and what the audit found about the query.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from oar.actions import Perturb
from oar.actions.choice import part_of
from oar.actions.limits.observed import told as told_limits
from oar.errors import OptionError, Status
from oar.goals import Between
from oar.models import Scaled
from oar.people.labels import plain
from oar.people.wording import counted
from oar.plans import Result
from oar.plans.explain.effort import Efforts
from oar.plans.plots import goal_probability
from oar.problem import Problem
from oar.questions import Collateral, Power, minimal_budget
from oar.questions.collateral import EFFECTS, effect_words, harm_words, limiting, prediction_words
from oar.questions.least.coalition import fewest_in
from oar.questions.least.trials import has_closed_form
from oar.report.plan.answer import answer, fall_words, in_command_words, told
from oar.report.plan.small_groups import PooledGroups, pooled, withheld
from oar.tolerances import FEW_PEOPLE
from oar.version import __version__

FORMAT, VERSION = "oar-audit", 1
OWN_UNITS, COSTS = "the columns' own units", "standard deviations, flips and switches, or as limits say"
GROUPED = ("by_group", "actors_by_group", "everyone_by_group")  # who does nothing, who acts, and both
# what is told of the side effects of answers to the card
ANSWERED = ("actors", "bystanders", "by_outcome", "prediction", "harm", "effects")
KEPT = ("changed", "lost", "worse")  # the limits on side effects
SHAKEN = ("defection", "draws", "success_rate")  # how often a plan holds where some do nothing
NOTHING: Mapping[str, Any] = {}
PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "jax")


@dataclass(frozen=True)
class Origin:
    """The origin of a plan, with all that is needed to make it again.

    Attributes:
        command: what was typed. file: the data's name; no digest of it, by which a guess at an unknown cell could be
            confirmed. rows: in it. seed: of all draws.
        settings: everything that was asked for.
    """

    command: str
    file: str
    rows: int
    seed: int
    settings: Mapping[str, Any]


def facts_of(
    result: Result,
    *,
    origin: Origin,
    groups: Mapping[str, Any] = NOTHING,
    power: Power | None = None,
    collateral: Collateral | None = None,
    card: Mapping[str, Any] | None = None,
    answered: Collateral | None = None,
    robustness: Any = None,
    shaken: str = "moves",
) -> dict[str, Any]:
    """Collect what is told about a result.

    Args:
        result: what was planned and audited.
        origin: what it was made from.
        groups: of each column by which burdens are told, everyone's value (n,), pooled or to be pooled.
        power: what `oar.questions.power` found.
        collateral: what `oar.questions.collateral` found.
        card: whether there is a card, and what it is worth.
        answered: what `oar.questions.collateral` found where everyone answers the card.
        robustness: what `plan.robustness` found where some members do nothing.
        shaken: of which plan that is: the "moves" that were planned, or members' "answers" to the card.
    """
    result.problem.only_one_refit("a report")
    efforts = Efforts.of(result.plan)
    people = result.problem.people
    by = {} if result.problem.regresses else {people.target or "class": people.labels}
    pools = {str(name): pooled(values) for name, values in {**by, **groups}.items()}
    others, answers = (None if found is None else _collateral(found, pools) for found in (collateral, answered))
    answers = answers and {name: part for name, part in answers.items() if name in ANSWERED}
    caveats, details = _caveats(result, others, card)
    return {
        "format": FORMAT,
        "version": VERSION,
        "oar": __version__,
        "answer": answer(result, caveats, details),
        "caveats": caveats,
        "status": str(result.status),
        "explanation": in_command_words(result.explanation),
        "asked": _asked(result.problem),
        "outcome": _outcome(result),
        "least": _least(result, power),
        "power": power and power_facts(power, result.problem),
        "robustness": robustness and {name: told(getattr(robustness, name)) for name in SHAKEN} | {"of": shaken},
        "columns": _columns(efforts),
        "burden": {name: _burden(efforts, pool) for name, pool in pools.items()},
        "left_out": {name: pool.note for name, pool in pools.items() if pool.note},
        "collateral": others,
        "certificate": _certificate(result),
        "card": card and {**card, "collateral": answers},
        "repeat": _repeat(origin),
    }


def _asked(problem: Problem) -> dict[str, Any]:
    people, allowance = problem.people, problem.allowance
    radii = allowance.everyones(people.size)
    return {
        "people": people.size,
        "features": people.dimensions,
        "columns": len(people.schema or range(people.dimensions)),
        "classes": None if problem.regresses else [plain(label) for label in people.classes],
        "model": problem.model.name,
        "model_settings": _settings(problem.model),
        "standardised": _standardised(problem),
        "keep": problem.keep and {name: getattr(problem.keep, name) for name in KEPT},
        "target": people.target,
        "goal": _goal(problem),
        "goal_words": problem.goal_words,
        "asking": len(problem.asked.points),
        "asking_among_people": len(problem.asked.among),
        "several": problem.query.several if problem.several else None,
        "within": problem.query.within,
        "budget": float(allowance.budget) if allowance.single else None,
        "budget_unit": COSTS if people.schema else OWN_UNITS,
        "norm": str(allowance.norm),
        "limits": limits_told(problem),
        "imputed": _imputed(problem),
        "participants": int((radii > 0).sum()),
        "levers": repr(problem.action) if problem.levers.given else None,
    }


def limits_told(problem: Problem) -> str | None:
    """Say in one line what keeps columns where they may be; None where nobody moves."""
    if part_of(problem.action, Perturb) is None:
        return None
    limits = problem.limits
    if limits is None:
        return "none but the budget: columns are plain numbers, and may leave the range of the data"
    if not limits.columns:
        return "none but what the columns are: numbers may leave the range of the data"
    ways = "; --limits FILE sets your own, --limits none lifts them" if limits.as_observed else ""
    return told_limits(limits, problem.people.table.schema) + ways


def _imputed(problem: Problem) -> dict[str, Any] | None:
    """Count the values that were missing and filled in; None where none was."""
    filled = problem.people.imputed
    if filled is None:
        return None
    names = problem.people.table.schema.names
    counts = {name: int(count) for name, count in zip(names, filled.sum(axis=0), strict=True) if count}
    listed = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    people = int(filled.any(axis=1).sum())
    told = (
        f"{counted(int(filled.sum()), 'value', 'values')} of {counted(people, 'person', 'people')} ({listed}); medians "
        "and modes stand in for them, and nobody is asked to change these"
    )
    return {"values": int(filled.sum()), "people": people, "columns": counts, "told": told}


def _settings(model: Any) -> dict[str, Any]:
    """Return the model's settings that are numbers, words or truths; the scaler's tell whether it is refitted."""
    inner = model.unscaled
    found = {field.name: getattr(inner, field.name) for field in fields(inner)} if is_dataclass(inner) else {}
    plain_ones = {name: value for name, value in found.items() if isinstance(value, str | int | float | None)}
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
    if problem.model.margins:  # a softmax of margins is no probability
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
    names = ("solver", "finished", "gap", "claimed_loss", "residual", "steps", "promised")
    return {
        **{name: told(getattr(proposal, name)) for name in names},
        **{name: told(getattr(result, name)) for name in ("exact", "impossible", "bound")},
        **{name: in_command_words(getattr(proposal, name)) for name in ("note", "suffices", "ended")},
    }


def _least(result: Result, power: Power | None) -> dict[str, Any]:
    """Return the least budget and number of people that are known to do, and that are proved to be needed."""
    found: dict[str, Any] = {"budget_at_most": None, "people_at_most": None, "people_told": None, "proved": []}
    if result.audit.success_before:
        return found | {"budget_at_most": 0.0, "people_at_most": 0}
    if power is None:
        return found
    found["budget_at_most"] = told(power.at_most_budget)
    if has_closed_form(result.problem):
        far, many = minimal_budget(result.problem), fewest_in(result)
        found |= {"budget_at_most": told(far.value), "people_at_most": many.size}
        found["proved"] = [far.explanation, many.explanation]
    elif result.success:
        many = fewest_in(result)  # as `oar questions` looks for them, so that there is one answer to one question
        found |= {"people_at_most": many.size, "people_told": in_command_words(many.explanation)}
    return found


def power_facts(power: Power, problem: Problem) -> dict[str, Any]:
    """Return what a power curve says: a row a budget, a column a share."""
    names = ("shares", "budgets", "losses", "success", "at_most_budget", "at_most_share", "note")
    chances = [[goal_probability(problem, loss) for loss in row] for row in power.losses]
    return {name: told(getattr(power, name)) for name in names} | {"probabilities": told(chances)}


def _columns(efforts: Efforts) -> list[dict[str, Any]]:
    """Return what happens to columns; what few people's changes cost is not told."""
    rows = efforts.by_column()
    hidden = [0 < row["movers"] < FEW_PEOPLE for row in rows]
    if efforts.plan.problem.allowance.norm.p == 1 and sum(hidden) == 1 and len(rows) > 1:
        # Columns' efforts add up to everyone's: the one that is missing could be computed.
        hidden[min((row["movers"], place) for place, row in enumerate(rows) if not hidden[place])[1]] = True
    return [row | {"effort": None} if hide else row for row, hide in zip(rows, hidden, strict=True)]


def _burden(efforts: Efforts, pool: PooledGroups) -> list[dict[str, Any]]:
    """Return what is asked of groups; what it costs few people is not told."""
    found = {row["group"]: row for row in efforts.by_group(pool.values)}
    rows = [found[name] for name in pool.order]
    hidden = withheld([row["movers"] for row in rows], int(efforts.movers.sum()))
    return [
        row | dict.fromkeys(("effort", "effort_per_member", "effort_per_mover")) if hide else row
        for row, hide in zip(rows, hidden, strict=True)
    ]


def _collateral(found: Collateral, pools: Mapping[str, PooledGroups]) -> dict[str, Any]:
    """Return what becomes of people who do not ask, and how good the model is before and after.

    What happens to few of those who act, or of those who do nothing, is not told; nor is that of both together, of
    which the rest could be taken away.
    """
    problem, name = found.result.problem, None if found.by_group is None else str(found.by_group.index.name)
    parts = {"bystanders": found.bystanders, "actors": found.actors, "everyone": found.everyone}
    few = {key: 0 < some.people < FEW_PEOPLE for key, some in parts.items()}
    few["everyone"] = any(few.values())
    rows = {key: _unless_few(told(some._asdict()), few[key], "people") for key, some in parts.items()}
    groups = _groups(found, name, pools) if name is not None else dict.fromkeys(GROUPED)
    if few["everyone"]:  # accuracy is told of everyone, so that of all but few people would tell theirs
        for row in (*rows.values(), *(row for each in groups.values() for row in each or ())):
            row |= dict.fromkeys(("score_before", "score_after"))
    both = rows["actors"], rows["bystanders"]
    worse = found.own_after > found.own_before if problem.regresses else found.own_after < found.own_before
    return {
        **rows,
        "prediction": prediction_words(problem),
        "harm": harm_words(*both),
        "effects": effect_words(prediction_words(problem), *both),
        "limited_by": [f"--{each}" for each in limiting(both[1], problem.regresses, worse)],
        "limited": list(_limits_asked(problem)),
        "kept": {} if found.result.audit.violations else _limits_asked(problem),  # as the audit found
        **groups,
        "by_outcome": None if problem.regresses else _by_outcome(found, pools[problem.people.target or "class"]),
        "grouped_by": name,
        "score": found.score,
        "own": told([found.own_before, found.own_after]),
        "falls": fall_words(found.score, found.own_before, found.own_after),
        "held_out_people": found.held_out_size,
        "held_out": told([found.held_out_before, found.held_out_after]) if found.held_out_size else None,
    }


def _limits_asked(problem: Problem) -> dict[str, float]:
    """Return the limits on side effects, by option."""
    limits = {f"--{each}": getattr(problem.keep, each, None) for each in KEPT}
    return {name: limit for name, limit in limits.items() if limit is not None}


def _by_outcome(found: Collateral, pool: PooledGroups) -> list[dict[str, Any]]:
    """Return how many actors of each outcome lose and gain the goal; what happens to few of them is not told."""
    values, codes = pool.values.to_numpy(dtype=object), {name: place for place, name in enumerate(EFFECTS)}
    rows: list[dict[str, Any]] = []
    for group in pool.order:
        effects = found.effects[found.acts & (values == group)]
        counts = {way: int((effects == codes[way]).sum()) for way in ("towards", "away")}
        rows.append({"group": group, "people": int(effects.size), **counts})
    hidden = withheld([row["people"] for row in rows], int(found.acts.sum()))
    return [_unless_few(row, hide, "group", "people") for row, hide in zip(rows, hidden, strict=True)]


def _caveats(result: Result, others: Mapping[str, Any] | None, card: Mapping[str, Any] | None) -> tuple[list, list]:
    """Return what speaks against a plan, in a few words each, and what is to be said of that."""
    caveats, details = [], []
    if result.status is Status.ACHIEVED and card and card["written"] and not card["success"]:
        known = card["success"] is not None
        caveats.append("only by moves.csv" if known else "that is known of moves.csv only")
        missed = "the goal is missed, by a refit" if known else "it is not known whether the goal is reached"
        details.append(f"if members use member.html instead, {missed}")
    if others and (others["harm"] or others["falls"]):
        caveats += [others["harm"]] if others["harm"] else []
        caveats += ["the model gets worse"] if others["falls"] else []
        details.append(_limited(others))
    return caveats, details


def _limited(others: Mapping[str, Any]) -> str:
    """Return how many are harmed and helped, which limits on that were kept, and the options that limit it further."""
    names = [name for name in others["limited_by"] if name not in others["limited"]]
    kept = [f"{name} {others['kept'][name]:g}" for name in others["limited_by"] if name in others["kept"]]
    said = [others["effects"]] if others["harm"] else []
    said += [others["falls"]] if others["falls"] else []
    if kept:
        said.append(f"{' and '.join(kept)} {'was' if len(kept) == 1 else 'were'} kept")
    options = " or ".join(names) or f"a smaller {others['limited_by'][0]}"
    said.append(f"{options} {'limit' if len(names) > 1 else 'limits'} that{' further' if kept else ''}")
    return "; ".join(said)


def _groups(found: Collateral, name: str, pools: Mapping[str, PooledGroups]) -> dict[str, list[dict[str, Any]]]:
    """Return what happens to groups of bystanders, of actors, and of both; what happens to few of them is not told."""
    if name not in pools:
        raise OptionError(f"groups: must have {name!r}, by which the side effects are grouped.")
    frames = dict(zip(GROUPED, (found.by_group, found.actors_by_group, found.everyone_by_group), strict=True))
    people = dict(zip(GROUPED, ("bystanders", "actors", "people"), strict=True))
    rows, hidden = {}, {}
    for key, frame in frames.items():
        by = {str(group): row for group, row in zip(frame.index, frame.to_dict("records"), strict=True)}
        rows[key] = [{"group": group} | told(by[group]) for group in pools[name].order if group in by]
        hide = withheld([int(row[people[key]]) for row in rows[key]], int(frame[people[key]].sum()))
        hidden[key] = {row["group"] for row, few in zip(rows[key], hide, strict=True) if few}
    hidden[GROUPED[-1]] = set().union(*hidden.values())  # of both together, a part that is told could be taken away
    return {
        key: [_unless_few(row, row["group"] in hidden[key], "group", people[key]) for row in rows[key]] for key in rows
    }


def _unless_few(row: dict[str, Any], hide: bool, *kept: str) -> dict[str, Any]:
    return {name: None if hide and name not in kept else value for name, value in row.items()}


def _repeat(origin: Origin) -> dict[str, Any]:
    versions = {"oar": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return {
        "command": origin.command,
        "seed": origin.seed,
        "data": {"file": origin.file, "rows": origin.rows},
        "settings": told(dict(origin.settings)),
        "versions": versions,
    }

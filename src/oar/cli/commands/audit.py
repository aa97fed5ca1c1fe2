"""`oar audit`: what becomes of a card, or of moves, by a refit on somebody's own copy of the data.

The terms of a card become limits that an audit can check.
"""

from __future__ import annotations

import math
import os
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oar.cli import options as given
from oar.cli.inputs.people import Layout, check_data
from oar.cli.inputs.problem import NO_LIMITS, ProblemArguments
from oar.cli.options import option
from oar.cli.terminal import clear_endings, output, stages, tell_written
from oar.errors import OptionError
from oar.files import write_text

if TYPE_CHECKING:
    from oar.actions.limits.limit import Limit, Limits
    from oar.plans import Audit, Card, Plan
    from oar.plans.cards.table.terms import ColumnTerms
    from oar.problem import Problem

People = Annotated[
    Path | None,
    typer.Argument(
        metavar="DATA", help="The people, as for oar plan; none for a plan of the example.", show_default=False
    ),
]
NOTHING_SAID = ProblemArguments(None, Layout())
TERMS = (
    "Limits: moves were checked against the card's own terms (columns, bounds, directions, steps, costs, links and "
    "rules). People's own limits and plausible places are not on a card: give the plan's --limits to check them."
)
BUDGET = "Limits: only the budget was checked, because a card of plain numbers has no other terms."


@given.asks_of_card
def audit(
    card: Annotated[
        Path, typer.Argument(metavar="PLAN", help="The folder of a plan, or its card, plan.json.", show_default=False)
    ],
    asked: ProblemArguments,
    data: People = None,
    moves: Annotated[
        Path | None, option(help="A file of moves, such as moves.csv, to be made in place of responses to the card.")
    ] = None,
    out: Annotated[Path | None, option(help="JSON file for the findings.")] = None,
    force: given.Force = False,
) -> None:
    """Check a plan's folder, make its moves and the responses to its card, refit from scratch, and report the outcome.

    A folder contains its own problem. A card alone, plan.json, contains model, norm and budget, and the goal if it is
    a single prediction; repeat any other goal as for the plan. --moves replaces the responses. Exit code 0 means that
    the audit was done, whatever it found; it is 1 for bad input, for files that are not as they were delivered, and
    for a folder's plan on other data than its own.
    """
    submitted = [] if moves is None else [moves]
    if os.path.isdir(card):
        _audit_folder(card, data, out, force, asked == NOTHING_SAID and not submitted)
        return
    with clear_endings(), stages() as stage:
        from oar.plans import Card
        from oar.plans.cards.table.card import without_answer
        from oar.referee import audit as audited
        from oar.report.files.output_folder import check_settled
        from oar.report.plan.answer import unable_words

        files = output(out, force, endings=())
        check_data(data, "")
        stage("reading")
        check_settled(card.parent)
        differs = _differs(card, submitted)
        loaded = Card.load(card).single
        # What the card says itself: the schema, whether goals are values, and the goal.
        layout = replace(asked.layout, schema=loaded.schema, plain=not loaded.schema, of_card=True)
        model = "ridge" if loaded.outputs else "softmax"
        asked = replace(asked, data=data, layout=layout, model=model, card_goal=_single(loaded))
        problem = _problem(asked, loaded)
        plan = _acted(problem, loaded, submitted, asked.layout)
        stage("refitting")
        found = audited(plan)
        for path in files:
            _save(found, loaded, asked, problem, path)
    typer.echo(found)
    if asked.limits is None:
        typer.echo(f"\n{TERMS if loaded.terms.columns else BUDGET}")
    unable = int(without_answer(problem).sum())
    if unable and not submitted:
        typer.echo(f"\n{unable_words(unable)}.")
    if loaded.participants == "selected" and not submitted:
        typer.echo(f"\n{_answered(problem)}")
    _end(files, differs)


def _audit_folder(folder: Path, data: Path | None, out: Path | None, force: bool, nothing_else: bool) -> None:
    """Audit a plan by its folder alone."""
    with clear_endings(), stages() as stage:
        from oar.cli.commands.audit_folder import audited_folder
        from oar.report.files.text_formats import json_text
        from oar.report.plan.facts import FORMAT, VERSION

        files = output(out, force, endings=())
        if not nothing_else:
            raise OptionError(
                f"PLAN: the folder {folder} says itself what was asked; leave all options but --out and --force out, "
                f"or name {folder / 'plan.json'}."
            )
        found = audited_folder(folder, data, stage)
        for path in files:
            write_text(path, json_text({"format": FORMAT, "version": VERSION, **found.to_json()}))
    typer.echo(found)
    _end(files, found.differs if found.same_data else (*found.differs, "DATA is another file than it was made of"))


def _end(files: tuple[Path, ...], differs: tuple[str, ...]) -> None:
    """Say where it is, and end with 1 where files are not as they were delivered."""
    tell_written(files)
    if differs:
        typer.echo(f"oar: this is not the plan as it was delivered: {'; '.join(differs)}.", err=True)
        raise SystemExit(1)


def _differs(card: Path, moves: list[Path]) -> tuple[str, ...]:
    """Return what differs of the files that are used, where a manifest lies beside them."""
    from oar.report.files.manifest import MANIFEST, check

    used = [card, *(path for path in moves if path.parent.absolute() == card.parent.absolute())]
    if not os.path.isfile(card.parent / MANIFEST):
        return ()
    return check(card.parent, tuple(path.name for path in used)).told


def _single(card: Card) -> Any:
    """Return a card's goal as a query has it; None where it is in words alone."""
    from oar.goals import GoalText

    if isinstance(card.goal, GoalText):
        return None
    return list(card.goal) if card.outputs and isinstance(card.goal, tuple) else card.goal


def _problem(asked: ProblemArguments, card: Card) -> Problem:
    """Return what the card is for, put to these people."""
    from oar.actions import Perturb
    from oar.problem import Problem

    if card.budget is None:
        raise OptionError(
            "card: must have a common budget to be audited here, got one without; use oar.audit in Python."
        )
    if asked.card_goal is None and not asked.goal and not asked.barred:
        raise OptionError(
            f"--goal: must be said again, for the card has it in words alone ({card.goal}); use --goal or --not, and "
            "--query, --probability and the like, as for the plan."
        )
    if asked.participants.startswith("best:"):
        raise OptionError("--participants: nobody is chosen in an audit; name who takes part, or use --moves.")
    limits = limits_of(card, asked.limits)
    moves = Perturb(card.budget, norm=card.norm, limits=limits, **asked.who_takes_part())
    problem = Problem(asked.source.people, card.audited_model(), asked.asking, moves, keep=asked.keep)
    if problem.published_goal != card.goal:
        raise OptionError(
            f"--goal: must be what the card is for, {card.goal!r}, got {problem.published_goal!r}; say who asks for "
            "what as for the plan."
        )
    return problem


def _answered(problem: Problem) -> str:
    """Say who answered a card that is not for everyone."""
    size = problem.people.size
    some = int((problem.allowance.everyones(size) > 0).sum())
    return (
        f"This card is for those who were asked to take part, and does not say who they are: here {some:,} of {size:,} "
        "people answered it. Choose them with --participants, or make the moves of a file with --moves."
    )


def _acted(problem: Problem, card: Card, moves: list[Path], layout: Layout) -> Plan:
    """Return everyone's answer to the card, or the moves of a file."""
    import numpy as np

    from oar.people.tables.spreadsheet import restored
    from oar.plans.moves.changes_table import COLUMNS
    from oar.plans.moves.submitted import given_plan, plan_from

    for path in moves:
        parquet = path.suffix.lower() in (".parquet", ".pq")
        layout = Layout() if parquet else Layout(layout.written)
        made = layout.read(path, COLUMNS)
        return plan_from(problem, made if parquet else made.map(restored))
    stay = given_plan(problem, np.zeros((problem.people.size, problem.people.dimensions)))
    return stay.followed(card)


def _save(found: Audit, card: Card, asked: ProblemArguments, problem: Problem, out: Path) -> None:
    from oar.report.files.text_formats import json_text
    from oar.report.plan.answer import told
    from oar.report.plan.facts import FORMAT, VERSION
    from oar.report.plan.publishable import names_of, participants, publishable, rounding_words
    from oar.version import __version__

    source, people = asked.source, problem.people
    asks = {"model": card.model, "goal": told(card.goal), "budget": card.budget, "norm": str(card.norm)}
    content = {
        "format": FORMAT,
        "version": VERSION,
        "oar": __version__,
        "asked": asks | {"people": people.size, "participants": participants(problem)},
        "outcome": {field.name: told(getattr(found, field.name)) for field in fields(found)},
        "repeat": {"data": {"file": source.file, "rows": len(source.frame)}},
    }
    content = publishable(content, people.size, names_of(people)) | {"rounding": rounding_words(people.size)}
    write_text(out, json_text(content))


def limits_of(card: Card, file: Path | None = None) -> Limits | None:
    """Return a card's terms as limits, a file's columns being in place of the card's; None lifts all but the budget.

    A card of plain numbers has no terms. Bounds of a card are about those who answer it, not about who asks.
    """
    from oar.actions.limits.limit import Limits

    if file == NO_LIMITS:
        return None
    if card.table is None:
        return Limits.load(file) if file else None
    links, rules = (tuple(dict.fromkeys(one.text for one in says)) for says in (card.table.links, card.table.rules))
    said = Limits.load(file) if file else Limits(links=links, rules=rules)
    rest = {each.column.name: _limit(each) for each in card.terms.columns if each.column.name not in said.columns}
    return replace(said, columns={**rest, **said.columns}, as_observed=tuple(rest))


def _limit(terms: ColumnTerms) -> Limit:
    from oar.actions.limits.limit import Limit

    column = terms.column
    if not terms.movable:
        return Limit(immutable=True)
    if column.kind == "category":
        if terms.pooled and len(terms.choices) == len(column.levels) - 1:  # what is not named is not forbidden
            return Limit(cost=terms.cost)
        return Limit(levels=tuple(column.levels[place] for place in terms.choices), cost=terms.cost)
    if column.kind == "boolean":
        return Limit(direction=terms.direction, cost=terms.cost)
    lower, upper = (_bound(terms, bound) for bound in (terms.lower, terms.upper))
    step = terms.step or None if column.kind != "ordinal" else None  # of an ordinal it is a level anyway
    bounds: dict[str, Any] = {"lower": lower, "upper": upper, "direction": terms.direction, "step": step}
    bounds["missing"] = terms.missing or None
    if terms.per_spread:  # the card's own cost is rounded up, and whoever has the data knows better
        return Limit(**bounds, cost=terms.per_spread)
    return Limit(**bounds, cost=terms.cost, unit=1.0)


def _bound(terms: ColumnTerms, bound: float) -> Any:
    """Return a bound as its column has it: of an ordinal the level, which a card has by its rank."""
    if math.isinf(bound):
        return None
    if terms.column.kind == "number":
        return bound
    return terms.column.levels[round(bound)] if terms.column.kind == "ordinal" else round(bound)

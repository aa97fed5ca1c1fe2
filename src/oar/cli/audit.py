"""`oar audit`: what becomes of a card, or of moves, by a refit on somebody's own copy of the data."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oar.cli import options as given
from oar.cli.asking import Asked
from oar.cli.card_limits import BUDGET, TERMS, limits_of
from oar.cli.endings import clear_endings
from oar.cli.reading import Layout
from oar.cli.respond import CardFile
from oar.cli.stages import stages
from oar.cli.tabling import check_file
from oar.errors import OptionError

if TYPE_CHECKING:
    from oar.plans import Audit, Card, Plan
    from oar.problem import Problem

People = Annotated[Path, typer.Argument(metavar="DATA", help="The people, as for oar plan.", show_default=False)]
Moves = Annotated[
    Path | None,
    typer.Option(help="A file of moves, as moves.csv, to be made in place of answers to the card.", show_default=False),
]
Out = Annotated[Path | None, typer.Option(help="JSON file to write what was found to.", show_default=False)]


def audit(
    card: CardFile,
    data: People,
    target: given.Target = None,
    query: given.Queries = None,
    moves: Moves = None,
    limits: given.LimitsFile = None,
    participants: given.Participants = "everyone",
    seed: given.Seed = 0,
    goal: given.Goal = None,
    barred: given.Barred = None,
    probability: given.Probability = None,
    within: given.Within = None,
    several: given.Several = None,
    share: given.Share = None,
    move_too: given.MoveToo = False,
    changed: given.Changed = None,
    worse: given.Worse = None,
    missing: given.Missing = "refuse",
    name: given.Name = None,
    leave_out: given.LeftOut = None,
    weights: given.Weights = None,
    out: Out = None,
    force: given.Force = False,
    sep: given.Sep = None,
    encoding: given.Encoding = None,
) -> None:
    """Have everyone in DATA answer the card (or make the --moves), refit from scratch, and tell what the query gets.

    Model, norm and budget are the card's, and so is the goal where it is one prediction; any other goal is said again
    as it was for the plan. Exit code 0 means that it was audited, whatever was found; it is 1 for bad input.
    """
    with clear_endings(), stages() as stage:
        from oar.audit import audit as audited
        from oar.plans import Card

        check_file(out, force, endings=())
        stage("reading")
        loaded = Card.load(card)
        schema = None if loaded.table is None else loaded.table.encoding.schema
        left_out = tuple(leave_out or ())
        layout = Layout(sep, encoding, target, name, left_out, weights, schema, missing, plain=schema is None)
        asked = Asked(
            data,
            layout,
            query=query,
            goal=tuple(goal or ()),
            barred=tuple(barred or ()),
            model="ridge" if loaded.classes is None else "softmax",  # whether goals are values; the card has the model
            limits=limits,
            participants=participants,
            seed=seed,
            several=several,
            share=share,
            move_too=move_too,
            probability=probability,
            within=within,
            changed=changed,
            worse=worse,
            card_goal=_single(loaded),
        )
        problem = _problem(asked, loaded)
        plan = _acted(problem, loaded, moves, layout)
        stage("refitting")
        found = audited(plan)
        if out is not None:
            _save(found, loaded, asked, out)
    typer.echo(found)
    if limits is None:
        typer.echo(f"\n{BUDGET if loaded.table is None else TERMS}")
    if loaded.participants == "selected" and moves is None:
        typer.echo(f"\n{_answered(problem)}")
    if out is not None:
        typer.echo(f"\nDone. Written to {out}")


def _single(card: Card) -> Any:
    """Return a card's goal as a query has it; None where it is in words alone."""
    from oar.goals import Wanted

    if isinstance(card.goal, Wanted):
        return None
    return list(card.goal) if card.classes is None and isinstance(card.goal, tuple) else card.goal


def _problem(asked: Asked, card: Card) -> Problem:
    """Return what the card is for, put to these people."""
    from oar.actions import Perturb
    from oar.models import NearestCentroid, Scaled
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
    model: Any = NearestCentroid() if card.broadcast is None else card.broadcast.model
    if card.table is not None and not isinstance(model, Scaled) and "scaled " in card.model:
        model = Scaled(model, frozen=card.model.startswith("frozen-"))
    limits: Any = asked.limits if asked.limits is not None else limits_of(card)
    moves = Perturb(card.budget, norm=card.norm, limits=limits, **asked.who_takes_part())
    problem = Problem(asked.source.people, model, asked.asking, moves, keep=asked.keep)
    if problem.published_goal != card.goal:
        meant, got = _in_words(card.goal), _in_words(problem.published_goal)
        raise OptionError(
            f"--goal: must be what the card is for, {meant}, got {got}; say who asks for what as for the plan."
        )
    return problem


def _in_words(goal: Any) -> str:
    """Return a published goal as a sentence has it."""
    from oar.goals import Wanted

    return str(goal) if isinstance(goal, Wanted) else repr(goal)


def _answered(problem: Problem) -> str:
    """Say who answered a card that is not for everyone."""
    size = problem.people.size
    some = int((problem.allowance.everyones(size) > 0).sum())
    return (
        f"This card is for those who were asked to take part, and does not say who they are: here {some:,} of {size:,} "
        "people answered it. Choose them with --participants, or make the moves of a file with --moves."
    )


def _acted(problem: Problem, card: Card, moves: Path | None, layout: Layout) -> Plan:
    """Return everyone's answer to the card, or the moves of a file."""
    import numpy as np

    from oar.plans.plan import MemberPlan
    from oar.report.moves_out import COLUMNS, neutral, plan_from

    if moves is not None:
        parquet = moves.suffix.lower() in (".parquet", ".pq")
        layout = Layout() if parquet else Layout(layout.sep, layout.encoding)
        made = layout.read(moves, COLUMNS)
        return plan_from(problem, made.map(neutral) if parquet else made)
    people = problem.people
    stay = MemberPlan(problem, np.zeros(people.dimensions), np.zeros((people.size, people.dimensions)))
    return stay.followed(card)


def _save(found: Audit, card: Card, asked: Asked, out: Path) -> None:
    from oar.files import replace_atomically
    from oar.report.answer import told
    from oar.report.facts import FORMAT, VERSION
    from oar.report.plain import json_text
    from oar.version import __version__

    source = asked.source
    content = {
        "format": FORMAT,
        "version": VERSION,
        "oar": __version__,
        "asked": {"model": card.model, "goal": told(card.goal), "budget": card.budget, "norm": str(card.norm)},
        "outcome": {field.name: told(getattr(found, field.name)) for field in fields(found)},
        "repeat": {"data": {"file": source.file, "sha256": source.sha256, "rows": len(source.frame)}},
    }
    with replace_atomically(out) as file:
        file.write(json_text(content).encode())

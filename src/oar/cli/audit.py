"""`oar audit`: what becomes of a card, or of moves, by a refit on somebody's own copy of the data."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oar.cli import options as given
from oar.cli.asking import Asked
from oar.cli.endings import clear_endings
from oar.cli.reading import Layout
from oar.cli.respond import CardFile
from oar.cli.stages import stages
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
    within: given.Within = None,
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

    Model, norm, budget and goal are the card's. Exit code 0 means that it was audited, whatever was found; it is 1 for
    bad input.
    """
    with clear_endings(), stages() as stage:
        from oar.audit import audit as audited
        from oar.plans import Card

        if out is not None and out.exists() and not force:
            raise OptionError(f"out: {out} is there already; choose another name, or add --force.")
        stage("reading")
        loaded = Card.load(card)
        schema = None if loaded.table is None else loaded.table.encoding.schema
        left_out = tuple(leave_out or ())
        layout = Layout(sep, encoding, target, name, left_out, weights, schema, missing, plain=schema is None)
        asked = Asked(data, layout, query=query, limits=limits, participants=participants, seed=seed, within=within)
        plan = _acted(_problem(asked, loaded), loaded, moves, layout)
        stage("refitting")
        found = audited(plan)
        if out is not None:
            _save(found, loaded, asked, out)
    typer.echo(found)
    if out is not None:
        typer.echo(f"\nDone. Written to {out}")


def _problem(asked: Asked, card: Card) -> Problem:
    """Return what the card is for, put to these people."""
    from oar.actions import Perturb
    from oar.models import NearestCentroid, Scaled
    from oar.problem import Problem, Query

    if card.budget is None:
        raise OptionError(
            "card: must have a common budget to be audited here, got one without; use oar.audit in Python."
        )
    model: Any = NearestCentroid() if card.broadcast is None else card.broadcast.model
    if card.table is not None and not isinstance(model, Scaled) and "scaled " in card.model:
        model = Scaled(model, frozen=card.model.startswith("frozen-"))
    goal = list(card.goal) if card.classes is None and isinstance(card.goal, tuple) else card.goal
    query = Query(asked.source.rows(asked.asked_of), goal, within=asked.within)
    moves = Perturb(card.budget, norm=card.norm, limits=asked.limits, **asked.who_takes_part())
    return Problem(asked.source.people, model, query, moves)


def _acted(problem: Problem, card: Card, moves: Path | None, layout: Layout) -> Plan:
    """Return everyone's answer to the card, or the moves of a file."""
    import numpy as np

    from oar.plans.plan import MemberPlan
    from oar.report.moves_out import plan_from

    if moves is not None:
        return plan_from(problem, Layout(layout.sep, layout.encoding).read(moves))
    people = problem.people
    stay = MemberPlan(problem, np.zeros(people.dimensions), np.zeros((people.size, people.dimensions)))
    return stay.followed(card)


def _save(found: Audit, card: Card, asked: Asked, out: Path) -> None:
    from oar.files import replace_atomically
    from oar.report.facts import FORMAT, VERSION, told
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

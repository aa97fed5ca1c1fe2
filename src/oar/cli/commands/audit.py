"""`oar audit`: what becomes of a card, or of moves, by a refit on somebody's own copy of the data."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oar.cli import options as given
from oar.cli.exits import clear_endings
from oar.cli.inputs.card_limits import BUDGET, TERMS, limits_of
from oar.cli.inputs.file_dialects import FileDialect
from oar.cli.inputs.people import Layout, check_data
from oar.cli.inputs.problem import ProblemArguments
from oar.cli.stages import stages
from oar.cli.tables import check_file
from oar.errors import OptionError

if TYPE_CHECKING:
    from oar.plans import Audit, Card, Plan
    from oar.problem import Problem

Audited = Annotated[
    Path,
    typer.Argument(metavar="PLAN", help="The folder of a plan, or its card, plan.json.", show_default=False),
]
People = Annotated[
    Path | None,
    typer.Argument(
        metavar="DATA", help="The people, as for oar plan; none for a plan of the example.", show_default=False
    ),
]
Moves = Annotated[
    Path | None,
    typer.Option(help="A file of moves, as moves.csv, to be made in place of answers to the card.", show_default=False),
]
Out = Annotated[Path | None, typer.Option(help="JSON file to write what was found to.", show_default=False)]


@given.reads
def audit(
    card: Audited,
    data: People = None,
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
    lost: given.Lost = None,
    worse: given.Worse = None,
    missing: given.Missing = "refuse",
    name: given.Name = None,
    leave_out: given.LeftOut = None,
    weights: given.Weights = None,
    out: Out = None,
    force: given.Force = False,
    written: FileDialect = given.WRITTEN,
) -> None:
    """Check a plan's folder, have its moves made and its card answered, refit from scratch, and tell what comes of it.

    A folder says itself what was asked. Of a card alone, plan.json, model, norm and budget are known, and so is the
    goal where it is one prediction; any other goal is said again as it was for the plan, and --moves are made in place
    of answers. Exit code 0 means that it was audited, whatever was found; it is 1 for bad input, for files that are
    not as they were delivered, and for a folder's plan on other data than its own.
    """
    if os.path.isdir(card):
        own = [target, query, moves, limits, participants, seed, goal, barred, probability, within, several, share]
        own += [move_too, changed, lost, worse, missing, name, leave_out, weights]
        usual = [None] * 4 + ["everyone", 0] + [None] * 6 + [False, None, None, None, "refuse", None, None, None]
        _audit_folder(card, data, out, force, own == usual and not written.given)
        return
    with clear_endings(), stages() as stage:
        from oar.plans import Card
        from oar.plans.cards.publish_table import without_answer
        from oar.referee import audit as audited
        from oar.report.files.replacing import check_settled
        from oar.report.plan.answer import unable_words

        check_file(out, force, endings=())
        check_data(data, None)
        stage("reading")
        check_settled(card.parent)
        differs = _differs(card, moves)
        loaded = Card.load(card)
        schema = None if loaded.table is None else loaded.table.encoding.schema
        layout = Layout(
            written,
            target,
            given.by_place([name])[0] if name else None,
            given.by_place(leave_out),
            weights=weights,
            schema=schema,
            missing=missing,
            plain=schema is None,
            of_card=True,
        )
        asked = ProblemArguments(
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
            lost=lost,
            worse=worse,
            card_goal=_single(loaded),
        )
        problem = _problem(asked, loaded)
        plan = _acted(problem, loaded, moves, layout)
        stage("refitting")
        found = audited(plan)
        if out is not None:
            _save(found, loaded, asked, problem, out)
    typer.echo(found)
    if limits is None:
        typer.echo(f"\n{BUDGET if loaded.table is None else TERMS}")
    unable = int(without_answer(problem).sum())
    if moves is None and unable:
        typer.echo(f"\n{unable_words(unable)}.")
    if loaded.participants == "selected" and moves is None:
        typer.echo(f"\n{_answered(problem)}")
    _end(out, differs)


def _audit_folder(folder: Path, data: Path | None, out: Path | None, force: bool, nothing_else: bool) -> None:
    """Audit a plan by its folder alone."""
    with clear_endings(), stages() as stage:
        from oar.cli.commands.audit_folder import audited_folder
        from oar.files import replace_atomically
        from oar.report.files.json import json_text
        from oar.report.plan.facts import FORMAT, VERSION

        check_file(out, force, endings=())
        if not nothing_else:
            raise OptionError(
                f"PLAN: the folder {folder} says itself what was asked; leave all options but --out and --force out, "
                f"or name {folder / 'plan.json'}."
            )
        found = audited_folder(folder, data, stage)
        if out is not None:
            with replace_atomically(out) as file:
                file.write(json_text({"format": FORMAT, "version": VERSION, **found.to_json()}).encode())
    typer.echo(found)
    _end(out, found.differs if found.same_data else (*found.differs, "DATA is another file than it was made of"))


def _end(out: Path | None, differs: tuple[str, ...]) -> None:
    """Say where it is, and end with 1 where files are not as they were delivered."""
    if out is not None:
        typer.echo(f"\nDone. Written to {out}")
    if differs:
        typer.echo(f"oar: this is not the plan as it was delivered: {'; '.join(differs)}.", err=True)
        raise SystemExit(1)


def _differs(card: Path, moves: Path | None) -> tuple[str, ...]:
    """Return what differs of the files that are used, where a manifest lies beside them."""
    from oar.report.files.manifest import MANIFEST, check

    used = [card, *([moves] if moves is not None and moves.parent.absolute() == card.parent.absolute() else [])]
    if not os.path.isfile(card.parent / MANIFEST):
        return ()
    return check(card.parent, tuple(path.name for path in used)).told


def _single(card: Card) -> Any:
    """Return a card's goal as a query has it; None where it is in words alone."""
    from oar.goals import GoalText

    if isinstance(card.goal, GoalText):
        return None
    return list(card.goal) if card.classes is None and isinstance(card.goal, tuple) else card.goal


def _problem(asked: ProblemArguments, card: Card) -> Problem:
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
    centroids = card.broadcast is None or (card.table is None and card.model == NearestCentroid().name)
    model: Any = NearestCentroid() if centroids or card.broadcast is None else card.broadcast.model
    if card.table is not None and not isinstance(model, Scaled) and "scaled " in card.model:
        model = Scaled(model, frozen=card.model.startswith("frozen-"))
    limits = limits_of(card, asked.limits)
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
    from oar.goals import GoalText

    return str(goal) if isinstance(goal, GoalText) else repr(goal)


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

    from oar.people.tables.spreadsheet import restored
    from oar.plans.moves.changes_table import COLUMNS
    from oar.plans.moves.submitted import plan_from
    from oar.plans.plan import MemberPlan

    if moves is not None:
        parquet = moves.suffix.lower() in (".parquet", ".pq")
        layout = Layout() if parquet else Layout(layout.written)
        made = layout.read(moves, COLUMNS)
        return plan_from(problem, made if parquet else made.map(restored))
    people = problem.people
    stay = MemberPlan(problem, np.zeros(people.dimensions), np.zeros((people.size, people.dimensions)))
    return stay.followed(card)


def _save(found: Audit, card: Card, asked: ProblemArguments, problem: Problem, out: Path) -> None:
    from oar.files import replace_atomically
    from oar.report.files.json import json_text
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
    with replace_atomically(out) as file:
        file.write(json_text(content).encode())

"""`oar plan`: from a file of people to a plan, as a folder of files."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oar.cli import options as given
from oar.cli.asking import Asked
from oar.cli.endings import clear_endings
from oar.cli.reading import check_data
from oar.cli.stages import Stage, stages
from oar.errors import NumericsError, OptionError

if TYPE_CHECKING:
    from oar.cli.reading import Source
    from oar.plans import Result
    from oar.report.pooling import Pooled

FOLDER = Path("oar-plan")
MANY, THIRDS = 1_000_000, (1 / 3, 2 / 3, 1.0)  # numbers from which on refits take long, and then fewer are made
Out = Annotated[
    Path | None, typer.Option(help="Folder to write to; made if it is not there.  [default with --example: oar-plan]")
]
HeldOut = Annotated[
    Path | None,
    typer.Option(help="A file of people who are not trained on, laid out as DATA: how right is the model about them?"),
]


@given.asks
def plan(
    asked: Asked,
    out: Out = None,
    group: given.Group = None,
    held_out: HeldOut = None,
    force: given.Force = False,
) -> None:
    """Plan who should change what so that the retrained model decides otherwise about one person, and audit it.

    Writes plan.json (the card that members answer; nobody's data), moves.csv and moves.parquet (every change, in raw
    units), audit.json, report.html for the organiser and member.html for members. They appear together when all is
    done; a plan that was in the folder before is replaced, and other files there are not touched, unless with --force
    where they have these names.
    """
    with clear_endings(), stages() as stage:
        check_data(asked.data, asked.example)
        if out is None and asked.example is None:
            raise OptionError("--out: must be a folder to write to, got none.")
        folder = out or FOLDER
        from oar.report.deliver import REPORT, check_folder, write_all
        from oar.report.outputs import staged

        earlier = check_folder(folder, force)
        with staged(folder, REPORT, earlier) as unfinished:
            result, facts, published = _planned(asked, group, held_out, stage)
            stage("writing")
            names = write_all(unfinished, result, facts, published)
    typer.echo(_summary(facts, folder, names))


def _planned(asked: Asked, group: str | None, held_out: Path | None, stage: Stage) -> Any:
    """Plan, audit, and collect what is told about it."""
    import oar
    from oar.goals.held_out import held_out_people
    from oar.report.deliver import publish
    from oar.report.facts import Origin, facts_of

    stage("reading")
    source, problem = asked.source, asked.problem
    groups = None if group is None else _groups(source, group)
    others = None if held_out is None else source.others(held_out)
    if others is not None:  # a file that does not fit is told before the work begins
        held_out_people(problem.people, problem.regresses, others)
    stage("planning", own_line=True)
    result = oar.collective(problem)
    stage("trying the card")
    published = publish(result)
    stage("power")
    power = _power(result, asked.seed)
    stage("what happens to others")
    origin = Origin(
        command=shlex.join(["oar", *sys.argv[1:]]),
        file=source.file,
        sha256=source.sha256,
        rows=len(source.frame),
        seed=asked.seed,
        settings={key: value for key, value in asdict(asked).items() if value not in (None, (), "")},
    )
    facts = facts_of(
        result,
        origin=origin,
        groups=None if group is None else {group: groups},
        power=power,
        collateral=_collateral(result, others, None if groups is None else groups.values),
        card=published.facts,
    )
    return result, facts, published


def _groups(source: Source, column: str) -> Pooled:
    """Return everyone's value of a column; numbers are cut into quarters, and small groups are put together."""
    from oar.people.grouping import grouped
    from oar.report.pooling import pooled

    return pooled(grouped(source.people, source.groups(column)).set_axis(source.people.index))


def _collateral(result: Result, others: Any, groups: Any) -> Any:
    """Return what happens to others; nothing where the model cannot be refitted, which the status says."""
    import oar

    try:
        return oar.collateral(result, held_out=others, groups=groups)
    except NumericsError:
        return None


def _power(result: Result, seed: int) -> Any:
    """Return what parts of the plan can do; nothing where labels change, members leave, or nobody moves."""
    import oar

    if result.problem.levers is not None or not result.audit.movers or not result.audit.converged:
        return None
    people = result.problem.people
    shares = THIRDS if people.size * people.dimensions > MANY else None
    budget = result.problem.allowance.budget
    budgets = None if shares is None or not isinstance(budget, float) else [share * budget for share in shares]
    return oar.power(result, shares, budgets, seed=seed)


def _summary(facts: Any, folder: Path, names: list[str]) -> str:
    """Return what is said at the end."""
    from oar.people.wording import lined_up
    from oar.pictures.numbers import loss, number, percent
    from oar.report.answer import in_words

    found, least, asked = facts["outcome"], facts["least"], facts["asked"]
    predicted = found["prediction_before"], found["prediction"]
    rows = [("prediction", " → ".join(map(in_words, predicted)))] if asked["several"] is None else []
    if found["goal_probability"] is not None:
        chances = percent(found["goal_probability_before"]), percent(found["goal_probability"])
        rows.append(("probability of the goal", " → ".join(chances)))
    rows.append(("goal loss", f"{loss(found['loss_before'])} → {loss(found['loss'])}"))
    acting = f"{number(found['movers'])} of {number(asked['participants'])} who take part"
    rows.append(("members who move", f"{acting}, effort {number(found['effort'])}"))
    if least["budget_at_most"] is not None:
        rows.append(("budget that suffices", f"at most {number(least['budget_at_most'])}"))
    if least["people_at_most"] is not None:
        rows.append(("people who suffice", f"at most {number(least['people_at_most'])}"))
    rows.append(("status", f"{facts['status']}: {facts['explanation']}"))
    rows.append(("card", facts["card"]["worth"] or facts["card"]["told"]))
    if "moves.parquet" not in names:
        rows.append(("moves.parquet", "not written: it needs pyarrow; pip install 'oar-recourse[parquet]'"))
    return "\n".join([facts["answer"], "", lined_up(rows), "", f"Done. Files in {folder}: {', '.join(names)}"])

"""`oar questions`: how far, how many, and where is break-even? `oar leverage`: what could a group do?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from oar.cli import options as given
from oar.cli.inputs.people import word
from oar.cli.inputs.problem import ProblemArguments
from oar.cli.options import Search, option, share_of_time
from oar.cli.terminal import clear_endings, output, save_rows, stages, tell_limits, tell_written
from oar.errors import OARError, OptionError
from oar.people.wording import lined_up

SHARES = "1%,5%,20%,100%"
MOST_GROUPS = 50


@given.asks
@given.searches
def questions(
    asked: ProblemArguments,
    search: Search,
    out: Annotated[Path | None, option(help="File to write the answers to, .csv or .json.")] = None,
    force: given.Force = False,
) -> None:
    """Compute the minimal budget, the minimal number of members, and when collective action beats acting alone.

    "At least" and "no fewer" are proved; "at most" and "found" are demonstrated by refits.
    """
    with clear_endings(), stages() as stage:
        import oar
        from oar.referee.witnesses.refits import keeping_unmoved_refits

        files = output(out, force)
        stage("reading")
        problem = asked.problem
        search.check_has_effect(problem)
        questions = {"how far": oar.minimal_budget, "how many": oar.minimal_coalition, "break-even": oar.break_even}
        rows: list[dict[str, Any]] = []
        kept: dict[Any, Any] = {}  # the refit to people as they are, which is that of every audit
        for question, asking in questions.items():
            stage(f"{question}?", own_line=True)
            with share_of_time(len(questions) - len(rows)), keeping_unmoved_refits(kept):  # time for the others, too
                rows.append({"question": question} | _answered(asking, problem))
        save_rows(rows, files)
    for row in rows:
        typer.echo(f"{row['question'] + '?':<13}{row['answer']}")
    tell_limits(problem)
    tell_written(files)


def _answered(asking: Any, problem: Any) -> dict[str, Any]:
    """Return an answer in words and as a number; where a question cannot be asked of this problem, why."""
    from oar.report.plan.answer import told

    try:
        found = asking(problem)
    except OARError as error:
        return {"status": "not answered", "value": None, "answer": f"Not answered: {error}"}
    value = next(getattr(found, name) for name in ("value", "size", "share") if hasattr(found, name))
    return {"status": str(found.status), "value": told(value), "answer": found.explanation}


@given.asks
@given.searches
def leverage(
    asked: ProblemArguments,
    search: Search,
    group: Annotated[str, option("--group", help="Answer for every group of this column of DATA.")] = "",
    shares: Annotated[
        str, typer.Option(help=f"Answer for random shares of the people, with commas between.  [default: {SHARES}]")
    ] = "",
    out: Annotated[Path | None, option(help="File to write the table to, .csv or .json.")] = None,
    force: given.Force = False,
) -> None:
    """Compute the leverage of groups: what each achieves for the query alone, with nobody else moving.

    Every line is a plan of its own, audited by a refit; "no" means that no plan was found, unless it says "proved". For
    the leverage of single members or features per unit of move, use oar.questions.leverage in Python.
    """
    with clear_endings(), stages() as stage:
        import oar

        if group and shares:
            raise OptionError("--group: asks for groups and --shares for shares, and both were given; leave one out.")
        if asked.participants != "everyone":
            raise OptionError("--participants: are what is compared here; use --group or --shares.")
        files = output(out, force)
        stage("reading")
        search.check_has_effect(asked.problem)
        rows: list[dict[str, Any]] = []
        contenders, cut = _contenders(asked, group, shares or SHARES), list[str]()
        for name, members in contenders:
            stage(f"planning for {name}", own_line=True)
            with share_of_time(len(contenders) - len(rows)):
                found = oar.collective(asked.but(participants=members).problem)
                cut += [name] if search.told(name) and not found.proposal.finished else []
            rows.append(_row(name, found))
        save_rows(rows, files)
    typer.echo(_shown(group or "share", rows))
    if cut:
        typer.echo(f"\nThe time was over before the search for {', '.join(cut)} was; more time may find more.")
    tell_limits(asked.problem)
    tell_written(files)


def _contenders(asked: ProblemArguments, group: str, shares: str) -> list[tuple[str, str]]:
    """Return names and what --participants would be for each."""
    if not group:
        return [(share.strip(), share.strip()) for share in shares.split(",")]
    values = list(dict.fromkeys(word(value) for value in asked.source.groups(group).dropna()))
    if len(values) > MOST_GROUPS:
        raise OptionError(f"group: must have at most {MOST_GROUPS} different values, got {len(values):,} of {group!r}.")
    return [(value, f"{group}={value}") for value in values]


def _row(name: str, result: Any) -> dict[str, Any]:
    from oar.plans.plots import goal_probability
    from oar.report.plan.answer import told

    problem, audit = result.problem, result.audit
    return {
        "group": name,
        "members": int((problem.allowance.everyones(problem.people.size) > 0).sum()),
        "movers": audit.movers,
        "success": audit.success,
        "status": str(result.status),
        "prediction": told(audit.prediction),
        "probability_before": goal_probability(problem, audit.loss_before),
        "probability": goal_probability(problem, audit.loss),
        "loss_before": told(audit.loss_before),
        "loss": told(audit.loss),
    }


def _shown(what: str, rows: list[dict[str, Any]]) -> str:
    from oar.pictures.numbers import number, percent

    chances = all(row["probability"] is not None for row in rows)
    lines = [(what, "members", "move", "goal reached", "prediction", "probability" if chances else "goal loss")]
    for row in rows:
        before, after = row["loss_before"], row["loss"]
        change = f"{number(before)} → {number(after)}"
        if chances:
            change = f"{percent(row['probability_before'])} → {percent(row['probability'])}"
        reached = "yes" if row["success"] else "no (proved)" if row["status"] == "impossible" else "no"
        lines.append(
            (row["group"], f"{row['members']:,}", f"{row['movers']:,}", reached, str(row["prediction"]), change)
        )
    return lined_up(lines)

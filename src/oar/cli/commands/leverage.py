"""`oar leverage`: how much a group, or a share of the people, could change at a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from oar.cli import options as given
from oar.cli.exits import clear_endings
from oar.cli.inputs.people import word
from oar.cli.inputs.problem import ProblemArguments
from oar.cli.stages import stages
from oar.cli.tables import lined, output, save_rows, tell_limits, tell_written
from oar.errors import OptionError

SHARES = "1%,5%,20%,100%"
MOST_GROUPS = 50
By = Annotated[str, typer.Option("--group", help="Ask for every group of this column of DATA.", show_default=False)]
Shares = Annotated[
    str,
    typer.Option(help=f"Ask for random shares of the people, with commas between.  [default: {SHARES}]"),
]
Out = Annotated[Path | None, typer.Option(help="File to write the table to, .csv or .json.", show_default=False)]


@given.asks
def leverage(
    asked: ProblemArguments, group: By = "", shares: Shares = "", out: Out = None, force: given.Force = False
) -> None:
    """Tell how much leverage groups have: what each could do for the query alone, all others staying as they are.

    Every line is a plan of its own, audited by a refit; "no" means that no plan was found, unless it says that it is
    proved. What a single member or feature does per unit of move, oar.questions.leverage tells in Python.
    """
    with clear_endings(), stages() as stage:
        import oar

        if group and shares:
            raise OptionError("--group: asks for groups and --shares for shares, and both were given; leave one out.")
        if asked.participants != "everyone":
            raise OptionError("--participants: are what is compared here; use --group or --shares.")
        files = output(out, force)
        stage("reading")
        rows = []
        for name, members in _contenders(asked, group, shares or SHARES):
            stage(f"planning for {name}", own_line=True)
            rows.append(_row(name, oar.collective(asked.among(members).problem)))
        save_rows(rows, files)
    typer.echo(_shown(group or "share", rows))
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
    header = (what, "members", "move", "goal reached", "prediction", "probability" if chances else "goal loss")
    lines = []
    for row in rows:
        before, after = row["loss_before"], row["loss"]
        change = f"{number(before)} → {number(after)}"
        if chances:
            change = f"{percent(row['probability_before'])} → {percent(row['probability'])}"
        reached = "yes" if row["success"] else "no (proved)" if row["status"] == "impossible" else "no"
        lines.append(
            (row["group"], f"{row['members']:,}", f"{row['movers']:,}", reached, str(row["prediction"]), change)
        )
    return lined(header, lines)

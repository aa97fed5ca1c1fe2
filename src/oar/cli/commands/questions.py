"""`oar questions`: how far, how many, and where is break-even?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from oar.cli import options as given
from oar.cli.exits import clear_endings
from oar.cli.inputs.problem import ProblemArguments
from oar.cli.stages import stages
from oar.cli.tables import output, save_rows, tell_limits, tell_written
from oar.errors import OARError

Out = Annotated[Path | None, typer.Option(help="File to write the answers to, .csv or .json.", show_default=False)]


@given.asks
def questions(asked: ProblemArguments, out: Out = None, force: given.Force = False) -> None:
    """Tell how far each must be able to go, how many must take part, and when that beats going alone.

    "At least" and "no fewer" are said only where that is proved; "at most" and "found" are what refits have shown.
    """
    with clear_endings(), stages() as stage:
        import oar

        files = output(out, force)
        stage("reading")
        problem = asked.problem
        rows = []
        for question, asking in (
            ("how far", oar.minimal_budget),
            ("how many", oar.minimal_coalition),
            ("break-even", oar.break_even),
        ):
            stage(f"{question}?", own_line=True)
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

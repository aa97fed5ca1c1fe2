"""`oar simulate`: a story over many rounds of retraining, as pictures, a table and every number behind them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from oar.cli.exits import clear_endings, progress_bar

Name = Annotated[str, typer.Argument(help="Which story: school, credit or batchnorm.", metavar="SCENARIO")]
Out = Annotated[
    Path | None,
    typer.Option(help="Folder to write to; made if it is not there.  [default: oar-SCENARIO]", show_default=False),
]
Rounds = Annotated[int | None, typer.Option(help="How many rounds: years in school and credit.", show_default=False)]
People = Annotated[
    int | None,
    typer.Option(help="How many arrive in a round; in batchnorm, how many flowers a batch has.", show_default=False),
]
Repeats = Annotated[
    int | None,
    typer.Option(help="How often it is done, with other draws; pictures show the spread.", show_default=False),
]
Share = Annotated[
    float | None, typer.Option(help="The share, from 0 to 1, of those who could act who do.", show_default=False)
]
Budget = Annotated[
    float | None,
    typer.Option(help="How far each may go: hours a week, in credit cost, in batchnorm cm.", show_default=False),
]
ModelName = Annotated[
    str | None, typer.Option("--model", help="school: softmax or nearest-centroid.", show_default=False)
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random draws.")]
Quick = Annotated[bool, typer.Option("--quick", help="Few people and rounds, in seconds; every output says so.")]
Force = Annotated[
    bool, typer.Option("--force", help="Write among other files in the folder, and over those of the same names.")
]
NoAnimation = Annotated[bool, typer.Option("--no-animation", help="Leave the GIF out.")]


def simulate(
    scenario: Name,
    out: Out = None,
    seed: Seed = 0,
    rounds: Rounds = None,
    people: People = None,
    repeats: Repeats = None,
    share: Share = None,
    budget: Budget = None,
    model: ModelName = None,
    quick: Quick = False,
    no_animation: NoAnimation = False,
    force: Force = False,
) -> None:
    """Tell a story over many rounds: people arrive, some act, the operator retrains, and again.

    school: a district's model learns a proxy for the neighbourhood, and students under-report it together. credit:
    advice that people follow, and whether it stays valid. batchnorm: members of the same test batch act on a query
    through the batch's statistics.

    Writes SCENARIO.png, SCENARIO.gif, table.csv (credit: advice.csv and applicant.csv) and results.json. They appear
    together when all is done, in less than a minute on an idle machine; an earlier run's are replaced, and other files
    there are not touched.
    """
    given = {"rounds": rounds, "people": people, "repeats": repeats, "share": share, "budget": budget, "model": model}
    with clear_endings(), progress_bar() as progress:
        from oar.report.files.outputs import staged
        from oar.report.files.replacing import finish
        from oar_stories.files import RESULTS, check_folder, files_of, write_files
        from oar_stories.index import SCENARIOS
        from oar_stories.story import scenario_called

        story = scenario_called(scenario, SCENARIOS)
        settings = story.with_settings(given, quick)
        folder = Path(f"oar-{story.name}") if out is None else out
        finish(folder, files_of(story))
        earlier = check_folder(folder, story, force)
        bar = progress.add_task("loading", total=None)
        with staged(folder, RESULTS, earlier, ours=files_of(story)) as unfinished:
            told = story.run(
                settings,
                seed,
                lambda what, done, of: progress.update(bar, description=what, completed=done, total=of),
            )
            names = write_files(unfinished, story, settings, seed, told, quick=quick, animation=not no_animation)
    typer.echo(_shown(told, folder, names, quick))


def _shown(told: Any, folder: Path, names: tuple[str, ...], quick: bool) -> str:
    """Return what is said at the end."""
    import textwrap

    from oar.cli.tables import lined

    width = min(shutil.get_terminal_size((100, 24)).columns, 110)
    said = [textwrap.fill(sentence, width) for sentence in told.summary]
    if quick:
        said = ["A quick run, of few people and rounds: numbers are rough.", *said]
    return "\n".join([lined(told.header, told.lines), "", *said, "", f"Done. Files in {folder}: {', '.join(names)}"])

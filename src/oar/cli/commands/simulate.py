"""`oar simulate`: a scenario over many rounds of retraining, as pictures, a table and every number behind them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from oar.cli.options import option
from oar.cli.terminal import clear_endings, progress_bar

Seed = Annotated[int, typer.Option(min=0, help="Seed of all random draws.")]


def simulate(
    scenario: Annotated[str, typer.Argument(help="The scenario: school, credit or batchnorm.", metavar="SCENARIO")],
    out: Annotated[
        Path | None, option(help="Output folder; made if it does not exist.  [default: oar-SCENARIO]")
    ] = None,
    seed: Seed = 0,
    rounds: Annotated[int | None, option(help="The number of rounds: years in school and credit.")] = None,
    people: Annotated[
        int | None, option(help="How many people arrive in a round; in batchnorm, the flowers in a batch.")
    ] = None,
    repeats: Annotated[
        int | None, option(help="The number of repetitions with new random draws; pictures show the spread.")
    ] = None,
    share: Annotated[float | None, option(help="The share, from 0 to 1, of those who could act that do act.")] = None,
    budget: Annotated[
        float | None, option(help="How far each may move: hours a week, in credit cost, in batchnorm cm.")
    ] = None,
    model: Annotated[str | None, option("--model", help="school: softmax or nearest-centroid.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few people and rounds, in seconds; every output says so.")
    ] = False,
    no_animation: Annotated[bool, typer.Option("--no-animation", help="Leave the GIF out.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Allow other files in the folder, and overwrite those of the same names.")
    ] = False,
) -> None:
    """Simulate many rounds: people arrive, some act, the operator retrains, and this repeats.

    school: a district's model learns a proxy for the neighbourhood, and students under-report it together. credit:
    advice that people follow, and whether it stays valid. batchnorm: members of the same test batch influence a query
    through the batch's statistics.

    Writes SCENARIO.png, SCENARIO.gif, table.csv (credit: advice.csv and applicant.csv) and results.json. They appear
    together when all is done, in less than a minute on an idle machine; an earlier run's are replaced, and other files
    there are not touched.
    """
    given = {"rounds": rounds, "people": people, "repeats": repeats, "share": share, "budget": budget, "model": model}
    with clear_endings(), progress_bar() as on_stage:
        from oar.report.files.output_folder import finish, staged
        from oar_stories.files import RESULTS, check_folder, files_of, write_files
        from oar_stories.index import SCENARIOS
        from oar_stories.story import scenario_called

        story = scenario_called(scenario, SCENARIOS)
        settings = story.with_settings(given, quick)
        folder = Path(f"oar-{story.name}") if out is None else out
        finish(folder, files_of(story))
        earlier = check_folder(folder, story, force)
        with staged(folder, RESULTS, earlier, ours=files_of(story)) as unfinished:
            told = story.run(settings, seed, on_stage)
            names = write_files(unfinished, story, settings, seed, told, quick=quick, animation=not no_animation)
    typer.echo(_shown(told, folder, names, quick))


def _shown(told: Any, folder: Path, names: tuple[str, ...], quick: bool) -> str:
    """Return what is said at the end."""
    import textwrap

    from oar.people.wording import lined_up

    width = min(shutil.get_terminal_size((100, 24)).columns, 110)
    said = [textwrap.fill(sentence, width) for sentence in told.summary]
    if quick:
        said = ["A quick run, of few people and rounds: numbers are rough.", *said]
    table = lined_up([told.header, *told.lines])
    return "\n".join([table, "", *said, "", f"Done. Files in {folder}: {', '.join(names)}"])

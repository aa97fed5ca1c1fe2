"""Everything that the paper shows, recomputed into one folder: figures, tables, and every number behind them."""

from __future__ import annotations

import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from oar.checks import need_jax
from oar.report.files.output_folder import staged
from oar.report.files.text_formats import json_text
from oar.version import __version__
from oar_paper.accuracy import accuracy_table
from oar_paper.answers import answers
from oar_paper.case import ALPHA, Case, iris_case, mnist_case
from oar_paper.comparison import compare
from oar_paper.embedding.strip import picture_strip
from oar_paper.embedding.strip_drawing import draw_picture_strip
from oar_paper.figure1 import FEATURES, figure1
from oar_paper.figure2.curves import budget_curves
from oar_paper.figure2.drawing import Figure2, draw_figure2
from oar_paper.figure2.pairs import all_pairs, choose_pairs
from oar_paper.figure2.shares import share_curves
from oar_paper.figures.recourse_map_drawing import draw_map
from oar_paper.figures.style import FORMATS, mark_quick, save_figure
from oar_paper.other_models.cases import ExtendedSettings, extended_settings
from oar_paper.other_models.drawing import draw_extended
from oar_paper.other_models.study import Extended, extended_stages, find_extended
from oar_paper.other_models.summary import extended_results, extended_section
from oar_paper.settings import ReproductionSettings, reproduction_settings
from oar_paper.summary import Findings, summary

RESULTS_FILE, SUMMARY_FILE = "results.json", "summary.md"
FIGURES = ("figure1", "figure2", "strip", "extended")
FILES = (*(f"{name}.{kind}" for name in FIGURES for kind in FORMATS), SUMMARY_FILE, RESULTS_FILE)
SCHEMA, SCHEMA_VERSION = "oar-reproduction", 1
PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "matplotlib")
STAGES = (
    "Iris: Figure 1",
    "Iris: goal loss against the budget",
    "Iris: all ordered pairs",
    "Iris: participation",
    "MNIST: goal loss against the budget",
    "MNIST: all ordered pairs",
    "MNIST: participation",
    "accuracy, questions, pictures",
    "drawing",
)

OnStage = Callable[[str, int, int], None]


def reproduce(
    out: str | Path,
    *,
    quick: bool = False,
    seed: int = 0,
    extended: bool = False,
    on_stage: OnStage | None = None,
) -> Path:
    """Recompute the paper's figures and tables, and more; return the folder.

    Writes `figure1`, `figure2` and `strip` (each as .png, .svg and .pdf), `summary.md` for people, and `results.json`
    with every number behind them. Nothing appears in `out` before everything is done, and figures of an older run that
    this one does not draw again go with its `results.json`. The same seed gives the same `results.json`.

    Args:
        out: the folder to write to; made if it is not there, and tried before anything is computed.
        quick: coarse grids and few pairs, in seconds; every output says so.
        seed: of all random draws.
        extended: also ask Figure 2's question of every other model (`extended.png`, .svg, .pdf; needs JAX, and takes
            minutes).
        on_stage: called as `on_stage(what, done, of)` before every stage and once at the end.
    """
    settings, more = reproduction_settings(quick, seed), extended_settings(quick, seed) if extended else None
    extra = [f"extended.{kind}" for kind in FORMATS]
    with staged(Path(out), last=RESULTS_FILE, others=extra, ours=FILES) as folder:
        write_all(folder, settings, on_stage, more)
    return Path(out)


def write_all(
    folder: Path,
    settings: ReproductionSettings,
    on_stage: OnStage | None = None,
    extended: ExtendedSettings | None = None,
) -> None:
    """Compute everything, then write all files into the folder; the other models too where these have settings."""
    if extended is None:
        findings, beyond = find(settings, on_stage), None
    else:
        findings, beyond, on_stage = _find_more(settings, extended, on_stage)
    _announce(on_stage, len(STAGES) - 1)
    _draw(findings, folder, beyond)
    text, numbers = summary(findings), results(findings)
    if beyond is not None:
        text, numbers = f"{text}\n{extended_section(beyond)}\n", numbers | {"extended": extended_results(beyond)}
    (folder / SUMMARY_FILE).write_text(text, encoding="utf-8")
    (folder / RESULTS_FILE).write_text(json_text(numbers), encoding="utf-8")
    _announce(on_stage, len(STAGES))


def _find_more(
    settings: ReproductionSettings, more: ExtendedSettings, on_stage: OnStage | None
) -> tuple[Findings, Extended, OnStage | None]:
    """Compute everything and the other models; return with it a callback that counts their stages too."""
    need_jax("oar reproduce --extended")
    stages = extended_stages(more)
    if on_stage is None:
        return find(settings), find_extended(more), None
    tell, first, of = on_stage, len(STAGES) - 1, len(STAGES) + len(stages)
    findings = find(settings, lambda what, done, _: tell(what, done, of))
    beyond = find_extended(more, lambda number: tell(stages[number], first + number, of))
    return findings, beyond, lambda what, done, _: tell(what, done + len(stages), of)


def find(settings: ReproductionSettings, on_stage: OnStage | None = None) -> Findings:
    """Compute everything that the figures, the tables and the summary show."""
    iris, mnist = iris_case(), mnist_case()
    _announce(on_stage, 0)
    first = figure1(settings.figure1_draws, settings.seed)
    second = {
        "iris": _figure2(iris, settings, on_stage, 1),
        "mnist": _figure2(mnist, settings, on_stage, 4),
    }
    _announce(on_stage, 7)
    return Findings(
        settings=settings,
        figure1=first,
        figure2=second,
        comparison={name: compare(data.curves, data.pairs) for name, data in second.items()},
        accuracy=accuracy_table(iris.dataset, mnist.dataset),
        questions={"iris": answers(iris), "mnist": answers(mnist)},
        strip=picture_strip(mnist, settings.seed),
        class_names={"iris": iris.dataset.class_names, "mnist": mnist.dataset.class_names},
    )


def _figure2(case: Case, settings: ReproductionSettings, on_stage: OnStage | None, stage: int) -> Figure2:
    on_iris = case.dataset.name == "iris"
    budgets = settings.iris_budgets if on_iris else settings.mnist_budgets
    cells = settings.iris_audited_cells if on_iris else settings.mnist_audited_cells
    chosen = choose_pairs(case, None if on_iris else settings.mnist_pairs, settings.seed)
    _announce(on_stage, stage)
    curves = budget_curves(case, budgets)
    _announce(on_stage, stage + 1)
    pairs = all_pairs(case, chosen, budgets, cells, settings.seed)
    _announce(on_stage, stage + 2)
    shares = share_curves(case, chosen, settings.shares, settings.seed)
    return Figure2(case.title, len(case.people.classes), curves, pairs, shares)


def _announce(on_stage: OnStage | None, done: int) -> None:
    if on_stage is not None:
        on_stage(STAGES[done] if done < len(STAGES) else "done", done, len(STAGES))


def _draw(findings: Findings, folder: Path, beyond: Extended | None) -> None:
    figures = {
        "figure1": draw_map(findings.figure1.picture, FEATURES, findings.class_names["iris"]),
        "figure2": draw_figure2(list(findings.figure2.values())),
        "strip": draw_picture_strip(findings.strip, findings.class_names["mnist"]),
    }
    if beyond is not None:
        figures["extended"] = draw_extended(beyond)
    for name, figure in figures.items():
        if findings.settings.quick:
            mark_quick(figure)
        save_figure(figure, folder, name)


def results(findings: Findings) -> dict[str, Any]:
    """Return what `results.json` holds. Nothing in it depends on the time or the place of the run."""
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "oar": __version__,
        "python": platform.python_version(),
        "packages": {package: version(package) for package in PACKAGES},
        "quick": findings.settings.quick,
        "seed": findings.settings.seed,
        "settings": findings.settings,
        "alpha": ALPHA,
        "class_names": findings.class_names,
        "figure1": findings.figure1,
        "figure2": findings.figure2,
        "comparison": findings.comparison,
        "accuracy": findings.accuracy,
        "questions": findings.questions,
        "strip": findings.strip,
    }

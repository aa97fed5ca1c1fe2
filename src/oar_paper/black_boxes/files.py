"""The study of models seen from outside as files: computed, then written, all or nothing."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

from oar.checks import need_jax
from oar.errors import OptionError
from oar.report.files.output_folder import staged
from oar.report.files.text_formats import json_text
from oar_paper.black_boxes.drawing import draw_outside
from oar_paper.black_boxes.study import OutsideSettings, find_outside, outside_stages
from oar_paper.black_boxes.summary import outside_csv, outside_results, outside_summary
from oar_paper.figures.style import FORMATS, mark_quick, save_figure

OnStage = Callable[[str, int, int], None]
RESULTS_FILE = "results.json"
FILES = (*(f"outside.{kind}" for kind in FORMATS), "summary.md", "table.csv", RESULTS_FILE)


def study_outside(out: str | Path, settings: OutsideSettings, on_stage: OnStage | None = None) -> Path:
    """Plan and audit everything, then write `summary.md`, `table.csv`, `outside` (.png, .svg, .pdf) and `results.json`.

    Nothing appears in `out` before everything is done. The same settings give the same `results.json`.

    Args:
        out: the folder to write to; made if it is not there, and tried before anything is computed.
        settings: from `outside_settings`.
        on_stage: called as `on_stage(what, done, of)` before every model and once at the end.
    """
    need_jax("oar outside")
    if importlib.util.find_spec("xgboost") is None:
        raise OptionError("xgboost: oar outside studies it, and it is not installed; pip install xgboost.")
    stages = outside_stages(settings)

    def announce(done: int) -> None:
        if on_stage is not None:
            on_stage(stages[done] if done < len(stages) else "done", done, len(stages))

    with staged(Path(out), last=RESULTS_FILE, ours=FILES) as folder:
        found = find_outside(settings, announce)
        announce(len(stages))
        figure = draw_outside(found)
        if settings.quick:
            mark_quick(figure)
        save_figure(figure, folder, "outside")
        (folder / "summary.md").write_text(outside_summary(found), encoding="utf-8")
        (folder / "table.csv").write_text(outside_csv(found), encoding="utf-8")
        (folder / RESULTS_FILE).write_text(json_text(outside_results(found)), encoding="utf-8")
    return Path(out)

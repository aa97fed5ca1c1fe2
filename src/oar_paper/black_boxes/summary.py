"""The study of models seen from outside, in words and numbers: a page, a table and a file of results."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import numpy as np

from oar.people.tables.spreadsheet import neutral
from oar.report.files.text_formats import markdown_table
from oar.version import __version__
from oar_paper.black_boxes.cases import SHARE
from oar_paper.black_boxes.study import WAYS, Cell, Outside

SCHEMA_VERSION = 1
PACKAGES = ("numpy", "scikit-learn", "xgboost-cpu", "cma")


def outside_results(found: Outside) -> dict[str, Any]:
    """Return what `results.json` holds."""
    settings = asdict(found.settings)
    return {
        "schema": "oar-outside",
        "schema_version": SCHEMA_VERSION,
        "oar": __version__,
        "packages": {name: _version(name) for name in PACKAGES},
        "settings": settings | {"adult": found.settings.adult is not None},  # where it lay is nobody's business
        "titles": found.titles,
        "attempts": found.attempts,
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except ModuleNotFoundError:
        return None


def outside_csv(found: Outside) -> str:
    """Return every attempt as a row."""
    text = io.StringIO()
    rows = [asdict(one) for one in found.attempts]
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows({name: neutral(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def outside_summary(found: Outside) -> str:
    """Return the Markdown page."""
    settings = found.settings
    quick = "> **QUICK RUN.** Few people, one query a data set, few trainings.\n\n" if settings.quick else ""
    return f"""# Models seen from outside

{quick}{settings.size:,} people of each data set are trained on; {settings.queries} others ask, one at a time. Of the
tables {100 * SHARE:.0f} % take part, drawn at random, each by 1 (standard deviation, flip or switch) within the limits
that ship with them; of MNIST everyone does, each by 0.5. Searches may train the operator's model {settings.refits}
times to plan; audits come on top, and judge random training by {settings.audits} refits.

![What is left of a collective's power](outside.png)

Goal loss before any move, and its mean after each plan, as audited; in brackets how many of {settings.queries} get
their goal (before: how many have it already).

{outside_table(found)}

Share of the white box's fall in goal loss that is left, where the model has a white box:

{kept_table(found)}

{_said(found)}
"""


def outside_table(found: Outside) -> str:
    """Return goal losses and successes: one row a model and data set."""
    rows = []
    for cell in found.cells:
        before = _mean([one.before for tried in cell.attempts.values() for one in tried])
        rows.append(
            [
                found.titles[cell.data],
                found.titles[cell.model],
                f"{before:.2f} ({cell.already})",
                *(_shown(cell, way) for way in WAYS),
            ]
        )
    return markdown_table(["data", "model", "before", *WAYS], rows)


def _shown(cell: Cell, way: str) -> str:
    tried = cell.attempts.get(way)
    if tried is None:
        return "–"
    after = _mean([one.after for one in tried])
    return "no plan" if np.isnan(after) else f"{after:.2f} ({cell.successes(way)})"


def kept_table(found: Outside) -> str:
    """Return shares of the white box's fall: one row a model and data set that has one."""
    ways = WAYS[1:]
    rows = [
        [found.titles[cell.data], found.titles[cell.model], *(_percent(cell.kept(way)) for way in ways)]
        for cell in found.cells
        if "white box" in cell.attempts
    ]
    return markdown_table(["data", "model", *ways], rows)


def _percent(share: float) -> str:
    return "–" if np.isnan(share) else f"{100 * share:.0f} %"


def _mean(values: list[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else np.nan


def _said(found: Outside) -> str:
    """Say what came out over all data sets, model by model."""
    lines = []
    for model in dict.fromkeys(cell.model for cell in found.cells):
        cells = [cell for cell in found.cells if cell.model == model]
        asked = sum(len(next(iter(cell.attempts.values()))) for cell in cells)
        counts = {way: sum(cell.successes(way) for cell in cells if way in cell.attempts) for way in WAYS}
        told = ", ".join(f"{way} {counts[way]}" for way in WAYS if any(way in cell.attempts for cell in cells))
        lines.append(f"* {found.titles[model]}: of {asked} who ask, get their goal by {told}.")
    failures = {one.failure for one in found.attempts if one.failure}
    lines += [f"* Without a plan: {failure}" for failure in sorted(failures)]
    return "\n".join(lines)

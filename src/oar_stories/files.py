"""A scenario as files: a still, a film, its tables, and results.json with every number behind them."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.errors import StorageError
from oar.opening import read_json
from oar.people.tables.spreadsheet import neutral
from oar.version import __version__
from oar_stories.story import Scenario, Told

if TYPE_CHECKING:
    from oar.pictures.figures import Figure

FORMAT = "oar-scenario"
TABLE, RESULTS = "table.csv", "results.json"
HIDDEN = "."
STILL_DOTS, FILM_DOTS = 130, 100  # an inch
COLOURS = 64  # of a film, for a small file


def files_of(scenario: Scenario, animation: bool = True) -> tuple[str, ...]:
    """Return the names of the files that a scenario writes; the one that is put in place last is last."""
    film = (f"{scenario.name}.gif",) if animation else ()
    return (f"{scenario.name}.png", *film, *(_tables(scenario) or (TABLE,)), RESULTS)


def _tables(scenario: Scenario) -> tuple[str, ...]:
    return tuple(f"{part}.csv" for part in scenario.parts)


def tables_of(scenario: Scenario, rows: Sequence[Mapping[str, Any]], quick: bool) -> dict[str, str]:
    """Return the text of every table by its file: of a part, the columns that something is known in."""
    if quick:
        rows = [{**row, "quick": True} for row in rows]
    if not scenario.parts:
        return {TABLE: csv_text(rows)}
    found = {}
    for part, name in zip(scenario.parts, _tables(scenario), strict=True):
        some = [row for row in rows if row["part"] == part]
        has = [column for column in some[0] if column != "part" and any(row[column] is not None for row in some)]
        found[name] = csv_text([{column: row[column] for column in has} for row in some])
    return found


def write_files(
    folder: Path, scenario: Scenario, settings: Any, seed: int, told: Told, *, quick: bool, animation: bool
) -> tuple[str, ...]:
    """Write the still, the film, the tables and results.json; return their names."""
    names = files_of(scenario, animation)
    figure = told.still()
    mark(figure, quick)
    figure.savefig(folder / f"{scenario.name}.png", dpi=STILL_DOTS)
    if animation:
        write_film(folder / f"{scenario.name}.gif", told, quick)
    for name, text in tables_of(scenario, told.rows, quick).items():
        (folder / name).write_text(text, encoding="utf-8")
    content = {
        "format": FORMAT,
        "scenario": scenario.name,
        "version": __version__,
        "seed": seed,
        "quick": quick,
        "settings": asdict(settings),
        "summary": list(told.summary),
        **told.facts,
        "files": list(names),
    }
    (folder / RESULTS).write_text(
        json.dumps(plain(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
    )
    return names


def write_film(path: Path, told: Told, quick: bool) -> None:
    """Draw all frames as a GIF, with the colours of the first and the last, and a longer look at the last."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    frames = []
    for number in range(told.frames):
        figure = told.film(number)
        mark(figure, quick)
        figure.set_dpi(FILM_DOTS)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        frames.append(Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3]))
    both = Image.fromarray(np.concatenate([np.asarray(frames[0]), np.asarray(frames[-1])]))
    palette = both.quantize(COLOURS)
    reduced = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    pauses = [told.pace] * (told.frames - 1) + [3 * told.pace]
    reduced[0].save(path, save_all=True, append_images=reduced[1:], duration=pauses, loop=0, optimize=True)


def mark(figure: Figure, quick: bool) -> None:
    """Say on a picture that it is of a quick run."""
    if quick:
        figure.text(
            0.995, 0.005, "quick run: few people and years", ha="right", va="bottom", fontsize=8, color="#6B6B6B"
        )


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table as CSV; numbers with all their digits, gaps for what is not known, and no formulas."""
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: "" if value is None else neutral(value) for key, value in plain(row).items()})
    return file.getvalue()


def plain(value: Any) -> Any:
    """Return values as JSON has them; what is not a finite number becomes None."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(each) for each in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value


def check_folder(out: Path, scenario: Scenario, force: bool) -> list[str]:
    """Return which files in a folder an earlier run wrote: these may be replaced, or removed.

    Raises:
        StorageError: for a folder with other files, or with another scenario's; not with `force`.
    """
    if not os.path.isdir(out):
        return []
    earlier = _written(out / RESULTS, scenario)
    there = sorted(path.name for path in out.iterdir() if not path.name.startswith(HIDDEN))
    mine = files_of(scenario)
    others = [name for name in there if name not in earlier and (name in mine or not earlier)]
    if others and not force:
        raise StorageError(
            f"out: {out} holds other files ({others[0]}{', …' if len(others) > 1 else ''}); choose another folder, or "
            "add --force to write among them, and over those that have the same names."
        )
    return [name for name in there if name in earlier]


def _written(path: Path, scenario: Scenario) -> list[str]:
    """Return the files that a results.json says it was written with; none where it is not this scenario's."""
    try:
        content = read_json(path)
        mine = content["format"] == FORMAT and content["scenario"] == scenario.name
        return [name for name in files_of(scenario) if mine and name in content["files"]]
    except (StorageError, KeyError, TypeError):
        return []

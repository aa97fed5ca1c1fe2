"""Figures: the same bytes for the same data, and no trace in matplotlib's settings."""

import re
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from oar.pictures import charts
from oar.pictures.colours import CLASS_COLOURS, CLASS_MARKERS
from oar_paper.figures.curves import draw_flip, draw_line, draw_spread, spread
from oar_paper.figures.image_strip import draw_strip
from oar_paper.figures.style import FORMATS, LINES, mark_quick, save_figure, styled


def small_figure():
    with styled():
        figure = Figure(figsize=(2, 2), layout="constrained")
        axes = figure.subplots()
        places = np.linspace(0, 1, 5)
        for way in LINES:
            draw_line(axes, places, places**2, way)
            draw_flip(axes, 0.5, 0.25, way)
        draw_spread(axes, places, spread(np.outer([1, 2, 3], places)), "#000000")
        axes.set_xlabel(r"budget $\epsilon$")
    return figure


def test_same_data_same_bytes(tmp_path):
    for run in ("one", "two"):
        assert save_figure(small_figure(), tmp_path / run, "f") == [f"f.{kind}" for kind in FORMATS]
    for kind in FORMATS:
        first, second = ((tmp_path / run / f"f.{kind}").read_bytes() for run in ("one", "two"))
        assert len(first) > 1_000
        assert first == second


def test_other_data_other_bytes(tmp_path):
    figure = small_figure()
    save_figure(figure, tmp_path, "f")
    plain = (tmp_path / "f.png").read_bytes()
    mark_quick(figure)
    save_figure(figure, tmp_path, "f")
    assert (tmp_path / "f.png").read_bytes() != plain
    assert any(text.get_text() == "QUICK RUN" for text in figure.findobj(Text))


def test_the_users_settings_are_neither_used_nor_changed(tmp_path):
    save_figure(small_figure(), tmp_path, "plain")
    with matplotlib.rc_context({"font.size": 31.0, "savefig.dpi": 7, "axes.facecolor": "red"}):
        before = dict(matplotlib.rcParams)
        save_figure(small_figure(), tmp_path, "other")
        assert dict(matplotlib.rcParams) == before
    assert (tmp_path / "plain.png").read_bytes() == (tmp_path / "other.png").read_bytes()


def test_pyplot_is_never_imported():
    code = "import sys, oar_paper.reproduce; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_meaning_never_rests_on_colour_alone():
    assert len(set(CLASS_MARKERS)) == len(CLASS_COLOURS)
    assert len({str(line.dashes) for line in LINES.values()}) == len(LINES)
    assert len({line.marker for line in LINES.values()}) == len(LINES)


@pytest.mark.parametrize("columns", [1, 4])
def test_a_strip_has_three_rows_and_one_scale_of_differences(columns):
    rng = np.random.default_rng(0)
    before, after = rng.random((2, columns, 28, 28))
    figure = draw_strip(
        before, after, ["x"] * columns, before[0], "q", (np.array([0.4, 0.6]), np.array([0.9, 0.1])), "ab", "t"
    )
    pictures = [image for axes in figure.findobj(match=lambda part: hasattr(part, "images")) for image in axes.images]
    differences = [image for image in pictures if image.get_cmap().name == "RdBu_r"]
    assert len(differences) == columns
    largest = np.abs(after - before).max()
    for column, image in enumerate(differences):
        np.testing.assert_array_equal(image.get_array(), after[column] - before[column])
        assert image.get_clim() == pytest.approx((-largest, largest))


def test_notes_behind_bars_are_not_cut_off():
    """The longest bar has the longest note, with as many people and as much effort as 150,000 applicants give."""
    notes = ["effort 59,123.45, 119,116 people", "effort 3, 7 people"]
    drawn = str(charts.bars(["income", "age"], [59_123.45, 3.0], notes, "effort by column"))
    ends = [
        float(x) + charts.LETTER * len(note)
        for x, note in re.findall(r'x="([0-9.]+)"[^>]*>(effort [^<]*)</text>', drawn)
    ]
    assert len(ends) == 2
    assert max(ends) <= charts.WIDTH + 1e-6

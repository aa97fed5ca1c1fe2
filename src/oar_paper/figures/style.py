"""The look of every figure, and saving that gives the same bytes for the same data.

Colours are Okabe & Ito's, which people with any common colour blindness can tell apart. Colour never carries a
meaning alone: classes also differ by marker, ways of recourse also by line.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from oar.files import replace_atomically
from oar.pictures.colours import BLUE, GREEN, VERMILLION

FORMATS = ("png", "svg", "pdf")


@dataclass(frozen=True)
class Line:
    """The line style of one kind of recourse."""

    label: str
    colour: str
    dashes: Any
    marker: str
    width: float = 1.8


LINES = {
    "individual": Line("individual", VERMILLION, (0, (5, 1.8)), "s"),
    "collective": Line("collective", BLUE, "-", "o"),
    "joint": Line("joint (both move)", GREEN, (0, (5, 1.4, 1, 1.4)), "D"),
}

_SETTINGS: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "mathtext.fontset": "dejavusans",
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.0,
    "axes.linewidth": 0.7,
    "axes.edgecolor": "#444444",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "hatch.linewidth": 0.5,
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    # Element names in SVG files are hashes; a fixed salt makes them the same in every run.
    "svg.hashsalt": "oar",
}
_NO_DATES: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw with this look inside the block; matplotlib's own settings are as before afterwards."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield


def save_figure(figure: Figure, folder: Path, name: str) -> list[str]:
    """Write the figure as `name`.png, .svg and .pdf, without dates; return the file names."""
    names = []
    with styled():
        _lay_out(figure)
        for kind in FORMATS:
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, metadata=_NO_DATES[kind])
            names.append(f"{name}.{kind}")
            with replace_atomically(folder / names[-1]) as file:
                file.write(buffer.getvalue())
    return names


def _lay_out(figure: Figure) -> None:
    """Lay the figure out once, not once a format: faster, and all formats look the same.

    The layout's solver is not repeatable to the last bit, and SVG files name elements by their exact places, so
    places are rounded.
    """
    if figure.get_layout_engine() is None:
        return
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(value, 6) for value in axes.get_position(original=True).bounds)
        axes.set_position((left, bottom, width, height))


def mark_quick(figure: Figure) -> None:
    """Write "QUICK RUN" across the figure, faintly enough that all else stays readable."""
    width, height = figure.get_size_inches()
    with styled():
        figure.text(
            0.5,
            0.5,
            "QUICK RUN",
            rotation=math.degrees(math.atan2(height, width)),
            fontsize=10 * min(width, height),
            fontweight="bold",
            color=VERMILLION,
            alpha=0.16,
            ha="center",
            va="center",
            zorder=100,
            in_layout=False,
        )

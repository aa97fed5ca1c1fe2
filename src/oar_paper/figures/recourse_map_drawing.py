"""Draw a `RecourseMap`: the individual's move on the left, everybody's moves and the refitted model on the right.

Labels are put where they cover as little as possible; all places are in the units of the axes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyArrowPatch, Patch, Polygon
from numpy.typing import NDArray

from oar.pictures.colours import BLACK, CLASS_COLOURS, CLASS_MARKERS, GREEN, GREY, VERMILLION
from oar_paper.figures.recourse_map import AuditOutcome, RecourseMap
from oar_paper.figures.style import styled
from oar_paper.figures.voronoi_cells import cell_boundaries, cell_polygons

Array = NDArray[np.float64]
GHOST = 0.35
STAR: dict[str, Any] = {
    "marker": "*",
    "markersize": 15,
    "markeredgecolor": "white",
    "markeredgewidth": 0.9,
    "linestyle": "none",
}
_ANGLES = np.arange(24) * np.pi / 12


def draw_map(data: RecourseMap, feature_names: Sequence[str], class_names: Sequence[str]) -> Figure:
    """Return the two-panel figure; `class_names` are shown beside the numbers 1, 2, … of the classes."""
    with styled():
        low, high = _box(data)
        # With equal aspect the panels' height follows from their width; the rest is titles, labels and legend.
        figure = Figure(figsize=(10.6, 4.9 * (high - low)[1] / (high - low)[0] + 1.9), layout="constrained")
        left, right = figure.subplots(1, 2, sharex=True, sharey=True)
        for axes in (left, right):
            axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal", xlabel=feature_names[0])
            axes.tick_params(length=2.5)
            axes.spines[:].set_visible(True)
        left.set_ylabel(feature_names[1])
        _draw_individual(left, data, low, high)
        _draw_collective(right, data, low, high)
        figure.legend(
            handles=_legend(data, class_names), loc="outside lower center", ncols=4, columnspacing=1.8, handlelength=1.6
        )
    return figure


def _draw_individual(axes: Axes, data: RecourseMap, low: Array, high: Array) -> None:
    moved = data.query + data.query_move
    _regions(axes, data, data.centroids, low, high)
    _members(axes, data, data.features)
    _centroids(axes, data.centroids)
    way = along(data.query, moved, 9)
    lines = [along(segment[0], segment[1], 60) for segment in cell_boundaries(data.centroids, low, high)]
    busy = np.vstack([data.features, data.centroids, way, *lines])
    busy = np.vstack([busy, _ball(axes, data, busy, low, high)])
    _arrow(axes, data.query, moved, BLACK, 1.5)
    axes.plot(*data.query, color=BLACK, zorder=8, **STAR)
    axes.plot(*moved, color="white", zorder=8, **{**STAR, "markeredgecolor": BLACK})
    labels = [(data.query, r"$x_\dagger$"), (moved, r"$x_\dagger + \delta$")]
    busy = _labels(axes, labels + _centroid_labels(data.centroids), busy, low, high)
    _region_names(axes, data, data.centroids, np.vstack([busy, circle(data.query, data.budget)]), low, high)
    _headline(axes, "Individual: the query moves, the model stays", r"$\Vert\delta\Vert$", data, data.alone)


def _draw_collective(axes: Axes, data: RecourseMap, low: Array, high: Array) -> None:
    moved = data.features + data.moves
    _regions(axes, data, data.centroids_after, low, high)
    for segment in cell_boundaries(data.centroids, low, high):
        axes.plot(*segment.T, color=GREY, linewidth=1.0, dashes=(4, 3), zorder=2)
    _members(axes, data, data.features, ghosts=True)
    for start, end, code in zip(data.features, moved, data.codes, strict=True):
        _arrow(axes, start, end, CLASS_COLOURS[code], 0.9)
    _members(axes, data, moved)
    _centroids(axes, data.centroids, ghosts=True)
    for start, end in zip(data.centroids, data.centroids_after, strict=True):
        _arrow(axes, start, end, BLACK, 1.3)
    _centroids(axes, data.centroids_after)
    axes.plot(*data.query, color=BLACK, zorder=8, **STAR)
    busy = np.vstack([data.query, *(along(ends[0], ends[1], 5) for ends in _ways(data))])
    busy = _labels(axes, [(data.query, r"$x_\dagger$"), *_centroid_labels(data.centroids_after)], busy, low, high)
    _region_names(axes, data, data.centroids_after, busy, low, high)
    title = f"Collective: {len(data.features)} subjects move, the model is refitted"
    _headline(axes, title, r"all $\Vert\delta_i\Vert$", data, data.together)


def _ways(data: RecourseMap) -> list[Array]:
    """Return start and end (2, 2) of every member's and every centroid's way."""
    starts = np.vstack([data.features, data.centroids])
    return list(np.stack([starts, np.vstack([data.features + data.moves, data.centroids_after])], axis=1))


def _epsilon(data: RecourseMap) -> str:
    return rf"$\epsilon = {data.budget:.2f}$"


def _centroid_labels(centroids: Array) -> list[tuple[Array, str]]:
    return [(centroid, rf"$\mu_{code + 1}$") for code, centroid in enumerate(centroids)]


def _box(data: RecourseMap) -> tuple[Array, Array]:
    """Return a box around everything drawn in either panel, so that both have the same scale."""
    shown = np.vstack([data.features, data.features + data.moves, circle(data.query, data.budget)])
    pad = 0.06 * (shown.max(axis=0) - shown.min(axis=0)).max()
    return shown.min(axis=0) - pad, shown.max(axis=0) + pad


def _regions(axes: Axes, data: RecourseMap, centroids: Array, low: Array, high: Array) -> None:
    for code, polygon in enumerate(cell_polygons(centroids, low, high)):
        goal = code == data.goal
        axes.add_patch(
            Polygon(polygon, facecolor=CLASS_COLOURS[code], alpha=0.26 if goal else 0.09, edgecolor="none", zorder=0)
        )
    for segment in cell_boundaries(centroids, low, high):
        axes.plot(*segment.T, color="#222222", linewidth=1.2, zorder=2)


def _members(axes: Axes, data: RecourseMap, points: Array, ghosts: bool = False) -> None:
    for code in range(len(data.classes)):
        own = points[data.codes == code]
        axes.plot(
            *own.T,
            linestyle="none",
            marker=CLASS_MARKERS[code],
            markersize=6.5,
            markerfacecolor="none" if ghosts else CLASS_COLOURS[code],
            markeredgecolor=CLASS_COLOURS[code] if ghosts else "white",
            markeredgewidth=0.8 if ghosts else 0.7,
            alpha=GHOST if ghosts else 1.0,
            zorder=3 if ghosts else 5,
        )


def _centroids(axes: Axes, centroids: Array, ghosts: bool = False) -> None:
    for code, centroid in enumerate(centroids):
        axes.plot(
            *centroid,
            marker=CLASS_MARKERS[code],
            markersize=12.5,
            markerfacecolor="white" if ghosts else CLASS_COLOURS[code],
            markeredgecolor=GREY if ghosts else BLACK,
            markeredgewidth=1.0 if ghosts else 1.5,
            alpha=0.75 if ghosts else 1.0,
            zorder=6 if ghosts else 7,
        )


def _ball(axes: Axes, data: RecourseMap, busy: Array, low: Array, high: Array) -> Array:
    """Draw all that the query can reach, and one radius with its length; return where that is written."""
    axes.add_patch(Circle(tuple(data.query), data.budget, facecolor="white", alpha=0.45, edgecolor="none", zorder=1))
    axes.add_patch(
        Circle(tuple(data.query), data.budget, fill=False, edgecolor=BLACK, linewidth=1.0, linestyle=":", zorder=4)
    )
    written = radius_end(data.query, data.budget, 0.14 * (high - low)[0], busy, low, high)
    axes.plot(*np.stack([data.query, written[0]]).T, color=BLACK, linewidth=0.8, linestyle=":", zorder=4)
    shift: Any = {"xytext": (6, 0), "textcoords": "offset points", "va": "center"}
    axes.annotate(_epsilon(data), tuple(written[0]), fontsize=10.5, zorder=9, **shift)
    return written


def _arrow(axes: Axes, start: Array, end: Array, colour: str, width: float) -> None:
    if np.allclose(start, end):
        return
    axes.add_patch(
        FancyArrowPatch(
            tuple(start),
            tuple(end),
            arrowstyle="-|>",
            mutation_scale=8 if width > 1 else 6,
            shrinkA=0,
            shrinkB=3.5 if width < 1 else 6,
            color=colour,
            linewidth=width,
            alpha=0.85,
            zorder=4 if width < 1 else 6.5,
        )
    )


def _labels(axes: Axes, labels: list[tuple[Array, str]], busy: Array, low: Array, high: Array) -> Array:
    """Write each label beside its place; return everything that is busy then."""
    for place, text in labels:
        letters = len(re.sub(r"\\\w+", "x", text).strip("$").replace(" ", ""))
        covered = beside(place, 0.0068 * letters * (high - low)[0], busy, low, high)
        busy = np.vstack([busy, covered])
        axes.text(
            covered[2, 0],
            covered[2, 1],
            text,
            fontsize=10.5,
            ha="center",
            va="center",
            zorder=9,
            bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "alpha": 0.7, "edgecolor": "none"},
        )
    return busy


def _region_names(axes: Axes, data: RecourseMap, centroids: Array, busy: Array, low: Array, high: Array) -> None:
    """Write each region's prediction at the emptiest place inside it."""
    for code in range(len(centroids)):
        place = emptiest_place(centroids, code, busy, low, high)
        if place is None:
            continue
        goal = "\n(goal)" if code == data.goal else ""
        axes.text(
            place[0],
            place[1],
            rf"$\hat Y = {code + 1}$" + goal,
            color=_darker(CLASS_COLOURS[code]),
            fontsize=11.5,
            ha="center",
            va="center",
            zorder=3,
        )


def _darker(colour: str) -> tuple[float, ...]:
    return tuple(0.68 * part for part in to_rgb(colour))


def _headline(axes: Axes, title: str, moves: str, data: RecourseMap, outcome: AuditOutcome) -> None:
    was, now = (data.classes.index(label) + 1 for label in (data.before.prediction, outcome.prediction))
    verdict = "\u2713 goal reached" if outcome.success else "\u2717 goal not reached"
    colour = _darker(GREEN) if outcome.success else VERMILLION
    axes.set_title(title, loc="left", fontweight="bold", pad=21)
    axes.set_title(verdict, loc="right", fontweight="bold", pad=21, color=colour)
    axes.text(
        0.0,
        1.015,
        rf"{moves} $\leq$ {_epsilon(data)};  prediction {was} $\rightarrow$ {now};  "
        rf"goal loss {data.before.loss:.2f} $\rightarrow$ {outcome.loss:.2f}",
        transform=axes.transAxes,
        va="bottom",
    )


def _legend(data: RecourseMap, class_names: Sequence[str]) -> list[Any]:
    def handle(label: str, **look: Any) -> Line2D:
        return Line2D([], [], **{"linestyle": "none", "color": BLACK, "label": label, **look})

    people = [
        handle(
            f"data subject, class {code + 1} ({class_names[code]})",
            marker=CLASS_MARKERS[code],
            color=CLASS_COLOURS[code],
            markersize=6.5,
        )
        for code in range(len(data.classes))
    ]
    return [
        *people,
        handle(r"centroids $\mu_k$", marker="o", markerfacecolor=GREY, markeredgewidth=1.5, markersize=10),
        handle(r"query $x_\dagger$", marker="*", markersize=13),
        handle(r"query after its move, $x_\dagger+\delta$", marker="*", markersize=13, markerfacecolor="white"),
        handle("before the moves", marker="o", markerfacecolor="none", markeredgecolor=GREY, markersize=7),
        handle("move", marker=r"$\longrightarrow$", markersize=16, color=GREY),
        Patch(facecolor=CLASS_COLOURS[data.goal], alpha=0.35, label="goal region"),
        handle("decision boundary", linestyle="-", linewidth=1.1, color="#333333"),
        handle("boundary before the refit", linestyle=(0, (4, 3)), linewidth=0.9, color=GREY),
        handle(rf"all moves within $\epsilon = {data.budget:.2f}$", linestyle=":", linewidth=1.0),
    ]


def direction(angle: float) -> Array:
    """Return the unit vector at this angle."""
    return np.array([np.cos(angle), np.sin(angle)])


def along(start: Array, end: Array, count: int) -> Array:
    """Return places (count, 2) on the way from start to end, both included."""
    return start + np.linspace(0.0, 1.0, count)[:, None] * (end - start)


def circle(centre: Array, radius: float) -> Array:
    """Return places (24, 2) on a circle."""
    return np.array([centre + radius * direction(angle) for angle in _ANGLES])


def beside(place: Array, half_width: float, busy: Array, low: Array, high: Array) -> Array:
    """Return the row of places (5, 2) that a label beside `place` should cover; its middle is the label's centre.

    Of many directions take the one that stays farthest from everything busy, inside the box from `low` to `high`.
    Labels are wider than high, so sideways they stand farther off.
    """
    unit = (high - low)[0]
    reach = np.array([half_width + 0.03 * unit, 0.055 * unit])
    spots = np.array([place + far * reach * direction(angle) for far in (1.0, 1.25) for angle in _ANGLES])
    return _clearest(spots[:, None] + np.outer(np.linspace(-1, 1, 5), [half_width, 0.0]), busy, low, high)


def radius_end(centre: Array, radius: float, width: float, busy: Array, low: Array, high: Array) -> Array:
    """Return places (6, 2): the end of a radius to the right, and what a label of this width would cover from there."""
    edges = np.array([centre + radius * direction(angle) for angle in np.linspace(-0.8, 0.8, 17)])
    return _clearest(edges[:, None] + np.outer(np.linspace(0.0, 1.1, 6), [width, 0.0]), busy, low, high)


def _clearest(covered: Array, busy: Array, low: Array, high: Array) -> Array:
    """Return the candidate (of c × m places) that is farthest from everything busy and inside the box if any is."""
    room = np.minimum(covered - low, high - covered).min(axis=(1, 2)) - 0.01 * (high - low)[0]
    clearance = np.linalg.norm(covered[:, :, None] - busy, axis=3).min(axis=(1, 2))
    return covered[np.where(room > 0, clearance, room).argmax()]


def emptiest_place(centroids: Array, code: int, busy: Array, low: Array, high: Array) -> Array | None:
    """Return the place of a class's region that is farthest from everything busy and from the region's boundaries.

    None if the region has no place in the box.
    """
    margin = 0.09 * (high - low)
    grid = np.stack(np.meshgrid(*np.linspace(low + margin, high - margin, 60).T), axis=-1).reshape(-1, 2)
    distances = np.linalg.norm(grid[:, None] - centroids, axis=2)
    clearance = np.linalg.norm(grid[:, None] - busy, axis=2).min(axis=1)
    for other in range(len(centroids)):
        if other != code:
            # The signed distance to the bisector: (d_other² − d_own²) / (2 ‖μ_other − μ_own‖).
            ahead = distances[:, other] ** 2 - distances[:, code] ** 2
            clearance = np.minimum(clearance, ahead / (2 * np.linalg.norm(centroids[other] - centroids[code])))
    best = int(clearance.argmax())
    return grid[best] if clearance[best] > 0 else None

"""Draw a `RecourseMap`: the individual's move on the left, everybody's moves and the refitted model on the right."""

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

from oar.report.cells import cell_boundaries, cell_polygons
from oar.report.recourse_map import Outcome, RecourseMap
from oar.report.style import BLACK, CLASS_COLOURS, CLASS_MARKERS, GREEN, GREY, VERMILLION, styled

Array = NDArray[np.float64]
GHOST = 0.35
_ANGLES = np.arange(24) * np.pi / 12
STAR: dict[str, Any] = {
    "marker": "*",
    "markersize": 15,
    "markeredgecolor": "white",
    "markeredgewidth": 0.9,
    "linestyle": "none",
}


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
    way = _along(np.stack([data.query, moved]), 9)
    lines = [_along(segment) for segment in cell_boundaries(data.centroids, low, high)]
    busy = np.vstack([data.features, data.centroids, way, *lines])
    busy = np.vstack([busy, _ball(axes, data, busy, low, high)])
    _arrow(axes, data.query, moved, BLACK, 1.5)
    axes.plot(*data.query, color=BLACK, zorder=8, **STAR)
    axes.plot(*moved, color="white", zorder=8, **{**STAR, "markeredgecolor": BLACK})
    labels = [(data.query, r"$x_\dagger$"), (moved, r"$x_\dagger + \delta$")]
    busy = _labels(axes, labels + _centroid_labels(data.centroids), busy, low, high)
    _region_names(axes, data, data.centroids, np.vstack([busy, _circle(data.query, data.budget)]), low, high)
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
    busy = np.vstack([data.query, *(_along(ends, 5) for ends in _ways(data))])
    busy = _labels(axes, [(data.query, r"$x_\dagger$"), *_centroid_labels(data.centroids_after)], busy, low, high)
    _region_names(axes, data, data.centroids_after, busy, low, high)
    title = f"Collective: {len(data.features)} subjects move, the model is refitted"
    _headline(axes, title, r"all $\Vert\delta_i\Vert$", data, data.together)


def _ways(data: RecourseMap) -> list[Array]:
    """Return start and end (2, 2) of every member's and every centroid's way."""
    starts = np.vstack([data.features, data.centroids])
    return list(np.stack([starts, np.vstack([data.features + data.moves, data.centroids_after])], axis=1))


def _along(segment: Array, count: int = 60) -> Array:
    return segment[0] + np.linspace(0.0, 1.0, count)[:, None] * (segment[1] - segment[0])


def _epsilon(data: RecourseMap) -> str:
    return rf"$\epsilon = {data.budget:.2f}$"


def _centroid_labels(centroids: Array) -> list[tuple[Array, str]]:
    return [(centroid, rf"$\mu_{code + 1}$") for code, centroid in enumerate(centroids)]


def _box(data: RecourseMap) -> tuple[Array, Array]:
    """Return a box around everything drawn in either panel, so that both have the same scale."""
    shown = np.vstack([data.features, data.features + data.moves, _circle(data.query, data.budget)])
    pad = 0.06 * (shown.max(axis=0) - shown.min(axis=0)).max()
    return shown.min(axis=0) - pad, shown.max(axis=0) + pad


def _circle(centre: Array, radius: float) -> Array:
    angles = np.linspace(0.0, 2 * np.pi, 24, endpoint=False)
    return centre + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)


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
    # The radius points to the emptiest place for its label, to the right so that the text can go on from there.
    length = 0.14 * (high - low)[0]
    edges = np.array([data.query + data.budget * _direction(angle) for angle in np.linspace(-0.8, 0.8, 17)])
    texts = edges[:, None] + np.outer(np.linspace(0.1, 1.1, 6), [length, 0.0])
    room = (high - texts).min(axis=(1, 2))
    clearance = np.linalg.norm(texts[:, :, None] - busy, axis=3).min(axis=(1, 2))
    best = np.where(room > 0, clearance, room).argmax()
    axes.plot(*np.stack([data.query, edges[best]]).T, color=BLACK, linewidth=0.8, linestyle=":", zorder=4)
    shift: Any = {"xytext": (6, 0), "textcoords": "offset points", "va": "center"}
    axes.annotate(_epsilon(data), tuple(edges[best]), fontsize=10.5, zorder=9, **shift)
    return texts[best]


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
    """Write each label beside its place, in the direction where it covers least; return what is taken then."""
    taken = busy
    for place, text in labels:
        # Labels are wider than high: sideways they stand farther off, and they cover a row of points.
        unit, letters = (high - low)[0], len(re.sub(r"\\\w+", "x", text).strip("$").replace(" ", ""))
        half = 0.0068 * letters * unit
        reach = np.array([half + 0.03 * unit, 0.055 * unit])
        spots = np.array([place + far * reach * _direction(angle) for far in (1.0, 1.25) for angle in _ANGLES])
        covered = spots[:, None] + np.outer(np.linspace(-1, 1, 5), [half, 0.0])
        room = np.minimum(covered - low, high - covered).min(axis=(1, 2)) - 0.01 * unit
        clearance = np.linalg.norm(covered[:, :, None] - taken, axis=3).min(axis=(1, 2))
        best = np.where(room > 0, clearance, room).argmax()
        spot, taken = spots[best], np.vstack([taken, covered[best]])
        axes.text(
            spot[0],
            spot[1],
            text,
            fontsize=10.5,
            ha="center",
            va="center",
            zorder=9,
            bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "alpha": 0.7, "edgecolor": "none"},
        )
    return taken


def _direction(angle: float) -> Array:
    return np.array([np.cos(angle), np.sin(angle)])


def _region_names(axes: Axes, data: RecourseMap, centroids: Array, busy: Array, low: Array, high: Array) -> None:
    """Write each region's prediction at the emptiest place inside it."""
    for code in range(len(centroids)):
        place = emptiest_place(centroids, code, busy, low, high)
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


def emptiest_place(centroids: Array, code: int, busy: Array, low: Array, high: Array) -> Array:
    """Return the place of the class's region that lies farthest from everything drawn, boundaries included."""
    margin = 0.09 * (high - low)
    grid = np.stack(np.meshgrid(*np.linspace(low + margin, high - margin, 60).T), axis=-1).reshape(-1, 2)
    distances = np.linalg.norm(grid[:, None] - centroids, axis=2)
    clearance = np.linalg.norm(grid[:, None] - busy, axis=2).min(axis=1)
    for other in range(len(centroids)):
        if other != code:
            to_boundary = (distances[:, other] ** 2 - distances[:, code] ** 2) / 2
            clearance = np.minimum(clearance, to_boundary / np.linalg.norm(centroids[other] - centroids[code]))
    return grid[clearance.argmax()]


def _darker(colour: str) -> tuple[float, ...]:
    return tuple(0.68 * part for part in to_rgb(colour))


def _headline(axes: Axes, title: str, moves: str, data: RecourseMap, outcome: Outcome) -> None:
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

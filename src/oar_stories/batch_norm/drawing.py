"""The batch-norm footnote's pictures: what a batch can do for one of its flowers, and the boundary that moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.pictures.colours import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE
from oar.pictures.figures import Picture
from oar_stories.batch_norm.story import SHARES, Point
from oar_stories.drawing_style import LETTERS, as_percentages, band, boundary, footnote, shade, tidy

if TYPE_CHECKING:
    from oar.pictures.figures import Figure
    from oar_stories.batch_norm.story import Array, BatchNormSettings, Case

LOOKS: dict[str, dict[str, Any]] = {
    "features": {"color": GREEN, "marker": "o", "linestyle": "-"},
    "hidden": {"color": BLUE, "marker": "^", "linestyle": "--"},
    "deep": {"color": PURPLE, "marker": "D", "linestyle": "-."},
    "frozen": {"color": GREY, "marker": "s", "linestyle": ":"},
}
PLANE = (2, 3)  # petal length and width
MARGIN = 0.45  # cm around the flowers


def draw_batchnorm(settings: BatchNormSettings, means: Mapping[Any, Any]) -> Figure:
    """Return the still: curves over budget, share and batch size; and maps of them all for the exact network."""
    figure = Picture(figsize=(10.6, 7.4), layout="constrained")
    halves: Any = figure.subfigures(2, 1, height_ratios=(1.15, 1))
    upper, lower = halves
    _draw_curves(upper, settings, means)
    _draw_maps(lower, settings, means)
    many = f"Means of {settings.repeats} divisions into training and test flowers (band: least to greatest)"
    once = "One division into training and test flowers"
    footnote(
        figure,
        f"{many if settings.repeats > 1 else once}; every number from the audit's own computation. "
        "Before anybody moves no network calls the flower right, in a batch of any size.",
    )
    return figure


def _draw_curves(figure: Any, settings: BatchNormSettings, means: Mapping[Any, Any]) -> None:
    middle, panels = settings.middle, figure.subplots(1, 3)
    share, gain = ("probability", "probability of its true species"), ("gain", "points gained over nobody moving")
    varied = (
        ("budget", settings.budgets, "each length may change by (cm)", f"{middle.people} flowers, all act", share),
        ("share", SHARES, "share of the batch that acts", f"{middle.people} flowers, {middle.budget:g} cm", share),
        # Another batch is another beginning: what counts there is how much moves add to it.
        ("people", settings.sizes, "other flowers in the batch", f"all act, {middle.budget:g} cm", gain),
    )
    for axes, (name, values, words, rest, (measure, up)) in zip(panels, varied, strict=True):
        changes: list[Any] = [{name: value} for value in values]
        places = [replace(middle, **change) for change in changes]
        for arm in settings.arms:
            spreads = [means[arm.name, at.people, at.share, at.budget][measure] for at in places]
            if arm.name != "features":  # one band can be read, several are a blot
                spreads = [{key: spread["mean"] for key in spread} for spread in spreads]
            band(axes, values, spreads, **LOOKS[arm.name], label=arm.words)
        tidy(axes, rest, words, up)
        as_percentages(axes)
    for axes in panels[:2]:
        axes.axhline(0.5, color=BLACK, linewidth=0.7, linestyle=":")
    panels[1].set_xticks(SHARES, [_percent(part) for part in SHARES])
    panels[2].set_xticks(settings.sizes)
    panels[2].set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"])
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=LETTERS["note"], frameon=False)


def _draw_maps(figure: Any, settings: BatchNormSettings, means: Mapping[Any, Any]) -> None:
    panels, budgets = figure.subplots(1, len(settings.sizes), sharey=True), settings.budgets[::2]
    for axes, size in zip(panels, settings.sizes, strict=True):
        found = np.array([
            [means["features", size, share, budget]["probability"]["mean"] for budget in budgets]
            for share in SHARES
        ])  # fmt: skip
        image = axes.imshow(found, origin="lower", aspect="auto", vmin=0, vmax=1, cmap="cividis")
        for (row, column), value in np.ndenumerate(found):
            colour = "white" if value < 0.5 else "black"
            axes.text(column, row, f"{100 * value:.0f}", ha="center", va="center", color=colour, fontsize=8.5)
        tidy(axes, f"{size} flowers", "may change by (cm)", "")
        axes.set_xticks(range(len(budgets)), [f"{budget:.2g}" for budget in budgets])
        axes.set_yticks(range(len(SHARES)), [_percent(share) for share in SHARES])
    panels[0].set_ylabel("share that acts", fontsize=LETTERS["label"])
    bar = figure.colorbar(image, ax=panels, ticks=[0, 0.5, 1], pad=0.01)
    bar.ax.set_yticklabels(["0", "50 %", "100 %"], fontsize=LETTERS["tick"])
    figure.suptitle(
        "Normalised features, the proved optimum: probability of its true species, in %",
        fontsize=LETTERS["title"], x=0.01, ha="left",
    )  # fmt: skip


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def draw_batchnorm_step(settings: BatchNormSettings, case: Case, number: int) -> Figure:
    """Return a frame: the same moves of a batch, seen by a network that normalises by it, and by a frozen one."""
    budget = settings.budgets[number]
    point = Point(settings.people, 1.0, budget)
    moves = case.planned("features", point).plan.moves()
    figure = Picture(figsize=(9.6, 5.0), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    words = (
        ("features", "statistics recomputed over the batch", GREEN),
        ("frozen", "statistics frozen after training", GREY),
    )
    for axes, (arm, title, colour) in zip(panels, words, strict=True):
        _draw_plane(axes, case, arm, point, moves, colour)
        tidy(axes, title, case.names[PLANE[0]], case.names[PLANE[1]] if arm == "features" else "")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=4, fontsize=LETTERS["note"], frameon=False)
    which = "" if settings.repeats == 1 else f" First of {settings.repeats} flowers that ask."
    figure.suptitle(
        f"A fixed network of normalised features.{which}\n"
        f"{settings.people} other flowers change each length by up to {budget:.2f} cm",
        fontsize=LETTERS["title"] + 0.5,
    )
    return figure


def _draw_plane(axes: Any, case: Case, arm: str, point: Point, moves: Array, colour: str) -> None:
    """Draw the batch where it has moved to, and where the network draws the line for flowers like the one that asks."""
    problem = case.problem(arm, point)
    training, model = problem.training(), case.models[arm]
    goal = model.classes.index(case.goal)

    def chance_after(some: Array | None) -> Any:
        found = training.fit(training.moved(some), training.start(), 0.0)
        learned = training.parameters(found.parameters)

        def chance(places: Array) -> Array:
            rows = np.tile(case.query, (len(places), 1))
            rows[:, PLANE] = places
            return np.asarray(model.probabilities(learned, rows))[:, goal]

        return chance

    before, after = chance_after(None), chance_after(moves)
    seen = np.vstack([case.batch, case.query])[:, PLANE]
    low, high = seen.min(axis=0) - MARGIN, seen.max(axis=0) + MARGIN
    across, up = (float(low[0]), float(high[0])), (float(low[1]), float(high[1]))
    shade(axes, after, across, up, colour)
    boundary(axes, before, across, up, colors=BLACK, linewidths=1.0, linestyles=":")
    boundary(axes, after, across, up, colors=colour, linewidths=2.6)
    start = case.batch[:, PLANE]
    end = start + moves[:, PLANE]
    for one, two in zip(start, end, strict=True):
        axes.plot(*np.array([one, two]).T, color=ORANGE, linewidth=0.8, alpha=0.5)
    axes.plot(*end.T, "o", color=ORANGE, markersize=5, alpha=0.8, label="other flowers of the batch")
    axes.plot(*case.query[list(PLANE)], "*", color=BLACK, markersize=15, label=f"who asks to be {case.goal}")
    axes.plot([], [], ":", color=BLACK, linewidth=1.0, label="boundary before")
    axes.plot([], [], "-", color=GREY, linewidth=2.6, label="boundary now")
    share = float(after(case.query[None, PLANE])[0])
    axes.text(
        0.02, 0.98, f"{case.goal}: {_percent(share)}", transform=axes.transAxes, va="top", fontsize=LETTERS["label"],
        fontweight="bold", color=colour, bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 2},
    )  # fmt: skip
    axes.set(xlim=across, ylim=up)

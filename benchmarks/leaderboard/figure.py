"""The leaderboard as a picture: what is still missing of the best gain, against time, one panel a problem."""

from __future__ import annotations

from pathlib import Path

from benchmarks.leaderboard.contenders import CONTENDERS
from benchmarks.leaderboard.results import Problem
from oar.pictures.colours import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION

FLOOR = 1e-6  # of the best gain: less is drawn here, because a logarithm has no zero
LOOKS = (
    # colour, mark, width of the line
    (BLUE, "o", 2.4),
    (VERMILLION, "s", 1.4),
    (ORANGE, "^", 1.4),
    (PURPLE, "D", 1.4),
    (GREY, "v", 1.4),
    (GREEN, "P", 1.4),
    (SKY, "X", 1.4),
    ("black", "p", 1.4),
)


def draw(problems: list[Problem], path: Path) -> None:
    """Write the figure: the lower and the more to the left, the better."""
    from matplotlib.figure import Figure

    shown = [problem for problem in problems if not problem.skipped]
    columns = min(3, len(shown))
    lines = -(-len(shown) // columns)
    figure = Figure(figsize=(4.1 * columns, 3.1 * lines + 0.9), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True).ravel()
    handles = {}
    for panel, problem in zip(panels, shown, strict=False):
        for contender, (colour, mark, width) in zip(CONTENDERS, LOOKS, strict=True):
            run = next((one for one in problem.runs if one.contender == contender.name and one.moments), None)
            if run is None:
                continue
            allowed = [moment for moment in run.moments if moment.verdict.kept and moment.seconds > 0]
            times = [max(moment.seconds, 1e-3) for moment in allowed]
            left = [max(problem.missing(moment.verdict.loss), FLOOR) for moment in allowed]
            look = {"color": colour, "marker": mark, "markeredgecolor": "white", "markeredgewidth": 0.4}
            # Steps, because nobody knows when between two looks of the referee the loss fell.
            (line,) = panel.plot(times, left, drawstyle="steps-post", markersize=5, linewidth=width, alpha=0.9, **look)
            panel.plot(times[-1:], left[-1:], markersize=10, **look)
            handles.setdefault(contender.name, line)
        panel.set(xscale="log", yscale="log", title=problem.title, xlabel="seconds")
        panel.tick_params(labelbottom=True)
        panel.grid(which="major", color="0.9")
        panel.spines[["top", "right"]].set_visible(False)
    for panel in panels[len(shown) :]:
        panel.set_axis_off()
    figure.supylabel("share of the best gain that is still missing", fontsize=10)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})

"""Draw the picture strip of the paper's MNIST pair."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from oar_paper.embedding.strip import Strip
from oar_paper.figures.image_strip import draw_strip


def draw_picture_strip(strip: Strip, class_names: Sequence[str]) -> Figure:
    """Return the figure: some members' digits before and after their moves, and what the query gets."""
    arrow = r"$\rightarrow$"
    outcome = "the goal is reached" if strip.success else "the goal is not reached"
    return draw_strip(
        before=strip.before,
        after=strip.after,
        headings=[f"{role}\n“{digit}”" for role, digit in zip(strip.roles, strip.digits, strict=True)],
        query=strip.query_picture,
        query_heading=r"query $x_\dagger$ (does not move)"
        + f"\npredicted {strip.prediction_before} {arrow} {strip.prediction}",
        probabilities=(strip.probabilities_before, strip.probabilities_after),
        class_names=class_names,
        title="What a member's move means in pixels: everyone moves by at most "
        rf"$\epsilon = {strip.budget:.2f}$ in the embedding, and {outcome}",
    )

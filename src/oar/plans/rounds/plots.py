"""The display of a result over time: a table of rounds in a notebook, and a picture of when the plan acts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oar.pictures.colours import BLUE, GREY, ORANGE
from oar.pictures.markup import joined, table, tag
from oar.pictures.numbers import number
from oar.plans.rounds.result import goal_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from oar.plans.rounds.result import OnlineResult

MOST_ROUNDS = 30  # rows of the table in a notebook


def summary_table(result: OnlineResult) -> str:
    """Return what the replay found as an HTML table, round by round."""
    audit, problem = result.audit, result.problem
    levers = _levers(result)
    rows = [
        (
            number(one.number), number(one.loss_before), number(one.loss), str(one.prediction),
            "yes" if one.success else "no", number(one.movers), number(one.effort), number(float(lever)),
        )
        for one, lever in zip(audit.rounds[:MOST_ROUNDS], levers, strict=False)
    ]  # fmt: skip
    goal = f"goal {problem.goal_words} for {goal_words(problem.goal_for)}"
    title = tag("p", tag("strong", f"{result.status}"), f": {goal}; effort {number(audit.effort)}")
    head = ["round", "loss without the plan", "loss", "prediction", "goal reached", "movers", "effort", "leverage"]
    more = len(audit.rounds) - MOST_ROUNDS
    left_out = [tag("p", f"{more:,} more rounds: see result.rounds")] if more > 0 else []
    return joined([title, table(head, rows), *left_out, tag("p", result.explanation)])


def _levers(result: OnlineResult) -> NDArray[np.float64]:
    """Return each round's leverage (T,), 0 where the solver does not tell it."""
    known = result.proposal.leverage
    return np.zeros(len(result.audit.rounds)) if known is None else known


def picture_of(result: OnlineResult) -> Figure:
    """Return the losses by round, with and without the plan, above effort and leverage by round."""
    from matplotlib.ticker import MaxNLocator

    from oar.pictures.figures import Picture  # which loads matplotlib

    rounds = result.audit.rounds
    places = np.arange(len(rounds))
    figure = Picture(figsize=(6.4, 5.4), layout="constrained")
    losses, efforts, levers = figure.subplots(3, 1, sharex=True, height_ratios=(2.2, 1, 1))
    losses.plot(places, [one.loss_before for one in rounds], "o--", color=GREY, label="without the plan")
    with_plan = np.array([one.loss for one in rounds])
    losses.plot(places, with_plan, "-", color=BLUE, label="with the plan")
    reached = np.array([one.success for one in rounds])
    for these, face, label in ((reached, BLUE, "goal reached"), (~reached, "white", "goal not reached")):
        if these.any():
            losses.plot(places[these], with_plan[these], "o", color=BLUE, markerfacecolor=face, label=label)
    losses.set(ylabel="goal loss", ylim=(0, None))
    losses.legend(frameon=False, fontsize=8)
    efforts.bar(places, [one.effort for one in rounds], color=BLUE)
    efforts.set(ylabel="effort")
    levers.bar(places, _levers(result), color=ORANGE)
    levers.set(ylabel="leverage", xlabel="round (leverage: fall of the goal loss per unit of move)")
    levers.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes in (losses, efforts, levers):
        axes.spines[["top", "right"]].set_visible(False)
    told = f"{result.status}: goal {result.problem.goal_words} for {goal_words(result.problem.goal_for)}"
    figure.suptitle(told, fontsize=10)
    return figure

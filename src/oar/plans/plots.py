"""The display of a result: a small table in a notebook, and the picture that suits it; over rounds, when it acts."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oar.people.wording import counted
from oar.pictures.colours import BLUE, GREY, ORANGE
from oar.pictures.markup import joined, table, tag
from oar.pictures.numbers import number, percent
from oar.plans.explain.effort import Efforts
from oar.plans.rounds.result import goal_words
from oar.problem import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from oar.plans.result import Result
    from oar.plans.rounds.result import OnlineResult

MOST_ROUNDS = 30  # rows of the table in a notebook


def goal_probability(problem: Problem, loss: float) -> float | None:
    """Return the probability that a goal loss stands for, where it is −log p: for one person who wants one class.

    Values have no probabilities, and what an SVM's outputs make of them is none.
    """
    if not problem.plain or problem.regresses or problem.model.margins:
        return None
    return math.exp(-loss) if math.isfinite(loss) else None


def summary_table(result: Result) -> str:
    """Return what the audit found as an HTML table."""
    audit, problem = result.audit, result.problem
    rows = [
        ("prediction", *(_predictions(said) for said in (audit.prediction_before, audit.prediction))),
        ("goal reached", *("yes" if success else "no" for success in (audit.success_before, audit.success))),
        ("goal loss", number(audit.loss_before), number(audit.loss)),
    ]
    chances = goal_probability(problem, audit.loss_before), goal_probability(problem, audit.loss)
    if None not in chances:
        rows.append(("probability of the goal", *map(percent, chances)))
    acts = f"{counted(audit.movers, 'member moves', 'members move')}, effort {number(audit.effort)}"
    acts += f"; {number(audit.relabelled)} labels change" if audit.relabelled else ""
    acts += f"; {counted(audit.leavers, 'member leaves', 'members leave')}" if audit.leavers else ""
    title = tag("p", tag("strong", f"{result.status}"), f": goal {problem.goal_words}; {acts}")
    return joined([title, table(["", "before", "after"], rows), tag("p", result.explanation)])


def _predictions(said: Any) -> str:
    """Return a prediction, or how often each is made where several ask."""
    if not isinstance(said, tuple):
        return str(said)
    return ", ".join(f"{label} ({number(count)})" for label, count in Counter(map(str, said)).most_common(4))


def picture_of(result: Result) -> Figure:
    """Return the picture that suits a result."""
    from oar.pictures.figures import PlanePositions, draw_efforts, draw_moves  # which load matplotlib

    problem = result.problem
    people = problem.people
    told = (_predictions(said) for said in (result.audit.prediction_before, result.prediction))
    title = f"{result.status}: {' → '.join(told)}; goal {problem.goal_words}"
    if people.encoding is None and people.dimensions == 2 and not people.streamed:
        codes = np.zeros(people.size, dtype=np.intp) if problem.regresses else people.codes(0, people.size)
        names = people.names or ("feature 0", "feature 1")
        return draw_moves(
            PlanePositions(
                points=np.asarray(people.features, dtype=np.float64),
                moves=people.rows_moved(result.plan),
                codes=np.asarray(codes),
                classes=("people",) if problem.regresses else tuple(map(str, people.classes)),
                queries=problem.asked.points,
                query_move=result.plan.query_move,
            ),
            (str(names[0]), str(names[1])),
            title,
        )
    columns = [(row["column"], row["effort"], row["movers"]) for row in Efforts.of(result.plan).by_column()]
    before, after = (goal_probability(problem, loss) for loss in (result.loss_before, result.loss))
    if before is None or after is None:
        return draw_efforts(columns, (result.loss_before, result.loss), "goal loss", title)
    return draw_efforts(columns, (before, after), "probability of the goal", title)


def rounds_table(result: OnlineResult) -> str:
    """Return what the replay found as an HTML table, round by round."""
    audit, problem = result.audit, result.problem
    rows = [
        (
            number(one.number), number(one.loss_before), number(one.loss), str(one.prediction),
            "yes" if one.success else "no", number(one.movers), number(one.effort), number(float(lever)),
        )
        for one, lever in zip(audit.rounds[:MOST_ROUNDS], _levers(result), strict=False)
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


def rounds_picture(result: OnlineResult) -> Figure:
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

"""The display of a result: a small table in a notebook, and the picture that suits it."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.people.wording import counted
from oar.pictures.markup import joined, table, tag
from oar.pictures.numbers import number, percent
from oar.plans.explain.effort import Efforts
from oar.problem import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from oar.plans.result import Result


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
    if people.encoding is None and people.dimensions == 2:
        codes = np.zeros(people.size, dtype=np.intp) if problem.regresses else people.codes(0, people.size)
        names = people.names or ("feature 0", "feature 1")
        return draw_moves(
            PlanePositions(
                points=np.asarray(people.features, dtype=np.float64),
                moves=np.asarray(result.plan.moves(), dtype=np.float64),
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

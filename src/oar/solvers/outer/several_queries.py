"""Goals that one smooth loss does not tell: the worst of several queries, how many of them, or any of several classes.

For the worst and for the share, moves are planned for a smooth stand-in (`oar.goals.wishes`) and for the mean. For
any of several classes, they are planned for each of them to be the one that is predicted. Of these plans the one with
the lowest true value counts: so the worst case is never worse than with the mean, and any of several classes never
worse than the best of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from oar.goals.wishes import failing, mean, worst
from oar.models.training import Array
from oar.plans import Proposal
from oar.problem import Problem
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import retraining_of
from oar.solvers.registry import ForDescent, Task

HINGE_EDGE = 1.0  # the loss of a linear SVM's query whose margin is 0
STAND_IN = "What is not smooth was planned for by a smooth stand-in, so that no certificate speaks of it."


def _losses_before(problem: Problem) -> Array:
    """Return each query's loss (q,) before anybody moves."""
    retraining = retraining_of(problem)
    refit = retraining.refit(Contribution())
    if refit is None:  # then nothing can be planned, whatever counts, and plans say so
        return np.ones(len(problem.wishes))
    return retraining.judged(refit)[0]


def edges(problem: Problem) -> Array:
    """Return the loss (q,) at which each query is about to get its goal."""
    return np.array([HINGE_EDGE if problem.model.margins else wish.edge for wish in problem.wishes])


def _value(proposal: Proposal) -> tuple[float, float]:
    """Return what is asked for, to be lowered, and the mean loss, which decides between equals, by a true refit."""
    retraining = retraining_of(proposal.plan.problem)
    refit = retraining.refit(proposal.plan.contribution())
    if refit is None:
        return np.inf, np.inf
    own = proposal.plan.query_move
    return retraining.combined(refit, own)[0], float(retraining.judged(refit, own)[0].mean())


class SeveralQueries(ForDescent):
    """Goals that one smooth loss does not tell: the worst of several, how many, or any of several classes."""

    name, requires = "several queries", frozenset({"goals"})
    serves = ForDescent.serves | {"rounds", "parts"}

    def propose(self, task: Task, settings: Any) -> Proposal:
        """Ask for a plan of each loss that may stand in, and take the best by what is asked."""
        within, problem, smooth = self.inside(task), task.problem, True
        if problem.undecided:
            plans = [task.ask(within=within, by=code) for code in problem.wanted_codes]
        elif problem.query.several == "mean":  # one smooth loss tells
            return task.ask(within=within)
        else:
            share, smooth = problem.query.several == "share", False
            stand_in = failing(edges(problem)) if share else worst(_losses_before(problem))
            plans = [task.ask(within=within, together=each) for each in (mean, stand_in)]
        values = [_value(one) for one in plans]
        best = min(range(len(plans)), key=lambda number: values[number])
        found = plans[best]
        if not smooth:  # gradients are of the stand-in
            found = replace(found, gap=0.0 if found.exact else np.inf)
        return replace(
            found,
            claimed_loss=values[best][0],
            finished=found.finished and smooth,
            ended=found.ended if smooth else STAND_IN,
            **{count: sum(getattr(one, count) for one in plans) for count in ("steps", "passes", "walks")},
        )

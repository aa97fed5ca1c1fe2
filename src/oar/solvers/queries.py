"""Goals that one smooth loss does not tell: the worst of several queries, how many of them, or any of several classes.

For the worst and for the share, moves are planned for a smooth stand-in (`oar.goals.together`) and for the mean. For
any of several classes, they are planned for each of them to be the one that is predicted. Of these plans the one with
the lowest true value counts: so the worst case is never worse than with the mean, and any of several classes never
worse than the best of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.goals import ClassWish
from oar.goals.keep import Anchors
from oar.goals.together import failing, mean, worst
from oar.models import LinearSVM
from oar.models.scaled import unscaled
from oar.plans import MemberPlan, Proposal
from oar.problem import Problem
from oar.progress import OnStep
from oar.solvers import retrained
from oar.solvers.settings import FrankWolfe, OneShot, ProjectedGradient

Array = NDArray[np.float64]
TIGHT = 1e-9
HINGE_EDGE = 1.0  # the loss of a linear SVM's query whose margin is 0
STAND_IN = "What is not smooth was planned for by a smooth stand-in, so that no certificate speaks of it."


def solve(
    problem: Problem,
    settings: ProjectedGradient | FrankWolfe | OneShot,
    signal: Any,
    query: bool,
    on_step: OnStep | None,
    starts: Sequence[Array] = (),
    anchors: Anchors | None = None,
) -> Proposal:
    """Return the best of a few plans, judged by what is asked for."""
    judge = _Judge(problem)

    def plan(**kind: Any) -> Proposal:
        return retrained.solve(problem, settings, signal, query, on_step, starts, anchors=anchors, **kind)

    smooth = True
    if problem.undecided:
        wish = problem.wishes[0]
        assert isinstance(wish, ClassWish)
        plans = [plan(by=code) for code in wish.codes]
    elif problem.query.several == "share":
        plans, smooth = [plan(together=mean), plan(together=failing(judge.edges))], False
    else:
        plans, smooth = [plan(together=mean), plan(together=worst(judge.told(None)[0]))], False
    values = [judge.value(one) for one in plans]
    best = min(range(len(plans)), key=lambda number: values[number])
    found = plans[best]
    return replace(
        found,
        claimed_loss=values[best][0],
        finished=found.finished and smooth,
        ended=found.ended if smooth else STAND_IN,
        steps=sum(one.steps for one in plans),
        passes=sum(one.passes for one in plans) + judge.training.passes,
    )


class _Judge:
    """True refits, and every query's own loss there."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.training = problem, problem.training()
        hinged = isinstance(unscaled(problem.model), LinearSVM)
        self.edges = np.array([HINGE_EDGE if hinged else wish.edge for wish in problem.wishes])

    def value(self, proposal: Proposal) -> tuple[float, float]:
        """Return what is asked for, to be lowered, and the mean loss, which decides between equals."""
        assert isinstance(proposal.plan, MemberPlan)
        losses, leads = self.told(proposal.plan.each, proposal.plan.query_move)
        return self.problem.combined(losses, leads > 0)[0], float(losses.mean())

    def told(self, moves: Array | None, query_move: Array | float = 0.0) -> tuple[Array, Array]:
        """Return each query's loss (q,) and lead (q,) after moves (n, d)."""
        problem, training = self.problem, self.training
        fit = training.fit(training.moved(moves), training.start(), TIGHT)
        points, members = problem.asked.points + query_move, problem.asked.members
        if members is not None and moves is not None:
            points = points + moves[members]
        losses, leads = np.empty((2, len(points)))
        for place, (wish, point) in enumerate(zip(problem.wishes, points, strict=True)):
            losses[place] = wish.judged(training.unaimed, fit.parameters, point)[0]
            leads[place] = wish.lead(training.outputs(fit.parameters, point))
        return losses, leads

"""Quick plans for surrogates: one descent from where everybody stands, to a precision that suits a stand-in.

What surrogates are planned for is not the truth, so that other starts and the last digits of a minimum, which
`retrained` looks for, are not worth the time that the black box's own training should have.
"""

from __future__ import annotations

import numpy as np

from oar.plans import MemberPlan, Proposal
from oar.problem import Problem
from oar.signals import as_signal
from oar.solvers.descent.descent import DescentSettings, descend
from oar.solvers.descent.single_refit import SingleRefit
from oar.solvers.feasible.balls import FeasibleBalls

STEPS, FEWER_STEPS = 12, 8  # with one minimum of training, and where every refit starts from scratch
TOLERANCE = 1e-3


def suits(problem: Problem) -> bool:
    """Report whether a quick plan can be made: moves alone, on plain features, for a smooth sum of goals."""
    alone = problem.levers is None and problem.limits is None and problem.keep is None and problem.best is None
    smooth = problem.query.several == "mean" and not problem.undecided
    return alone and smooth


def quick_plan(problem: Problem, query: bool) -> Proposal:
    """Move the members, and the query too if `query`."""
    people, training = problem.people, problem.training()
    maker, _ = as_signal("auto", training)
    radii = np.append(problem.allowance.everyones(people.size), problem.query_budget if query else 0.0)
    limits = FeasibleBalls(problem.allowance.norm, radii, np.append(training.weights, 1.0))
    convex = problem.model.convex
    settings = DescentSettings("spectral", STEPS if convex else FEWER_STEPS, TOLERANCE, np.inf)
    objective = SingleRefit(training, maker, problem.first_query, problem.goal_target, from_scratch=not convex)
    stay = np.zeros((people.size + 1, people.dimensions))
    reached = descend(objective, limits, stay, settings)
    return Proposal(
        plan=MemberPlan(problem, reached.moves[-1] + 0.0, reached.moves[:-1] + 0.0),
        solver="projected-gradient",
        claimed_loss=reached.loss,
        gap=reached.gap,
        bound=problem.model.least_loss,
        exact=False,
        impossible=False,
        finished=reached.ended == "closed",
        steps=reached.steps,
        passes=training.passes,
    )

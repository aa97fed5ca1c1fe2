"""The query's own best move where the model is retrained over rounds, and nobody else acts.

Whoever moves alone changes no model: what it faces are the models after the rounds that its goal is for, as they are
without any move. Its loss is theirs on average, and it is minimised as against a single model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.models.training import Array, Fit
from oar.online import Rollout
from oar.people.wording import counted
from oar.plans import Proposal
from oar.plans.rounds.plan import member_plan
from oar.solvers.query.individual import solve_on_table
from oar.solvers.query.move_search import best_own_move
from oar.solvers.registry import Task
from oar.solvers.settings import ProjectedGradient

CLOSED = 1e-7  # of the loss: a gap below it is closed


class Deployed:
    """The models of the rounds that the goal is for, without any move, as one training that is never refitted."""

    def __init__(self, rollout: Rollout) -> None:
        problem = rollout.problem
        self.rollout, self._path = rollout, rollout.forward(None)
        self._counted = np.flatnonzero(problem.weights)
        self.dimensions = problem.people.dimensions

    @property
    def passes(self) -> int:
        """How often a round's data were read."""
        return self.rollout.passes

    def moved(self, moves: None, columns: Any = None) -> None:
        """Return everyone's features, of which nobody here asks more."""

    def start(self) -> Array:
        """Return where a fit starts: nothing is fitted."""
        return np.zeros(0)

    def fit(self, features: None, start: Array, tolerance: float) -> Fit:
        """Return the models as they are."""
        return Fit(self._path.parameters.ravel(), features, 0.0, True)

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return the loss, averaged over the rounds that count, and its slopes; nothing in θ, which stays."""
        walk = self.rollout
        loss, slopes, own = 0.0, np.zeros(self.dimensions), query - walk.aim.points[0]
        for number in self._counted:
            weight, training = walk.problem.weights[number], walk.bound(int(number))
            one, _, slope = walk.aim.at(training, self._path.parameters[number], None, own)
            loss, slopes = loss + weight * one, slopes + weight * slope.sum(axis=0)
        return loss, np.zeros(0), slopes


def own_move(task: Task, settings: ProjectedGradient) -> Proposal:
    """Move the query alone."""
    problem = task.problem
    deployed: Any = Deployed(Rollout(problem, task.together, task.by))
    if problem.limits is not None:
        return solve_on_table(problem, settings, deployed)
    fit = deployed.fit(None, deployed.start(), 0.0)
    found = best_own_move(problem, deployed, problem.query_budget, fit, settings)
    convex: bool = problem.model.linear and problem.plain
    return Proposal(
        plan=member_plan(problem, found.move + 0.0, np.zeros((problem.people.size, problem.people.dimensions))),
        solver="projected-gradient",
        claimed_loss=found.loss,
        gap=found.gap,
        exact=convex and found.gap <= CLOSED * found.loss,
        finished=found.gap <= max(settings.smallest_gap, CLOSED) * abs(found.loss),
        ended=f"It took {counted(found.steps, 'step', 'steps')}; allow more with max_steps, or more random_starts.",
        steps=found.steps,
        passes=deployed.passes,
        residual=found.residual,
    )

"""The query's own move over rounds: against the models that the rule deploys if nobody else acts."""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.models.training import Array, Fit
from oar.online import OnlineProblem, Rollout
from oar.plans import Proposal
from oar.plans.rounds.plan import OnlinePlan
from oar.solvers.query.move_search import best_own_move
from oar.solvers.registry import Solver, Task, searching
from oar.solvers.settings import SEARCH, ProjectedGradient


class DeployedModels:
    """The models of all rounds that the goal is for, as one training whose goal is the mean of theirs."""

    def __init__(self, problem: OnlineProblem) -> None:
        self.rollout, self._wish = Rollout(problem), problem.wishes[0]
        self._path = self.rollout.forward(None)
        self._weights = problem.weights

    def goal(self, parameters: Any, point: Array, target: Array) -> tuple[float, None, Array]:
        """Return the mean loss of the query at a point (d,), and its slope there (d,)."""
        loss, slope = 0.0, np.zeros_like(point)
        for number in np.flatnonzero(self._weights):
            told = self._wish.judged(self.rollout.bound(int(number)), self._path.parameters[number], point)
            loss, slope = loss + self._weights[number] * told[0], slope + self._weights[number] * told[2]
        return float(loss), None, slope

    @property
    def last(self) -> Fit:
        """The parameters after the last round."""
        return Fit(self._path.parameters[-1], None, 0.0, True)


class QueryOverRounds(Solver):
    """The query's own move against the models of the rounds that its goal is for."""

    name, settings, verbs = "projected-gradient", ProjectedGradient, ("individual",)
    requires, serves = frozenset({"rounds"}), frozenset({"goals"})

    def propose(self, task: Task, settings: ProjectedGradient) -> Proposal:
        """Move the query alone."""
        problem = task.problem
        models: Any = DeployedModels(problem)
        found = best_own_move(problem, models, problem.query_budget, models.last, searching(settings, SEARCH))
        nobody = np.zeros((problem.people.size, problem.people.dimensions))
        return Proposal(
            plan=OnlinePlan(problem, nobody, query_move=found.move + 0.0),
            solver=self.name,
            claimed_loss=found.loss,
            gap=found.gap,
            exact=False,
            finished=found.gap <= max(settings.smallest_gap, 1e-7) * abs(found.loss),
            ended=f"It took {found.steps} steps; allow more with max_steps.",
            steps=found.steps,
            passes=models.rollout.passes,
        )

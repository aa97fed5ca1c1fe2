"""Own moves of those who ask: of several each one's own, and by turns with what members do.

Against a model that stays as it is nobody's own move concerns anybody else, so that each is the best for who makes it.
Where members act as well and no single descent knows all of it (labels and leavers, several rounds, several queries),
members plan for queries that have moved, queries move against the model that members' contributions leave, and so on,
from either. What is returned is the best of it by refits: never worse than the members alone or the queries alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from oar.errors import NumericsError
from oar.models.training import Array
from oar.plans import Proposal
from oar.problem import Problem
from oar.progress import is_late
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import retraining_of
from oar.solvers.registry import EVERYTHING, Task, Wrapper, default_effort

TURNS = 3
WORTH_IT = 1e-3  # of the loss: what a turn must gain to be followed by another


class EachAlone(Wrapper):
    """Several queries' own moves, one after the other."""

    name, verbs = "each alone", ("individual",)
    requires, serves = frozenset({"goals"}), EVERYTHING

    def refusal(self, task: Task) -> str | None:
        """Return why there is nothing to take apart."""
        return super().refusal(task) if task.problem.several else "is for several queries"

    def propose(self, task: Task, settings: Any) -> Proposal:
        """Ask for everyone's own move, and put them together."""
        problem: Problem = task.problem
        each = [task.ask(problem=one, within=self.inside(task)) for one in problem.singly]
        move = np.stack([one.plan.query_move for one in each])
        nobody = replace(each[0].plan, problem=problem, query_move=move)
        mean = problem.query.several == "mean"
        return replace(
            each[0],
            plan=nobody,
            claimed_loss=float(np.mean([one.claimed_loss for one in each])) if mean else _value(problem, None, move),
            gap=float(np.mean([one.gap for one in each])) if mean else np.inf,
            exact=mean and all(one.exact for one in each),
            finished=all(one.finished for one in each),
            steps=sum(one.steps for one in each),
            suffices="",
            note="",
            hints=type(each[0].hints)(),
            reachable=all(one.reachable for one in each),
        )


class InTurns(Wrapper):
    """Members and queries by turns."""

    name, verbs, serves = "in turns", ("joint",), EVERYTHING

    def refusal(self, task: Task) -> str | None:
        """Return why turns are not needed: a single descent knows all of it."""
        problem = task.problem
        if not (problem.several or problem.levers.given):
            return "is for several queries, and other labels and strikes"
        return super().refusal(task)

    def propose(self, task: Task, settings: Any) -> Proposal:
        """Take turns, and return the best that was reached."""
        problem: Problem = task.problem
        within = self.inside(task)
        members: Proposal = task.ask(verb="collective", within=within)
        if problem.asked.among.size or not problem.query_budget:  # members who ask move with their data alone
            return members
        still = np.zeros(problem.asked.points.shape) if problem.several else np.zeros(problem.people.dimensions)
        given = members.plan.contribution()
        reached = [(members.claimed_loss, given, still)]
        for there, move in ((given, still), (None, still)):
            reached += self._turns(task, there, move)
        loss, given, move = min(reached, key=lambda one: one[0])
        plan = replace(members.plan.handing_in(problem, given), query_move=move)
        return replace(members, plan=plan, claimed_loss=loss, gap=np.inf, exact=False, promised=False, suffices="")

    def _turns(self, task: Task, given: Contribution | None, move: Array) -> Iterator[tuple[float, Any, Array]]:
        """Yield what turns reach from what members hand in (None: nothing): loss, contribution and own move."""
        problem, best = task.problem, np.inf
        nothing = retraining_of(problem).before
        for _ in range(TURNS):
            here = nothing if given is None else given
            # On a table costs are in units of the people as they are, and no move is planned in others'.
            there = problem if problem.limits is not None else _after(problem, here)
            try:
                own = task.ask(problem=there.themselves, verb="individual", solver="auto", signal="auto")
            except NumericsError:  # a model that cannot be trained there
                return
            move = own.plan.query_move
            loss = _value(problem, given, move)
            yield loss, here, move
            if not loss < best - WORTH_IT * abs(loss) or is_late():
                return
            best = loss
            with default_effort(task.effort.trials):
                moved: Proposal = task.ask(problem=problem.asking_after(move), verb="collective", starts=())
            given = moved.plan.contribution()
            yield _value(problem, given, move), given, move


def _value(problem: Problem, given: Contribution | None, move: Array) -> float:
    """Return what is lowered, by a refit."""
    loss = retraining_of(problem).verdict(given or Contribution(), move).loss
    return loss if np.isfinite(loss) else np.inf


def _after(problem: Any, given: Contribution) -> Problem:
    """Return the problem of people as they are after a contribution."""
    people = given.handed_in(problem.people, problem.regresses)
    if given.moves is not None:
        people = people.with_features(np.asarray(people.features, dtype=np.float64) + given.moves)
    if problem.over_rounds:
        return replace(problem, stream=replace(problem.stream, people=people))
    return replace(problem, people=people)

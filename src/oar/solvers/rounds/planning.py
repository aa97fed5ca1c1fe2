"""The choice of solver over time: exact where centroids are weighted sums, gradients elsewhere."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from oar.errors import OptionError
from oar.online import OnlineProblem, Rollout
from oar.plans import Proposal
from oar.plans.rounds.plan import OnlinePlan
from oar.solvers.centroids.exact import unrounded
from oar.solvers.descent.retrained import moves_in_steps
from oar.solvers.registry import Solver, Task, current_effort, is_timed, named, searching, unknown
from oar.solvers.rounds import centroids as online_centroid
from oar.solvers.rounds.descent import RoundSearchResult, leverage, one_shot, search, why
from oar.solvers.rounds.everyone import best_of_everyone
from oar.solvers.rounds.own_move import own_move
from oar.solvers.settings import SEARCH, Exact, FrankWolfe, OneShot, ProjectedGradient, given_settings, no_restarts

FEW, MORE = 2_000, 20_000  # moves of all rounds, as numbers
ENDED = {
    "steps": "It took all the steps it may take; allow more with max_steps.",
    "time": "Its time limit was over.",
    "stalled": (
        "No step against the slopes lowers the loss any more, as at a kink or at the precision of refits: more steps "
        "would not help, but restarts may."
    ),
    "closed": "",
}


def linear(problem: OnlineProblem) -> bool:
    """Report whether centroids are weighted sums of rows, and one person wants one class: what exactness needs."""
    simple = problem.plain and problem.within_balls
    return problem.model.plain_means and hasattr(problem.rule, "kept_share") and simple


def _proposed(problem: OnlineProblem, found: RoundSearchResult, signals: Any, solver: str) -> Proposal:
    """Put moves, claims and certificates together."""
    end, stuck = found.best, not problem.radii.any()
    exact = stuck
    if not stuck and linear(problem):
        exact = end.loss <= unrounded(online_centroid.least_loss(problem), end.loss) * (1 + 1e-12)
    plan = OnlinePlan(problem, end.moves + 0.0, signals)
    levers = leverage(problem, found.slopes_before)
    finished = stuck or solver == "one-shot" or end.ended == "closed"
    return Proposal(
        plan=plan,
        solver=solver,
        claimed_loss=end.loss,
        gap=end.gap,
        exact=exact,
        finished=finished,
        leverage=levers,
        leverage_left=leverage(problem, end.point.gradient),
        steps=found.steps,
        walks=found.rollouts,
        passes=found.passes,
        why=why(plan, levers),
        ended="" if finished else ENDED[end.ended],
    )


def _of_everyone(task: Task, settings: Any, solver: str) -> Proposal:
    """Propose moves of members and query, or of people of a table."""
    problem, rollout = task.problem, Rollout(task.problem, task.together, task.by, task.anchors)
    found = best_of_everyone(task, settings, rollout)
    plan = OnlinePlan(problem, found.each, query_move=found.query_move)
    levers, closed = leverage(problem, found.before.gradient), found.stuck or found.end.ended == "closed"
    return Proposal(
        plan=plan,
        solver=solver,
        claimed_loss=found.end.loss,
        gap=0.0 if found.stuck else found.end.gap,
        exact=found.stuck,
        finished=closed,
        leverage=levers,
        leverage_left=leverage(problem, found.left),
        steps=found.steps,
        walks=rollout.walks,
        passes=rollout.passes,
        why=why(plan, levers),
        ended="" if closed else ENDED[found.end.ended],
    )


def _why_not_exact(problem: OnlineProblem) -> str:
    if not linear(problem):
        return (
            "it is for nearest centroid of plain features whose rule goes a known share of the way to class means "
            "(full refit, window, exponential means, gradient steps, fine-tuning), and one query with one class as "
            "goal, got "
            f"{problem.model.name} with {problem.rule.name} and a query for {problem.goal_words}"
        )
    if problem.goal_for != "last":
        return "the goal is for every round, and what is best for one need not be for another"
    return "somebody's shared budget is for rows of different classes"


def _suitable(problem: OnlineProblem, kind: type) -> dict[str, Any]:
    """Return settings that suit the problem: a step walks all rounds, forwards and back."""
    numbers = problem.radii.size * problem.stream.people.dimensions
    if not problem.model.convex:
        return {"max_steps": 20, "tolerance": 1e-5, "restarts": 0}
    if problem.limits is not None:  # moves are made whole afterwards, so that the last digits do not matter
        return {"max_steps": 100, "tolerance": 1e-4, "restarts": 0}
    if kind is FrankWolfe:
        return {"max_steps": 500, "tolerance": 1e-5, "restarts": 0}
    restarts = 0 if numbers > FEW or not problem.model.quick else 4
    steps, tolerance = (1_000, 1e-7) if numbers <= FEW else (300, 1e-6) if numbers <= MORE else (100, 1e-5)
    return {"max_steps": steps, "tolerance": tolerance, "restarts": restarts}


class OverRounds(Solver):
    """Plans over several rounds, which choose among themselves by the rule and the goal."""

    verbs: ClassVar[tuple[str, ...]] = ("collective", "joint")
    requires, serves = frozenset({"rounds"}), frozenset({"goals", "table", "side effects"})

    def propose(self, task: Task, settings: Any) -> Proposal:
        """Plan over time for a smooth loss, as `Problem.training` takes it."""
        problem, effort = task.problem, current_effort()
        if task.signal != "auto":
            raise OptionError(
                f"signal: over time the rule itself says how it is differentiated; leave it out, got {task.signal!r}."
            )
        exact = not task.query and task.anchors is None and linear(problem) and online_centroid.attained(problem)
        if exact and (task.is_auto or self.name == "exact"):
            return online_centroid.solve(problem)
        if named(task.solver) == "exact":
            reason = _why_not_exact(problem)
            raise OptionError(f"solver: 'exact' does not apply here: {reason}; use 'projected-gradient'.")
        if self.name == "exact":
            raise unknown(task.solver, [GradientOverRounds(), FrankWolfeOverRounds(), OneShotOverRounds()])
        if self.name == "one-shot":
            if task.query or problem.limits is not None:
                what = "the query's own move" if task.query else "a table's limits"
                raise OptionError(
                    f"solver: 'one-shot' does not know {what}; use 'projected-gradient' or 'frank-wolfe'."
                )
            if problem.query.several != "mean" or problem.undecided:
                raise OptionError(
                    "solver: 'one-shot' publishes the signals of one smooth loss, got a query for the worst or the "
                    "share of several, or for any of several classes; use 'projected-gradient'."
                )
            return _proposed(problem, *one_shot(problem), self.name)
        settings = effort.settled(settings)
        usual = effort.loop(_suitable(problem, type(settings)), timed=is_timed(settings))
        settings = dataclasses.replace(settings, **(usual | given_settings(settings)))
        if task.query:
            return _of_everyone(_with_ends(task), settings, self.name)
        if problem.limits is not None:
            return _of_everyone(task, settings, self.name)
        return _proposed(problem, search(task, settings), (), self.name)


def _with_ends(task: Task) -> Task:
    """Return a joint task that also starts from the members' plan and the query's own best move, alone and together."""
    ask = dataclasses.replace(task, solver="auto", starts=()).ask
    members, own = ask(verb="collective").plan.each, ask(verb="individual").plan.query_move
    still = np.zeros_like(members), np.zeros_like(own)
    pairs = (members, own), (members, still[1]), (still[0], own)
    return dataclasses.replace(task, starts=[*task.starts, *(np.vstack(pair) for pair in pairs)])


class QueryOverRounds(Solver):
    """The query's own best move against the models of the rounds that the goal is for, which it does not change."""

    name, settings, verbs = "projected-gradient", ProjectedGradient, ("individual",)
    requires, serves = frozenset({"rounds"}), frozenset({"goals", "table", "side effects"})

    def propose(self, task: Task, settings: Any) -> Proposal:
        """Move the query alone."""
        no_restarts(settings)
        return own_move(task, searching(settings, SEARCH))


class ExactOverRounds(OverRounds):
    """The optimum over rounds, for nearest centroid; "auto" finds it by way of `GradientOverRounds`."""

    name, settings, auto, verbs = "exact", Exact, False, ("collective",)


class GradientOverRounds(OverRounds):
    """Projected gradient through all rounds; asked for "auto", the optimum where it is known.

    On a table whose moves are whole, "auto" means best responses, which are quick there.
    """

    name, settings = "projected-gradient", ProjectedGradient

    def propose(self, task: Task, settings: Any) -> Proposal:
        """Plan over time; leave whole moves to best responses."""
        if task.is_auto and "table" in task.needs and moves_in_steps(task.problem):
            return FrankWolfeOverRounds().propose(task, FrankWolfe())
        return super().propose(task, settings)


class FrankWolfeOverRounds(OverRounds):
    """Damped best responses through all rounds; on a table they are quick and whole."""

    name, settings, auto = "frank-wolfe", FrankWolfe, False


class OneShotOverRounds(OverRounds):
    """One response to the signals before any move."""

    name, settings, auto = "one-shot", OneShot, False

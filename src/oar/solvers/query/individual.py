"""Individual recourse for trained models: the query's own best move (equation 2 of the paper), in a ball or on a table.

For outputs that are linear in the features and a convex loss, the problem is convex: projected gradient finds the
optimum, and the Frank–Wolfe gap bounds what is left, so `loss − gap` is a proved lower bound (less what the refit
leaves uncertain). With a single logit the loss is monotone in it, and the very first step ends in the optimum: the
ball's extreme point along ±w. Otherwise many starts are tried.

**On a table** one person has few columns, so every other value of every column is tried by the loss itself, beside the
columns as they are and alone, and so is the best response to the loss's slopes; what need not be whole is re-optimised
for the best of them. It goes on from there until nothing helps. That is a local search: it proves nothing. For the
lowest cost that reaches the goal, proved for linear models, see `oar.cheapest`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.models.training import Array, CostUnits
from oar.people.wording import counted
from oar.plans import MemberPlan, Plan, Proposal
from oar.plans.plan import SignalPathPlan
from oar.plans.proof import Hints
from oar.plans.rounds.plan import member_plan
from oar.problem import Problem
from oar.solvers.discrete.integer_moves import Lattice
from oar.solvers.feasible.sets import FeasibleRegions
from oar.solvers.query.move_search import BatchedObjective, best_own_move, minimise
from oar.solvers.query.shortest_move import ENOUGH, goal_limits, multipliers_against, shortest_linear_move
from oar.solvers.registry import BALLS, REFITTED, STEPWISE, ForDescent, Solver, Task, searching
from oar.solvers.settings import SEARCH, ProjectedGradient, no_idle_draws, no_restarts, starts_at_random
from oar.streaming import SignalPath
from oar.tolerances import TIGHT

MOST_ROUNDS = 100
GAINED = 1e-9  # of the loss
ONE = np.ones(1)
SURELY = 1e-6  # share of a budget by which another must be smaller to be smaller whoever refits


def solve(problem: Problem, settings: ProjectedGradient) -> Proposal:
    """Move the query alone; the model stays as it is."""
    training = problem.training()
    fit = training.fit(training.moved(None), training.start(), TIGHT)
    found = best_own_move(problem, training, problem.query_budget, fit, settings)
    # A sum of several classes' probabilities is not concave in the features, even of a linear model.
    convex: bool = problem.model.linear and problem.plain
    hints, prospects = Hints(), dict[str, Any]()
    if convex:  # the model's matrix, and multipliers for what the query must keep to get its goal
        matrix = training.matrix(fit.parameters)
        limits = goal_limits(problem, matrix)
        against = multipliers_against(*limits, problem.allowance.norm, problem.query_budget)
        hints, prospects = Hints(multipliers=against, slopes=matrix), _prospects(problem, matrix)
    plan: Plan
    if problem.people.streamed:
        published, nothing = training.in_given_units(fit.parameters), np.zeros(training.parameter_count)
        parts = SignalPath(), training.spec, published, nothing, training
        plan = SignalPathPlan(problem, found.move + 0.0, *parts)
    else:
        plan = MemberPlan(problem, found.move + 0.0, np.zeros((problem.people.size, problem.people.dimensions)))
    return Proposal(
        plan=plan,
        solver="projected-gradient",
        claimed_loss=found.loss,
        gap=found.gap,
        exact=convex and found.gap <= 1e-7 * found.loss,
        finished=found.gap <= max(settings.smallest_gap, 1e-7) * abs(found.loss),
        ended=f"It took {counted(found.steps, 'step', 'steps')}; allow more with max_steps, or more random_starts.",
        steps=found.steps,
        passes=training.passes,
        residual=found.residual,
        hints=hints,
        **prospects,
    )


def _prospects(problem: Problem, matrix: Array) -> dict[str, Any]:
    """Say which budget reaches the goal of a linear model, where least loss is another aim than the goal's region."""
    shortest = shortest_linear_move(problem, matrix) if problem.query.probability is None else None
    if shortest is None or not shortest.any():
        return {}
    least = float(problem.allowance.norm.length(shortest))
    return {"reachable": least < problem.query_budget * (1 - SURELY), "suffices": ENOUGH.format(least)}


def solve_on_table(problem: Problem, settings: ProjectedGradient, model: Any = None) -> Proposal:
    """Move the query alone, within its limits, against the model, bound to unmoved people unless it is given."""
    people, size = problem.people, problem.people.size
    measured = problem.measured(query=True).of(np.array([size]))
    training = CostUnits(model or problem.training(), measured.columns, measured.costs, problem.query_features)
    fit = training.fit(training.moved(None), training.start(), TIGHT)
    query, target = training.point, problem.goal_target
    whole, steps = Lattice(measured), 0

    def judged(move: Array) -> tuple[float, Array]:
        """Return the loss at a move (1, d), and its slopes."""
        loss, _, slope = training.goal(fit.parameters, query + move[0], target)
        return loss, slope[None]

    def with_rest(move: Array) -> Array:
        """Re-optimise what need not be whole."""
        if whole.discrete.all():
            return move
        fixed = np.where(whole.discrete, move, 0.0)
        limits = FeasibleRegions(whole.rest(fixed), ONE)

        def evaluate(points: Array, rows: NDArray[np.intp]) -> tuple[Array, Array]:
            loss, slope = judged(points[0] + fixed)
            return np.array([loss]), slope[None]

        objective = BatchedObjective(
            evaluate=evaluate,
            project=lambda points, rows: limits.project(points[0])[None],
            inner=lambda left, right, rows: np.array([(left * right).sum()]),
            gap=lambda points, slopes, rows: np.array([limits.gap(points[0], slopes[0])]),
        )
        rest = (move - fixed)[None]
        first = np.array([limits.span(evaluate(rest, np.zeros(1, dtype=np.intp))[1][0])])
        found = minimise(objective, rest, first, settings.most_steps, settings.smallest_gap)
        return whole.settled(found.points[0] + fixed, move)

    here = with_rest(np.zeros((1, measured.columns.size)))
    loss, slopes = judged(here)
    for steps in range(1, MOST_ROUNDS + 1):  # noqa: B007
        others = [whole.settled(whole.response(-slopes), here), *whole.changed(here)]
        best = with_rest(min(others, key=lambda move: judged(move)[0]))
        better, there = judged(best)
        if not better < loss - GAINED * abs(loss):
            break
        here, loss, slopes = best, better, there
    everywhere = FeasibleRegions(measured.unruled, ONE)
    return Proposal(
        plan=member_plan(problem, measured.exactly(here)[0], np.zeros((size, people.dimensions))),
        solver="exchanges",
        claimed_loss=loss,
        gap=everywhere.gap(here, slopes),
        exact=everywhere.nobody_moves,
        finished=steps < MOST_ROUNDS,
        steps=steps,
        passes=training.passes,
        residual=fit.residual,
    )


class QuerysOwnMove(Solver):
    """The query's own move against a trained model, by projected gradient; on a table every value is tried."""

    name, settings, verbs = "projected-gradient", ProjectedGradient, ("individual",)
    serves = BALLS - {"rounds", "black box"}

    def refusal(self, task: Task) -> str | None:
        """Return why nearest centroid's own solver is asked, or the usual reasons."""
        if not task.needs & (REFITTED - {"side effects"}):
            return "is for trained models, and nearest centroid has a solver of its own"
        return super().refusal(task)

    def propose(self, task: Task, settings: ProjectedGradient) -> Proposal:
        """Move the query alone."""
        no_restarts(settings)
        no_idle_draws(settings, starts_at_random(task.problem))
        found = solve if task.problem.limits is None else solve_on_table
        return found(task.problem, searching(settings, SEARCH))


class JointOnTable(ForDescent):
    """Members and query of a table, who do no worse together than either does alone if they start from there."""

    name, verbs, requires, around = "joint on a table", ("joint",), frozenset({"table"}), STEPWISE

    def propose(self, task: Task, settings: Any) -> Proposal:
        """Ask for the members' plan and the query's, and start from them: side effects are the whole's."""
        within = tuple({*task.within, "side effects", "batch norm"} - {"several queries"})
        members = task.ask(verb="collective", starts=(), anchors=None, within=within).plan
        alone = members, solve_on_table(task.problem, ProjectedGradient()).plan
        starts = [np.vstack([plan.each, plan.query_move]) for plan in alone if isinstance(plan, MemberPlan)]
        return task.ask(starts=[*task.starts, *starts], within=self.inside(task))

"""HOW IT IS SOLVED: solvers propose, the audit decides.

`propose_collective`, `propose_individual` and `propose_joint` choose by name or settings.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from oar.actions.limits.limit import Limit
from oar.errors import OptionError
from oar.estimators.black_box.box import BlackBox
from oar.goals.keep import Anchors
from oar.models import Differentiable, TestTimeBatchNorm
from oar.models.linear.losses import Linear
from oar.plans import MemberPlan, Proposal
from oar.problem import Problem
from oar.progress import OnStep
from oar.solvers.batch_norm import planning as batch_norm
from oar.solvers.black_box import planning as outside
from oar.solvers.black_box.settings import DirectSearch, Surrogate
from oar.solvers.black_box.surrogate import planning as outside_plan
from oar.solvers.centroids import exact as centroid
from oar.solvers.centroids import paper, projected_gradient, query_moves
from oar.solvers.centroids.sweep import Sweep, sweep
from oar.solvers.descent import parts as streamed
from oar.solvers.descent import retrained
from oar.solvers.discrete import levers
from oar.solvers.outer import best_members as best
from oar.solvers.outer import several_queries as queries
from oar.solvers.outer import side_effects as keeping
from oar.solvers.query import own_move
from oar.solvers.query import own_table_move as own_table
from oar.solvers.query.shortest_move import shortest_move
from oar.solvers.settings import Exact, FrankWolfe, OneShot, Paper, ProjectedGradient, as_solver

__all__ = [
    "DirectSearch",
    "Exact",
    "FrankWolfe",
    "OneShot",
    "Paper",
    "ProjectedGradient",
    "Surrogate",
    "Sweep",
    "propose_collective",
    "propose_individual",
    "propose_joint",
    "shortest_move",
    "sweep",
]


FEW, MORE, MANY = 2_000, 20_000, 1_000_000  # members' moves, as numbers


def propose_collective(
    problem: Problem,
    solver: Any = "auto",
    signal: Any = "auto",
    on_step: OnStep | None = None,
    starts: Sequence[np.ndarray] = (),
) -> Proposal:
    """Members move, are relabelled or leave; the model is refitted. Not audited: use `oar.collective` for that.

    `starts` are more moves (n + 1, d) to start from, the query's last, for models that are refitted in the loop.
    """
    if problem.people.streamed and not problem.model.plain_means:
        return streamed.solve(problem, solver, signal, on_step)
    if isinstance(problem.model, BlackBox):
        return outside.propose_members(problem, solver, signal, _for_surrogates, on_step)
    if problem.best is not None:

        def chosen_few(few: Problem) -> Proposal:
            return propose_collective(few, solver, signal, on_step, starts)

        return best.solve(problem, chosen_few, signal, query=False)
    if problem.levers is not None:
        if problem.keep is not None:
            problem.only_moves("a plan that must leave others alone")
        _no_idle_options(problem, solver, signal)
        return levers.solve(problem, lambda moves: propose_collective(moves, solver, signal, on_step), on_step)
    if problem.keep is not None:
        return _keeping(problem, solver, signal, False, on_step)
    if _is_refitted(problem):

        def loop(kind: Any) -> Proposal:
            return _propose_retrained(problem, kind, signal, False, on_step, starts)

        by_batch = isinstance(problem.model, TestTimeBatchNorm)
        return batch_norm.solve(problem, solver, signal, loop) if by_batch else loop(solver)
    _no_signal(signal)
    return _propose_centroids(problem, solver)


def _propose_centroids(problem: Problem, solver: Any) -> Proposal:
    chosen = as_solver(solver, Exact(), (Exact, ProjectedGradient, Paper))
    if isinstance(chosen, Exact):
        return centroid.solve(problem)
    if isinstance(chosen, Paper):
        return paper.solve(problem, members=True, query=False)
    _no_restarts(chosen)
    why = "" if problem.allowance.same_for_everyone else "members have budgets of their own, and none starts at random"
    _no_idle_draws(chosen, why)
    return projected_gradient.solve(problem, chosen)


def propose_individual(problem: Problem, solver: Any = "auto") -> Proposal:
    """The query moves, the model stays. Not audited: use `oar.individual` for that."""
    problem.only_moves("individual recourse")
    problem.only_one("individual recourse")
    if isinstance(problem.model, BlackBox):
        return outside.propose_query(problem, solver)
    if _is_refitted(problem):
        chosen = as_solver(solver, ProjectedGradient(), (ProjectedGradient,))
        _no_restarts(chosen)
        _no_idle_draws(chosen, _starts_at_random(problem))
        return (own_move.solve if problem.limits is None else own_table.solve)(problem, chosen)
    return _propose_query_move(problem, solver, members=False)


def propose_joint(
    problem: Problem, solver: Any = "auto", signal: Any = "auto", on_step: OnStep | None = None
) -> Proposal:
    """Members and query move. Not audited: use `oar.joint` for that."""
    problem.only_moves("joint recourse")
    problem.only_one("joint recourse")
    if isinstance(problem.model, BlackBox):
        return outside.propose_members(problem, solver, signal, _for_surrogates, on_step, query=True)
    if problem.best is not None:
        return best.solve(problem, lambda few: propose_joint(few, solver, signal, on_step), signal, query=True)
    if problem.keep is not None:
        return _keeping(problem, solver, signal, True, on_step)
    if _is_refitted(problem):
        return _propose_retrained(problem, solver, signal, True, on_step)
    _no_signal(signal)
    return _propose_query_move(problem, solver, members=True)


def _is_refitted(problem: Problem) -> bool:
    """Report whether the model is refitted in a loop: nearest centroid is, with limits or goals that are not simple."""
    return problem.limits is not None or not problem.model.plain_means or not problem.plain


def _propose_query_move(problem: Problem, solver: Any, members: bool) -> Proposal:
    chosen = as_solver(solver, ProjectedGradient(), (ProjectedGradient, Paper))
    if isinstance(chosen, ProjectedGradient):
        _no_restarts(chosen)
        _no_idle_draws(chosen, "")
        return query_moves.solve(problem, members, chosen)
    return paper.solve(problem, members, query=True)


def _propose_retrained(
    problem: Problem,
    solver: Any,
    signal: Any,
    query: bool,
    on_step: OnStep | None,
    starts: Sequence[np.ndarray] = (),
    anchors: Anchors | None = None,
) -> Proposal:
    # Of a table, best responses are quick (a knapsack) and whole, and projections are slow.
    usual = FrankWolfe() if _moves_in_steps(problem) else ProjectedGradient()
    chosen = as_solver(solver, usual, (ProjectedGradient, FrankWolfe, OneShot))
    if isinstance(chosen, FrankWolfe) and _moves_in_steps(problem):
        _no_idle_settings(chosen)
    if not isinstance(chosen, OneShot):
        given = {name: value for name, value in vars(chosen).items() if value is not None}
        chosen = dataclasses.replace(chosen, **(_suitable(problem, type(chosen)) | given))
        _no_idle_draws(chosen, _starts_at_random(problem))
    starts = list(starts)
    if query and problem.limits is not None and not isinstance(chosen, OneShot):
        # Members and query do no worse together than either does alone if they start from there.
        alone = (
            _propose_retrained(problem, solver, signal, False, on_step).plan,
            own_table.solve(problem, ProjectedGradient()).plan,
        )
        starts += [np.vstack([plan.each, plan.query_move]) for plan in alone if isinstance(plan, MemberPlan)]
    if problem.query.several != "mean" or problem.undecided:
        return queries.solve(problem, chosen, signal, query, on_step, starts, anchors)
    return retrained.solve(problem, chosen, signal, query, on_step, starts, None, None, anchors)


def _for_surrogates(problem: Problem, query: bool) -> Proposal:
    """Plan for models that stand in for a black box: they are not the truth, so that last digits do not matter."""
    solver: Any = "auto"
    if outside_plan.suits(problem):
        return outside_plan.quick_plan(problem, query)
    if problem.moves and problem.limits is None:
        convex = problem.model.convex
        solver = ProjectedGradient(max_steps=100 if convex else 20, tolerance=1e-4, restarts=0)
    return propose_joint(problem, solver) if query else propose_collective(problem, solver)


def _keeping(problem: Problem, solver: Any, signal: Any, query: bool, on_step: OnStep | None) -> Proposal:
    """Solve with limits on what may change for others."""

    def propose(asked: Problem, anchors: Anchors | None) -> Proposal:
        return _propose_retrained(asked, solver, signal, query, on_step, (), anchors)

    return keeping.solve(problem, propose)


def _moves_in_steps(problem: Problem) -> bool:
    """Report whether people of a table may change something that has whole steps or levels."""
    if problem.limits is None:
        return False
    assert problem.people.schema is not None
    free = Limit()
    limits = {column.name: problem.limits.columns.get(column.name, free) for column in problem.people.schema}
    own = {name for one in problem.limits.own.values() for name in one}
    return any(
        (column.whole or limits[column.name].step is not None)
        and (not limits[column.name].immutable or column.name in own)
        for column in problem.people.schema
    )


def _no_idle_settings(settings: FrankWolfe) -> None:
    usual = FrankWolfe()
    for name in ("restarts", "line_search", "seed"):
        if getattr(settings, name) != getattr(usual, name):
            raise OptionError(
                f"{name}: does nothing where moves are whole, as on this table; leave it out, or use "
                "solver='projected-gradient'."
            )


def _suitable(problem: Problem, kind: type) -> dict[str, Any]:
    """Return settings that suit the problem: the loss has several minima, and some are looked at where steps are quick.

    A step takes a millisecond with few people and a linear model, and the training of a network from scratch elsewhere.
    """
    numbers = problem.people.size * problem.people.dimensions
    model = problem.model
    if isinstance(model, Differentiable) and not model.convex:
        return {"max_steps": 20, "tolerance": 1e-5, "restarts": 0}
    if problem.limits is not None:  # moves are made whole afterwards, so that the last digits do not matter
        return {"max_steps": 100, "tolerance": 1e-4 if numbers <= MANY else 1e-3, "restarts": 0}
    restarts = (24, 8, 0) if isinstance(problem.model, Linear) else (8, 0, 0)
    size = 0 if numbers <= FEW else 1 if numbers <= MORE else 2
    steps, tolerance = (2_000, 1e-7) if size == 0 else (500, 1e-6)
    if kind is FrankWolfe:
        steps, tolerance = 500, 1e-5
    return {"max_steps": steps, "tolerance": tolerance, "restarts": restarts[size]}


def _no_restarts(settings: ProjectedGradient) -> None:
    if settings.restarts or settings.time_limit < float("inf"):
        raise OptionError(
            "restarts and time_limit: are for refits in a loop, and nothing is refitted in a loop here; leave them out."
        )


def _starts_at_random(problem: Problem) -> str:
    """Return why the query's own move is not looked for from random starts, or ""."""
    if problem.limits is not None:
        return "on a table every value is tried instead"
    if problem.several:
        return "several people ask, and none has a move of its own"
    model = problem.model
    if isinstance(model, Differentiable) and model.linear:
        return f"the query's loss is convex in its own move for {model.name}, and one start is enough"
    return ""


def _no_idle_draws(settings: Any, why: str) -> None:
    """Refuse settings of random starts where nothing starts at random; `why` not, or "" where the query's move does."""
    drawn = getattr(settings, "random_starts", 0)
    if why and drawn != ProjectedGradient.random_starts and isinstance(settings, ProjectedGradient):
        raise OptionError(f"random_starts: does nothing here, because {why}; leave it out, got {drawn!r}.")
    if settings.seed != type(settings).seed and not settings.restarts and (why or not drawn):
        because = why or "random_starts is 0"
        raise OptionError(
            f"seed: is that of random starts, of which there are none here, because {because}; leave it out, got "
            f"{settings.seed!r}."
        )


def _no_idle_options(problem: Problem, solver: Any, signal: Any) -> None:
    """Refuse settings for moves where nobody may move."""
    for name, value in (("solver", solver), ("signal", signal)):
        if value != "auto" and not problem.moves:
            raise OptionError(f"{name}: is for moves, and nobody may move here; leave it out, got {value!r}.")


def _no_signal(signal: Any) -> None:
    if signal != "auto":
        raise OptionError(f"signal: nearest centroid is solved without one; leave it out, got {signal!r}.")

"""The solvers of the package, in the order in which they are asked: each says when, and calls what computes."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from oar.actions.limits.limit import Limit
from oar.errors import OptionError
from oar.models import Differentiable
from oar.models.linear.losses import Linear
from oar.plans import MemberPlan, Proposal
from oar.problem import Problem
from oar.solvers import registry
from oar.solvers.batch_norm import planning as batch_norm
from oar.solvers.black_box import planning as black_box
from oar.solvers.black_box.settings import DirectSearch, Surrogate
from oar.solvers.black_box.surrogate import planning as surrogate_planning
from oar.solvers.centroids import exact as centroid
from oar.solvers.centroids import paper, projected_gradient, query_moves
from oar.solvers.descent import parts, retrained
from oar.solvers.discrete import levers
from oar.solvers.outer import best_members, several_queries, side_effects
from oar.solvers.query import own_move, own_table_move
from oar.solvers.registry import EVERYTHING, REFITTED, Solver, Task, Wrapper, propose
from oar.solvers.rounds.planning import propose_online
from oar.solvers.settings import (
    EFFORTS,
    Exact,
    FrankWolfe,
    OneShot,
    Paper,
    ProjectedGradient,
    current_effort,
    default_effort,
)

FEW, MORE, MANY = 2_000, 20_000, 1_000_000  # members' moves, as numbers
SEARCH = {"max_steps": 2_000, "tolerance": 1e-8}  # as `ProjectedGradient` says, where nothing is refitted in a loop
IN_PARTS = {"max_steps": 500, "tolerance": 1e-6}
BALLS = EVERYTHING - {"own set"}
IN_MEMORY = EVERYTHING - {"rounds", "black box", "parts"}


class OverRounds(Solver):
    """Plans over several rounds, which choose among themselves by the rule and the goal."""

    requires = frozenset({"rounds"})

    def propose(self, task: Task, settings: Any) -> Any:
        """Pass on what was asked: which solvers apply depends on the rule."""
        return propose_online(task.problem, task.solver, task.signal, task.on_step)


class ExactOverRounds(OverRounds):
    """The optimum over rounds, for nearest centroid; "auto" finds it by way of `GradientOverRounds`."""

    name, settings, auto = "exact", Exact, False


class GradientOverRounds(OverRounds):
    """Projected gradient through all rounds; asked for "auto", the optimum where it is known."""

    name, settings = "projected-gradient", ProjectedGradient


class FrankWolfeOverRounds(OverRounds):
    """Damped best responses through all rounds."""

    name, settings, auto = "frank-wolfe", FrankWolfe, False


class OneShotOverRounds(OverRounds):
    """One response to the signals before any move."""

    name, settings, auto = "one-shot", OneShot, False


class InParts(Solver):
    """Projected gradient for people in parts, on a signal path."""

    name, settings, requires, serves = "projected-gradient", ProjectedGradient, frozenset({"parts"}), BALLS

    def propose(self, task: Task, settings: ProjectedGradient) -> Proposal:
        """Move members along a signal path."""
        return parts.solve(task.problem, _searching(settings, IN_PARTS), task.signal, task.on_step)


class OfBlackBox(Solver):
    """Plans for models that can only be trained and asked."""

    requires, serves = frozenset({"black box"}), BALLS

    def propose(self, task: Task, settings: Any) -> Proposal:
        """Pass on what was asked: "auto" searches where nothing is known exactly."""
        solver = "auto" if task.is_auto else settings
        if task.verb == "individual":
            return black_box.propose_query(task.problem, solver)
        joint = task.verb == "joint"
        return black_box.propose_members(task.problem, solver, task.signal, _for_surrogates, task.on_step, query=joint)


class SearchOfBlackBox(OfBlackBox):
    """Direct search by true trainings; asked for "auto", the optimum where it is known."""

    name, settings, verbs = "direct-search", DirectSearch, ("individual", "collective", "joint")


class ExactOfBlackBox(OfBlackBox):
    """The optimum for single trees and nearest neighbours."""

    name, settings, verbs, auto = "exact", Exact, ("individual", "collective"), False


class SurrogateOfBlackBox(OfBlackBox):
    """A plan for models that stand in for the black box."""

    name, settings, verbs, auto = "surrogate", Surrogate, ("collective", "joint"), False


class BestMembers(Wrapper):
    """The most useful members: choices of them are planned for, by whichever solver was named."""

    name, verbs = "best members", ("collective", "joint")
    requires, serves = frozenset({"best"}), IN_MEMORY

    def propose(self, task: Task, settings: Any) -> Proposal:
        """Choose members, and ask for a plan of each choice."""
        return best_members.solve(task.problem, lambda few: task.ask(problem=few), task.signal, query=task.query)


class OtherLevers(Wrapper):
    """Other labels and strikes, by turns with moves."""

    name, requires, serves = "levers", frozenset({"levers"}), IN_MEMORY

    def propose(self, task: Task, settings: Any) -> Proposal:
        """Choose labels and leavers, and ask for moves in between."""
        if task.problem.keep is not None:
            task.problem.only_moves("a plan that must leave others alone")
        _no_idle_options(task.problem, task.solver, task.signal)
        return levers.solve(task.problem, lambda moves: task.ask(problem=moves, starts=()), task.on_step)


class ForDescent(Wrapper):
    """Wrappers of the descent, which hand it losses or starts of their own."""

    verbs: ClassVar[tuple[str, ...]] = ("collective", "joint")
    serves = IN_MEMORY - {"best", "levers"}

    def takes(self, solver: Any) -> bool:
        """Report whether the descent is asked for."""
        return any(kind().takes(solver) for kind in DESCENTS)


class Thorough(ForDescent):
    """Thorough effort: a plan with normal effort, then a search from there; the better of the two counts."""

    name, verbs = "thorough", ("collective", "joint")
    serves = EVERYTHING - {"black box", "parts"}

    def takes(self, solver: Any) -> bool:
        """Report whether a descent is asked for that has starts."""
        return super().takes(solver) and not _is_one_shot(solver)

    def refusal(self, task: Task) -> str | None:
        """Return why one plan is enough."""
        if not current_effort().repeats or not task.needs & (REFITTED | {"rounds"}):
            return "is for thorough effort where models are refitted in a loop"
        return super().refusal(task)

    def propose(self, task: Task, settings: Any) -> Any:
        """Ask twice, and return the plan whose claimed loss is lower."""
        within = (*task.within, self.name)
        with default_effort("normal"):
            usual = task.ask(within=within)
        if usual.exact:
            return usual
        more = task.ask(within=within, starts=[*task.starts, *_ends(task, usual)])
        best = usual if usual.claimed_loss <= more.claimed_loss else more
        return dataclasses.replace(best, steps=usual.steps + more.steps, passes=usual.passes + more.passes)


def _ends(task: Task, found: Any) -> list[np.ndarray]:
    """Return where a plan ends as a start, where all that is searched over is everybody's moves."""
    if not isinstance(found.plan, MemberPlan) or task.needs & {"best", "levers", "side effects"}:
        return []
    return [np.vstack([found.plan.each, found.plan.query_move])]


class WithoutSideEffects(ForDescent):
    """Plans that must leave others alone: people whose predictions change become anchors."""

    name, requires = "side effects", frozenset({"side effects"})

    def propose(self, task: Task, settings: Any) -> Proposal:
        """Ask for plans with anchors, and with smaller budgets, until the limits are kept."""
        within = (*task.within, self.name)

        def plan(problem: Problem, anchors: Any) -> Proposal:
            return task.ask(problem=problem, anchors=anchors, starts=(), within=within)

        return side_effects.solve(task.problem, plan)


class ThroughBatchNorm(Wrapper):
    """Test-time batch norm: exact for one layer, and with proofs about what the descent finds."""

    name, requires, serves = (
        "batch norm",
        frozenset({"batch norm"}),
        IN_MEMORY - {"best", "levers", "side effects", "own set"},
    )

    def propose(self, task: Task, settings: Any) -> Proposal:
        """Solve exactly, or ask for a descent."""
        within = (*task.within, self.name)
        return batch_norm.solve(
            task.problem, task.solver, task.signal, lambda solver: task.ask(solver=solver, within=within)
        )


def _is_one_shot(solver: Any) -> bool:
    return solver == OneShot() or solver == OneShotDescent.name


class JointOnTable(ForDescent):
    """Members and query of a table, who do no worse together than either does alone if they start from there."""

    name, verbs, requires = "joint on a table", ("joint",), frozenset({"table"})

    def takes(self, solver: Any) -> bool:
        """Report whether a descent is asked for that has starts."""
        return super().takes(solver) and not _is_one_shot(solver)

    def propose(self, task: Task, settings: Any) -> Proposal:
        """Ask for the members' plan and the query's, and start from them."""
        alone = (
            task.ask(verb="collective", starts=(), anchors=None, within=_inside(task)).plan,
            own_table_move.solve(task.problem, ProjectedGradient()).plan,
        )
        starts = [np.vstack([plan.each, plan.query_move]) for plan in alone if isinstance(plan, MemberPlan)]
        return task.ask(starts=[*task.starts, *starts], within=(*task.within, self.name))


class SeveralQueries(ForDescent):
    """Goals that one smooth loss does not tell: the worst of several, how many, or any of several classes."""

    name, requires = "several queries", frozenset({"goals"})

    def refusal(self, task: Task) -> str | None:
        """Return why one smooth loss will do."""
        refused = super().refusal(task)
        if refused is None and task.problem.query.several == "mean" and not task.problem.undecided:
            return "is for goals that one smooth loss does not tell"
        return refused

    def propose(self, task: Task, settings: Any) -> Proposal:
        """Ask for a plan of each loss that may stand in, and take the best by what is asked."""
        within = (*task.within, self.name)
        return several_queries.solve(task.problem, lambda **loss: task.ask(within=within, **loss))


def _inside(task: Task) -> tuple[str, ...]:
    """Return the wrappers of a task for a part of it that is solved on its own: side effects are the whole's."""
    return tuple({*task.within, WithoutSideEffects.name, ThroughBatchNorm.name} - {SeveralQueries.name})


class RefittedDescent(Solver):
    """First-order descent on true refits, from several starts."""

    verbs = ("collective", "joint")
    serves = IN_MEMORY - {"best", "levers"}

    def refusal(self, task: Task) -> str | None:
        """Return why nothing is refitted in a loop, or the usual reasons."""
        if "rounds" not in task.needs and not task.needs & REFITTED:
            return "is for models that are refitted in a loop, and nearest centroid is solved without"
        if task.verb == "joint" and "own set" in task.needs:
            return "does not know what the query may do by an action of one's own"
        return super().refusal(task)

    def propose(self, task: Task, settings: Any) -> Proposal:
        """Settle what was left open, and descend."""
        problem = task.problem
        if isinstance(settings, FrankWolfe) and _moves_in_steps(problem):
            _no_idle_settings(settings)
        if not isinstance(settings, OneShot):
            settings = _settled(problem, settings)
        return retrained.solve(
            problem,
            settings,
            task.signal,
            task.query,
            task.on_step,
            task.starts,
            task.together,
            task.by,
            task.anchors,
        )


class FrankWolfeDescent(RefittedDescent):
    """Damped best responses, which on a table are quick (a knapsack) and integer; projections are slow there."""

    name, settings = "frank-wolfe", FrankWolfe

    def refusal(self, task: Task) -> str | None:
        """Return why "auto" rather takes projected gradient, or the usual reasons."""
        if task.is_auto and not _moves_in_steps(task.problem):
            return "is taken by name, or where moves are integer"
        return super().refusal(task)


class GradientDescent(RefittedDescent):
    """Projected gradient with spectral steps."""

    name, settings = "projected-gradient", ProjectedGradient


class OneShotDescent(RefittedDescent):
    """One signal, one full response, one refit."""

    name, settings, auto = "one-shot", OneShot, False


DESCENTS = (GradientDescent, FrankWolfeDescent, OneShotDescent)


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
        _no_restarts(settings)
        _no_idle_draws(settings, _starts_at_random(task.problem))
        solver = own_move if task.problem.limits is None else own_table_move
        return solver.solve(task.problem, _searching(settings, SEARCH))


class OfCentroids(Solver):
    """Plain class means, one label as goal, and moves within balls."""

    verbs: ClassVar[tuple[str, ...]] = ("collective",)
    serves = frozenset()

    def refusal(self, task: Task) -> str | None:
        """Return why it is for nearest centroid alone."""
        if "retraining" in task.needs:
            return "is for nearest centroid"
        return super().refusal(task)


class ExactCentroids(OfCentroids):
    """The closed-form global optimum."""

    name, settings = "exact", Exact

    def propose(self, task: Task, settings: Exact) -> Proposal:
        """Solve in closed form."""
        _no_signal(task.signal)
        return centroid.solve(task.problem)


class CentroidsByGradient(OfCentroids):
    """A second opinion that does not know the closed form."""

    name, settings, auto = "projected-gradient", ProjectedGradient, False

    def propose(self, task: Task, settings: ProjectedGradient) -> Proposal:
        """Minimise over all members' moves."""
        _no_signal(task.signal)
        _no_restarts(settings)
        alike = task.problem.allowance.same_for_everyone
        _no_idle_draws(settings, "" if alike else "members have budgets of their own, and none starts at random")
        return projected_gradient.solve(task.problem, _searching(settings, SEARCH))


class QueryAmongCentroids(OfCentroids):
    """The query's own move, and the members' with it, from many starts."""

    name, settings, verbs = "projected-gradient", ProjectedGradient, ("individual", "joint")

    def refusal(self, task: Task) -> str | None:
        """Return the usual reasons; alone, the query affects nobody, whoever else could act."""
        if task.verb == "individual" and not task.needs & (REFITTED - {"side effects"} | {"black box", "rounds"}):
            return None
        return super().refusal(task)

    def propose(self, task: Task, settings: ProjectedGradient) -> Proposal:
        """Move the query, and in joint recourse everybody."""
        _no_signal(task.signal)
        _no_restarts(settings)
        _no_idle_draws(settings, "")
        return query_moves.solve(task.problem, task.verb == "joint", _searching(settings, SEARCH))


class PaperAmongCentroids(OfCentroids):
    """The paper's heuristic: one gradient, normalised to the budget."""

    name, settings, verbs, auto = "paper", Paper, ("individual", "collective", "joint"), False

    def refusal(self, task: Task) -> str | None:
        """Return the usual reasons; alone, the query affects nobody, whoever else could act."""
        if task.verb == "individual" and not task.needs & (REFITTED - {"side effects"} | {"black box", "rounds"}):
            return None
        return super().refusal(task)

    def propose(self, task: Task, settings: Paper) -> Proposal:
        """Follow one gradient."""
        _no_signal(task.signal)
        return paper.solve(task.problem, task.verb != "individual", query=task.query)


def _for_surrogates(problem: Problem, query: bool) -> Proposal:
    """Plan for models that stand in for a black box: they are not the truth, so that last digits do not matter."""
    solver: Any = "auto"
    if surrogate_planning.suits(problem):
        return surrogate_planning.quick_plan(problem, query)
    if problem.moves and problem.limits is None:
        convex = problem.model.convex
        solver = ProjectedGradient(max_steps=100 if convex else 20, tolerance=1e-4, restarts=0)
    found: Proposal = propose(Task(problem, "joint" if query else "collective", solver))
    return found


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


def _settled(problem: Problem, settings: Any) -> Any:
    """Return settings in which what was left open suits the problem and the effort."""
    usual, effort = _suitable(problem, type(settings)), current_effort()
    _no_idle_draws(dataclasses.replace(settings, **(usual | _given(settings))), _starts_at_random(problem))
    settings = effort.settled(settings)
    return dataclasses.replace(settings, **(effort.loop(usual, random=problem.limits is None) | _given(settings)))


def _searching(settings: ProjectedGradient, usual: dict[str, Any]) -> ProjectedGradient:
    """Return settings of a search in which nothing is refitted at random, with more or less effort than usual."""
    effort = current_effort()
    if effort is EFFORTS["normal"]:
        return settings
    settings = effort.settled(settings)
    return dataclasses.replace(settings, **(effort.loop(usual) | _given(settings)))


def _given(settings: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(settings).items() if value is not None}


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


OURS: tuple[type[Solver], ...] = (
    Thorough,
    ExactOverRounds,
    GradientOverRounds,
    FrankWolfeOverRounds,
    OneShotOverRounds,
    InParts,
    ExactOfBlackBox,
    SurrogateOfBlackBox,
    SearchOfBlackBox,
    BestMembers,
    OtherLevers,
    WithoutSideEffects,
    ThroughBatchNorm,
    JointOnTable,
    SeveralQueries,
    ExactCentroids,
    FrankWolfeDescent,
    GradientDescent,
    CentroidsByGradient,
    QuerysOwnMove,
    QueryAmongCentroids,
    OneShotDescent,
    PaperAmongCentroids,
)
registry.fill(OURS)

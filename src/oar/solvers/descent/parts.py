"""Collective recourse for people who are not in memory: the one descent, with a signal path in place of moves.

A step of the descent reads the data

    once        to take the step, and to look at the risk where it leads (which the refit would ask for first)
    r times     for what else the refit needs, most often four gradients, seldom a Hessian
    c times     for the products that solve H v = g, most often three to six
    once        for the new gradients, the gap, and the length of the next step

The query's own move goes beside the path; where only members move its budget is 0. There are no other starts than where
everyone stands and, where that ends above it, the move by minus the query's own best move, so that a collective is
never worse than an individual who may move as far. Members and query together begin where members alone end, and where
the query alone does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from oar.actions.sets.norms import Norm
from oar.errors import OptionError
from oar.models.training import Array, Fit
from oar.plans import Proposal
from oar.plans.plan import SignalPathPlan
from oar.problem import Problem
from oar.progress import deadline
from oar.signals.implicit import Implicit
from oar.solvers.descent.descent import BEGIN, DescentEnd, DescentSettings, LossPoint, descend
from oar.solvers.descent.retrained import CLEAR, ENDED
from oar.solvers.feasible.sets import FeasibleMoves
from oar.solvers.query.move_search import best_own_move
from oar.solvers.registry import BALLS, Solver, Task, searching
from oar.solvers.settings import ProjectedGradient, given_settings
from oar.streaming import SignalPath, Stride
from oar.streaming.passes import PathSums
from oar.tolerances import TIGHT

MOST_STEPS = 500
TOLERANCE = 1e-6


class PathAndOwn(NamedTuple):
    """Where everybody has moved to: the members' signal path, and the query's own move (d,)."""

    walk: SignalPath
    own: Array


class StrideAndOwn(NamedTuple):
    """A gradient: the stride from which each member's follows, and the query's (d,)."""

    stride: Stride
    own: Array


@dataclass(frozen=True, eq=False)
class FittedPoint:
    """A refit to people in parts: the fit, ∇_θ and ∇_x of the queries' loss, and v once it is known."""

    fit: Fit
    pull: Array
    slope: Array
    signal: Array | None = None


class PartsObjective:
    """Refits as sums over parts: moves are a signal path, gradients a stride of length 0 (θ and v)."""

    def __init__(self, problem: Problem, training: Any, tolerance: float) -> None:
        """`tolerance` is that of the solves with the Hessian."""
        self._problem, self._training, self._tolerance = problem, training, tolerance

    def refit(self, moves: PathAndOwn, near: LossPoint | None, precision: float) -> LossPoint:
        """Return the point of a path."""
        training, problem = self._training, self._problem
        start = training.start() if near is None else near.kept.fit.parameters
        fit = training.fit(training.moved(moves.walk), start, precision)
        loss, pull, slope = training.goal(fit.parameters, problem.first_query + moves.own, problem.goal_target)
        return LossPoint(moves, loss, FittedPoint(fit, pull, slope), fit.converged, fit.residual)

    def tighten(self, point: LossPoint, precision: float) -> LossPoint:
        """Return the same point, refitted more tightly."""
        tighter = self.refit(point.moves, point, precision)
        kept = replace(tighter.kept, signal=point.kept.signal)
        return replace(tighter, kept=kept, gradient=point.gradient, signal_norm=point.signal_norm)

    def differentiate(self, point: LossPoint, near: LossPoint | None) -> LossPoint:
        """Return the same point with θ and v, from which everyone's gradient follows."""
        fit, start = point.kept.fit, None if near is None else near.kept.signal
        signal = self._training.solve(fit, point.kept.pull, start, self._tolerance)
        norm = max(1.0, float(np.linalg.norm(signal)))
        gradient = StrideAndOwn(self._training.stride(fit, signal), point.kept.slope)
        return replace(point, kept=replace(point.kept, signal=signal), gradient=gradient, signal_norm=norm)


class PathsInBalls(FeasibleMoves[PathAndOwn, StrideAndOwn]):
    """Everyone's ball, for moves that are a signal path: each question is one pass over the data.

    The query, who weighs 1, moves within a ball of its own.
    """

    def __init__(self, training: Any, largest: float, norm: Norm, own: float) -> None:
        """`largest` is the members' largest budget, `own` the query's."""
        self._training, self._largest, self._norm, self._own = training, largest, norm, own
        self._seen, self._slope = PathSums(), 0.0

    def project(self, moves: PathAndOwn) -> PathAndOwn:
        """Return the path: each of its steps ends within everyone's ball."""
        return moves._replace(own=self._nearest(moves.own))

    def _nearest(self, own: Array) -> Array:
        return self._norm.project(own[None], np.array([self._own]))[0]

    def ahead(self, moves: PathAndOwn, gradient: StrideAndOwn, length: float) -> tuple[PathAndOwn, float]:
        """Return the path with a projected step more, and the slope of the way there."""
        stride = replace(gradient.stride, length=length)
        self._slope = self._training.advance(moves.walk, stride)
        own = self._nearest(moves.own - length * gradient.own)
        return PathAndOwn(moves.walk.then(stride), own), self._slope + float(gradient.own @ (own - moves.own))

    def between(self, moves: PathAndOwn, aim: PathAndOwn, share: float) -> PathAndOwn:
        """Return the path at this share of its last step."""
        if share == 1:
            return aim
        stride = replace(aim.walk.strides[-1], share=share)
        self._training.advance(moves.walk, stride)
        return PathAndOwn(moves.walk.then(stride), self._nearest(moves.own + share * (aim.own - moves.own)))

    def gap(self, moves: PathAndOwn, gradient: StrideAndOwn) -> float:
        """Return the Frank–Wolfe gap."""
        self._seen = self._training.compare(moves.walk, gradient.stride, None)
        return self._seen.gap + self._own_gap(moves, gradient)

    def _own_gap(self, moves: PathAndOwn, gradient: StrideAndOwn) -> float:
        farthest = self._own * float(self._norm.dual.length(gradient.own))
        return max(farthest + float(gradient.own @ moves.own), 0.0)

    def span(self, gradient: StrideAndOwn) -> float:
        """Return the step at which the steepest of the gradients that were seen last makes the largest budget."""
        steepest = max(self._seen.steepest, float(np.abs(gradient.own).max()) if self._own else 0.0)
        return max(self._largest, self._own) / steepest if steepest > 0 else 1.0

    def compare(
        self, before: tuple[PathAndOwn, StrideAndOwn], after: tuple[PathAndOwn, StrideAndOwn]
    ) -> tuple[float, float, float]:
        """Return ⟨s, s⟩, ⟨s, y⟩ and the gap: of y, the change of gradients, the old half is known from the slope."""
        (last, old), (moves, gradient) = before, after
        self._seen = self._training.compare(moves.walk, gradient.stride, last.walk)
        curvature = self._seen.along - moves.walk.strides[-1].share * self._slope
        change = moves.own - last.own
        turn = float(change @ (gradient.own - old.own))
        gap = self._seen.gap + self._own_gap(moves, gradient)
        return self._seen.squared + float(change @ change), curvature + turn, gap


def check(problem: Problem, settings: ProjectedGradient, signal: Any) -> None:
    """Refuse what needs everybody in memory."""
    problem.only_balls("planning for people in parts")
    problem.only_moves("planning for people in parts")
    if problem.asked.members is not None:
        raise OptionError(
            "query: must be people with features of their own for planning for people in parts, got oar.Members who "
            "move; use oar.Members(…, stay=True), or people.loaded() if they fit into memory."
        )
    if problem.best is not None:
        raise OptionError(
            "participants: oar.Best needs everybody in memory; give a mask or a share, or use people.loaded()."
        )
    if signal not in ("auto", "implicit") and not isinstance(signal, Implicit):
        raise OptionError(
            f"signal: people in parts are planned for by the implicit signal, got {signal!r}; leave it out."
        )
    if settings.restarts:
        raise OptionError("restarts: random starts need everybody in memory; leave it out, or use people.loaded().")


class _Run:
    """One search: from where everyone stands, and maybe from elsewhere."""

    def __init__(self, task: Task, settings: ProjectedGradient) -> None:
        self.problem, self.settings, self._task = task.problem, settings, task
        loop: dict[str, Any] = IN_PARTS | given_settings(settings)
        ends = deadline(settings.time_limit)
        self._settings = DescentSettings(settings.response, loop["max_steps"], loop["tolerance"], ends)
        self._solved: float = getattr(task.signal, "tolerance", Implicit.tolerance)
        people: Any = self.problem.people
        self._people, self._before = people, replace(people.engine.traffic)
        self.training: Any = self.problem.training(task.together, task.by, task.anchors)
        self._stay = np.zeros(people.dimensions)
        self._objective = PartsObjective(self.problem, self.training, self._solved)
        self.steps = 0

    def proposal(self) -> Proposal:
        """Search, and say what was found."""
        problem, training, objective = self.problem, self.training, self._objective
        unmoved = objective.refit(PathAndOwn(SignalPath(), self._stay), None, BEGIN)
        found = self._members(unmoved)
        if self._task.query:
            found = self._together(unmoved, found)
        best = final = found.point
        if best.signal_norm * best.residual > CLEAR * abs(best.loss):
            final = objective.refit(best.moves, best, TIGHT)
        closed = found.ended == "closed"
        return Proposal(
            plan=SignalPathPlan(
                problem,
                best.moves.own + 0.0,
                best.moves.walk,
                training.spec,
                training.in_given_units(best.kept.fit.parameters),
                training.in_given_units(best.kept.signal),
                training,
            ),
            solver="projected-gradient",
            claimed_loss=final.loss,
            gap=found.gap,
            exact=False,
            finished=closed,
            ended="" if closed else ENDED[found.ended],
            steps=self.steps,
            passes=training.passes,
            note=self._note(),
            residual=final.residual,
        )

    def _members(self, unmoved: LossPoint) -> DescentEnd:
        """Move members alone: from where they stand, and from a shift of all where that may be better."""
        found = self._descended(unmoved, 0.0)
        shift = self._shift(unmoved.kept.fit, found.loss)
        if shift is None:
            return found
        shifted = self._objective.refit(PathAndOwn(SignalPath((), shift), self._stay), unmoved, BEGIN)
        return min(found, self._descended(shifted, 0.0), key=_loss)

    def _together(self, unmoved: LossPoint, members: DescentEnd) -> DescentEnd:
        """Move the query, too: from where members alone end, and from its own best move."""
        problem = self.problem
        problem.only_one("joint recourse")
        budget = problem.query_budget
        own = best_own_move(problem, self.training, budget, unmoved.kept.fit, self.settings)
        alone = self._objective.refit(PathAndOwn(SignalPath(), own.move), unmoved, BEGIN)
        return min((self._descended(one, budget) for one in (members.point, alone)), key=_loss)

    def _descended(self, began: LossPoint, own: float) -> DescentEnd:
        """Descend from a point, the query within a ball of its own; steps are counted on from those before."""
        before, allowance = self.steps, self.problem.allowance

        def counted(number: int, loss: float, gap: float) -> None:
            self.steps = before + number
            self._task.on_step(self.steps, loss, gap)

        feasible = PathsInBalls(self.training, float(np.max(allowance.budget)), allowance.norm, own)
        return descend(self._objective, feasible, began.moves, self._settings, counted, began)

    def _note(self) -> str:
        people = self._people
        sent = people.engine.traffic.since(self._before)
        told = f" Workers were sent a signal and sent sums back: {sent}." if sent.rounds else ""
        parts = "1 part" if len(people.parts) == 1 else f"{len(people.parts):,} parts"
        return f"Read in {parts}. H v = g was solved to {self._solved:.0e} of ‖g‖.{told}"

    def _shift(self, unmoved: Fit, loss: float) -> Array | None:
        """Return minus the query's own best move where that does better than what was found, and all may make it."""
        problem = self.problem
        able = problem.model.equivariant and problem.everyone_acts and np.max(problem.allowance.budget) > 0
        if not able or problem.several or self._task.anchors:
            return None
        shared = float(np.min(problem.allowance.budget))
        own = best_own_move(problem, self.training, shared, unmoved, self.settings)
        return -own.move if own.loss < loss else None


def _loss(end: DescentEnd) -> float:
    return end.loss


IN_PARTS = {"max_steps": MOST_STEPS, "tolerance": TOLERANCE}


class InParts(Solver):
    """Projected gradient for people in parts, on a signal path."""

    name, settings, requires, serves = "projected-gradient", ProjectedGradient, frozenset({"parts"}), BALLS
    verbs: ClassVar[tuple[str, ...]] = ("collective", "joint")
    behind: ClassVar[dict[str, str]] = {"goals": "several queries", "side effects": "side effects"}

    def propose(self, task: Task, settings: ProjectedGradient) -> Proposal:
        """Move members along a signal path."""
        settings = searching(settings, IN_PARTS)
        check(task.problem, settings, task.signal)
        return _Run(task, settings).proposal()

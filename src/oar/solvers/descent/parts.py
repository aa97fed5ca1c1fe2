"""Collective recourse for people who are not in memory: the one descent, with a signal path in place of moves.

A step of the descent reads the data

    once        to take the step, and to look at the risk where it leads (which the refit would ask for first)
    r times     for what else the refit needs, most often four gradients, seldom a Hessian
    c times     for the products that solve H v = g, most often three to six
    once        for the new gradients, the gap, and the length of the next step

There are no other starts than where everyone stands and, where that ends above it, the move by minus the query's own
best move, so that a collective is never worse than an individual who may move as far.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oar.errors import OptionError
from oar.models.training import Fit
from oar.plans import Proposal
from oar.plans.plan import SignalPathPlan
from oar.problem import Problem
from oar.progress import OnStep, deadline
from oar.signals.implicit import Implicit
from oar.solvers.descent.descent import BEGIN, DescentEnd, DescentSettings, LossPoint, descend
from oar.solvers.descent.retrained import CLEAR, ENDED
from oar.solvers.feasible.sets import FeasibleMoves
from oar.solvers.query.move_search import best_own_move
from oar.solvers.registry import BALLS, Solver, Task, searching
from oar.solvers.settings import ProjectedGradient, given_settings
from oar.streaming import SignalPath, StreamedTraining, Stride
from oar.streaming.passes import PathSums
from oar.tolerances import TIGHT

MOST_STEPS = 500
TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class FittedPoint:
    """A refit to people in parts: the fit, ∇_θ of the query's loss, and v once it is known."""

    fit: Fit
    pull: np.ndarray
    signal: np.ndarray | None = None


class PartsObjective:
    """Refits as sums over parts: moves are a signal path, gradients a stride of length 0 (θ and v)."""

    def __init__(self, problem: Problem, training: StreamedTraining, tolerance: float) -> None:
        """`tolerance` is that of the solves with the Hessian."""
        self._problem, self._training, self._tolerance = problem, training, tolerance

    def refit(self, moves: SignalPath, near: LossPoint | None, precision: float) -> LossPoint:
        """Return the point of a path."""
        training, problem = self._training, self._problem
        start = training.start() if near is None else near.kept.fit.parameters
        fit = training.fit(training.moved(moves), start, precision)
        loss, pull, _ = training.goal(fit.parameters, problem.query_features, problem.goal_target)
        return LossPoint(moves, loss, FittedPoint(fit, pull), fit.converged, fit.residual)

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
        gradient = self._training.stride(fit, signal)
        return replace(point, kept=replace(point.kept, signal=signal), gradient=gradient, signal_norm=norm)


class PathsInBalls(FeasibleMoves[SignalPath, Stride]):
    """Everyone's ball, for moves that are a signal path: each question is one pass over the data."""

    def __init__(self, training: StreamedTraining, largest: float) -> None:
        """`largest` is the largest budget."""
        self._training, self._largest = training, largest
        self._seen, self._slope = PathSums(), 0.0

    def project(self, moves: SignalPath) -> SignalPath:
        """Return the path: each of its steps ends within everyone's ball."""
        return moves

    def ahead(self, moves: SignalPath, gradient: Stride, length: float) -> tuple[SignalPath, float]:
        """Return the path with a projected step more, and the slope of the way there."""
        stride = replace(gradient, length=length)
        self._slope = self._training.advance(moves, stride)
        return moves.then(stride), self._slope

    def between(self, moves: SignalPath, aim: SignalPath, share: float) -> SignalPath:
        """Return the path at this share of its last step."""
        if share == 1:
            return aim
        stride = replace(aim.strides[-1], share=share)
        self._training.advance(moves, stride)
        return moves.then(stride)

    def gap(self, moves: SignalPath, gradient: Stride) -> float:
        """Return the Frank–Wolfe gap."""
        self._seen = self._training.compare(moves, gradient, None)
        return self._seen.gap

    def span(self, gradient: Stride) -> float:
        """Return the step at which the steepest of the gradients that were seen last makes the largest budget."""
        return self._largest / self._seen.steepest if self._seen.steepest > 0 else 1.0

    def compare(
        self, before: tuple[SignalPath, Stride], after: tuple[SignalPath, Stride]
    ) -> tuple[float, float, float]:
        """Return ⟨s, s⟩, ⟨s, y⟩ and the gap: of y, the change of gradients, the old half is known from the slope."""
        (last, _), (moves, gradient) = before, after
        self._seen = self._training.compare(moves, gradient, last)
        curvature = self._seen.along - moves.strides[-1].share * self._slope
        return self._seen.squared, curvature, self._seen.gap


def check(problem: Problem, settings: ProjectedGradient, signal: Any) -> None:
    """Refuse what needs everybody in memory."""
    problem.only_balls("planning for people in parts")
    problem.only_one("planning for people in parts")
    problem.only_moves("planning for people in parts")
    if not problem.plain:
        raise OptionError(
            f"query: must be one person with one label or value as goal for planning for people in parts, got "
            f"{problem.goal_words}; use people.loaded() if they fit into memory."
        )
    for what, asked in (("keep", problem.keep), ("participants", problem.best)):
        if asked is not None:
            raise OptionError(f"{what}: needs everybody in memory; leave it out, or use people.loaded() if they fit.")
    if signal not in ("auto", "implicit") and not isinstance(signal, Implicit):
        raise OptionError(
            f"signal: people in parts are planned for by the implicit signal, got {signal!r}; leave it out."
        )
    if settings.restarts:
        raise OptionError("restarts: random starts need everybody in memory; leave it out, or use people.loaded().")


class _Run:
    """One search: from where everyone stands, and maybe from a common shift."""

    def __init__(self, problem: Problem, settings: ProjectedGradient, signal: Any, on_step: OnStep) -> None:
        self.problem, self.settings, self._on_step = problem, settings, on_step
        loop: dict[str, Any] = IN_PARTS | given_settings(settings)
        ends = deadline(settings.time_limit)
        self._settings = DescentSettings(settings.response, loop["max_steps"], loop["tolerance"], ends)
        self._solved: float = getattr(signal, "tolerance", Implicit.tolerance)
        self._before = replace(problem.people.engine.traffic)  # type: ignore[attr-defined]
        self.training: Any = problem.training()
        radii = problem.allowance
        self._largest = float(np.max(radii.budget))
        self._objective = PartsObjective(problem, self.training, self._solved)
        self._feasible = PathsInBalls(self.training, self._largest)
        self.steps = 0

    def proposal(self) -> Proposal:
        """Search, and say what was found."""
        problem, training, objective = self.problem, self.training, self._objective
        unmoved = objective.refit(SignalPath(), None, BEGIN)
        found = self._descended(unmoved)
        shift = self._shift(unmoved.kept.fit, found.loss)
        if shift is not None:
            found = min(
                found, self._descended(objective.refit(SignalPath((), shift), unmoved, BEGIN)), key=lambda end: end.loss
            )
        best = final = found.point
        if best.signal_norm * best.residual > CLEAR * abs(best.loss):
            final = objective.refit(best.moves, best, TIGHT)
        closed = found.ended == "closed"
        return Proposal(
            plan=SignalPathPlan(
                problem,
                np.zeros(problem.people.dimensions),
                best.moves,
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

    def _descended(self, began: LossPoint) -> DescentEnd:
        """Descend from a point; steps are counted on from those before."""
        before = self.steps

        def counted(number: int, loss: float, gap: float) -> None:
            self.steps = before + number
            self._on_step(self.steps, loss, gap)

        return descend(self._objective, self._feasible, began.moves, self._settings, counted, began)

    def _note(self) -> str:
        people = self.training.people
        sent = people.engine.traffic.since(self._before)
        told = f" Workers were sent a signal and sent sums back: {sent}." if sent.rounds else ""
        parts = "1 part" if len(people.parts) == 1 else f"{len(people.parts):,} parts"
        return f"Read in {parts}. H v = g was solved to {self._solved:.0e} of ‖g‖.{told}"

    def _shift(self, unmoved: Fit, loss: float) -> np.ndarray | None:
        """Return minus the query's own best move where that does better than what was found, and all may make it."""
        problem = self.problem
        if not problem.model.equivariant or not problem.everyone_acts or not self._largest:
            return None
        shared = float(np.min(problem.allowance.budget))
        own = best_own_move(problem, self.training, shared, unmoved, self.settings)
        return -own.move if own.loss < loss else None


IN_PARTS = {"max_steps": MOST_STEPS, "tolerance": TOLERANCE}


class InParts(Solver):
    """Projected gradient for people in parts, on a signal path."""

    name, settings, requires, serves = "projected-gradient", ProjectedGradient, frozenset({"parts"}), BALLS

    def propose(self, task: Task, settings: ProjectedGradient) -> Proposal:
        """Move members along a signal path."""
        settings = searching(settings, IN_PARTS)
        check(task.problem, settings, task.signal)
        return _Run(task.problem, settings, task.signal, task.on_step).proposal()

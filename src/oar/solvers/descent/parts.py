"""Collective recourse for people who are not in memory: the one loop, with a walk in place of moves.

The steps are those of `loop`: spectral projected gradient on true refits, with Armijo's search. A step of the outer
loop reads the data

    once        to take the step, and to look at the risk where it leads (which the refit would ask for first)
    r times     for what else the refit needs, most often four gradients, seldom a Hessian
    c times     for the products that solve H v = g, most often three to six
    once        for the new gradients, the gap, and the length of the next step

There are no other starts than where everyone stands and, where that ends above it, the move by minus the query's own
best move, so that a collective is never worse than an individual who may move as far.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oar.errors import OptionError
from oar.interrupts import check_interrupted
from oar.models.training import Fit
from oar.plans import Proposal
from oar.plans.parts_plan import SignalPathPlan
from oar.problem import Problem
from oar.progress import OnStep
from oar.signals.implicit import Implicit
from oar.solvers.descent.line_search import MOST_TRIALS, SUFFICIENT
from oar.solvers.descent.loop import BEGIN, FAR, FINEST, ROUNDING
from oar.solvers.descent.retrained import CLEAR, ENDED, TIGHT
from oar.solvers.query.own_move import best_own_move
from oar.solvers.settings import ProjectedGradient, as_solver
from oar.streaming import SignalPath, StreamedTraining, Stride
from oar.streaming.passes import PathSums

MOST_STEPS = 500
TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Place:
    """A walk, the refit at its end with the query's loss, and the signal there."""

    walk: SignalPath
    fit: Fit
    loss: float
    pull: np.ndarray
    signal: np.ndarray | None = None

    @property
    def reach(self) -> float:
        """‖v‖, by which a loose refit leaves the loss uncertain."""
        return 1.0 if self.signal is None else max(1.0, float(np.linalg.norm(self.signal)))


def solve(problem: Problem, solver: Any, signal: Any, on_step: OnStep | None = None) -> Proposal:
    """Move the members to the least goal loss found."""
    settings = as_solver(solver, ProjectedGradient(), (ProjectedGradient,))
    check(problem, settings, signal)
    run = _Run(problem, settings, signal, on_step)
    return run.proposal()


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
    if problem.keep is not None or problem.best is not None:
        what = "keep" if problem.keep is not None else "participants"
        raise OptionError(f"{what}: needs everybody in memory; leave it out, or use people.loaded() if they fit.")
    if signal not in ("auto", "implicit") and not isinstance(signal, Implicit):
        raise OptionError(
            f"signal: people in parts are planned for by the implicit signal, got {signal!r}; leave it out."
        )
    if settings.restarts:
        raise OptionError("restarts: random starts need everybody in memory; leave it out, or use people.loaded().")


class _Run:
    """One search: from where everyone stands, and maybe from a common shift."""

    def __init__(self, problem: Problem, settings: ProjectedGradient, signal: Any, on_step: OnStep | None) -> None:
        self.problem, self.settings, self._on_step = problem, settings, on_step
        self._tolerance = TOLERANCE if settings.tolerance is None else settings.tolerance
        self._most = MOST_STEPS if settings.max_steps is None else settings.max_steps
        self._deadline = time.monotonic() + settings.time_limit
        self._solved = signal.tolerance if isinstance(signal, Implicit) else Implicit().tolerance
        self._before = replace(problem.people.engine.traffic)  # type: ignore[attr-defined]
        self.training = StreamedTraining(problem)
        radii = problem.allowance
        self._largest = radii.budget if isinstance(radii.budget, float) else float(np.max(radii.budget))
        self.steps = 0

    def proposal(self) -> Proposal:
        """Search, and say what was found."""
        problem, training = self.problem, self.training
        unmoved = self._refitted(SignalPath(), None, BEGIN)
        best, gap, ended = self._improved(unmoved)
        shift = self._shift(unmoved.fit, best.loss)
        if shift is not None:
            begun = self._refitted(SignalPath((), shift), unmoved, BEGIN)
            other, its_gap, why = self._improved(begun)
            if other.loss < best.loss:
                best, gap, ended = other, its_gap, why
        final = best
        if best.reach * best.fit.residual > CLEAR * abs(best.loss):
            final = self._refitted(best.walk, best, TIGHT)
        assert best.signal is not None
        return Proposal(
            plan=SignalPathPlan(
                problem,
                np.zeros(problem.people.dimensions),
                best.walk,
                training.spec,
                training.in_given_units(best.fit.parameters),
                training.in_given_units(best.signal),
                training,
            ),
            solver="projected-gradient",
            claimed_loss=final.loss,
            gap=gap,
            bound=problem.model.least_loss,
            exact=False,
            impossible=False,
            finished=ended == "closed",
            ended="" if ended == "closed" else ENDED[ended],
            steps=self.steps,
            passes=training.passes,
            note=self._note(),
            residual=final.fit.residual,
        )

    def _note(self) -> str:
        people = self.training.people
        sent = people.engine.traffic.since(self._before)
        told = f" Workers were sent a signal and sent sums back: {sent}." if sent.rounds else ""
        parts = "1 part" if len(people.parts) == 1 else f"{len(people.parts):,} parts"
        return f"Read in {parts}. H v = g was solved to {self._solved:.0e} of ‖g‖.{told}"

    def _refitted(self, walk: SignalPath, near: Place | None, precision: float) -> Place:
        training, problem = self.training, self.problem
        start = training.start() if near is None else near.fit.parameters
        fit = training.fit(training.moved(walk), start, precision)
        loss, pull, _ = training.goal(fit.parameters, problem.query_features, problem.goal_target)
        return Place(walk, fit, loss, pull)

    def _signalled(self, place: Place, before: Place | None) -> Place:
        start = None if before is None else before.signal
        return replace(place, signal=self.training.solve(place.fit, place.pull, start, self._solved))

    def _span(self, seen: PathSums) -> float:
        """Return the step at which the steepest gradient makes the largest budget: the unit of steps."""
        return self._largest / seen.steepest if seen.steepest > 0 else 1.0

    def _improved(self, place: Place) -> tuple[Place, float, str]:
        """Lower the loss until the gap closes or the settings say stop; return where, the gap there, and why."""
        training = self.training
        place = self._signalled(place, None)
        seen = training.compare(place.walk, self._stride(place), None)
        alpha, careful, taken = FAR * self._span(seen), False, 0
        while True:
            check_interrupted()
            ended = self._ended(place.loss, seen.gap, taken)
            if ended:
                return place, seen.gap, ended
            stride = self._stride(place, alpha)
            slope = training.advance(place.walk, stride)
            precision = FINEST if careful else float(np.clip(1e-2 * -slope / place.reach, FINEST, 1e-6))
            if (careful or place.reach * place.fit.residual > 0.1 * -slope) and place.fit.residual > FINEST:
                tighter = self._refitted(place.walk, place, precision)
                place = replace(tighter, signal=place.signal)
            found = self._searched(place, stride, slope, precision)
            if found is None or not found.loss < place.loss - ROUNDING * abs(place.loss):
                if careful:
                    return place, seen.gap, "stalled"
                careful, alpha = True, min(alpha, self._span(seen))
                continue
            careful, last = False, place
            place = self._signalled(found, last)
            seen = training.compare(place.walk, self._stride(place), last.walk)
            # Barzilai–Borwein, ⟨s, s⟩ / ⟨s, y⟩: of y, the change of gradients, the old half is known from the slope.
            bend, far = seen.along - place.walk.strides[-1].share * slope, FAR * self._span(seen)
            alpha = min(seen.squared / bend, far) if bend > 0 else far
            taken, self.steps = taken + 1, self.steps + 1
            if self._on_step is not None:
                self._on_step(self.steps, place.loss, seen.gap)

    def _stride(self, place: Place, length: float = 0.0) -> Stride:
        assert place.signal is not None
        return self.training.stride(place.fit, place.signal, length)

    def _searched(self, place: Place, stride: Stride, slope: float, precision: float) -> Place | None:
        """Shorten the way until the loss falls enough (Armijo); None if it never does."""
        if not slope < 0:
            return None
        share = 1.0
        for _ in range(MOST_TRIALS):
            if share < 1:
                self.training.advance(place.walk, replace(stride, share=share))
            trial = self._refitted(place.walk.then(replace(stride, share=share)), place, precision)
            loss = trial.loss if trial.fit.converged and np.isfinite(trial.loss) else np.inf
            if loss <= place.loss + SUFFICIENT * share * slope:
                return trial
            rise = loss - place.loss - share * slope
            guess = -slope * share**2 / (2 * rise) if 0 < rise < np.inf else 0.5 * share
            share = float(np.clip(guess, 0.1 * share, 0.5 * share))
        return None

    def _ended(self, loss: float, gap: float, steps: int) -> str:
        if gap <= self._tolerance * abs(loss):
            return "closed"
        if steps >= self._most:
            return "steps"
        return "time" if time.monotonic() > self._deadline else ""

    def _shift(self, unmoved: Fit, loss: float) -> np.ndarray | None:
        """Return minus the query's own best move where that does better than what was found, and all may make it."""
        problem = self.problem
        if not problem.model.equivariant or not problem.everyone_acts or not self._largest:
            return None
        shared = problem.allowance.budget
        shared = shared if isinstance(shared, float) else float(np.min(shared))
        own = best_own_move(problem, self.training, shared, unmoved, self.settings)
        return -own.move if own.loss < loss else None

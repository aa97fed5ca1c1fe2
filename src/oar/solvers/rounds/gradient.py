"""Planning over time by gradients: the walk's slopes, everyone's limits, several starts, and a certificate."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError
from oar.goals.wishes import Aggregate
from oar.models import Differentiable
from oar.models.training import Fit
from oar.online import Back, OnlineProblem, Path, Rollout
from oar.progress import OnStep
from oar.solvers.descent.loop import FAR
from oar.solvers.feasible.balls import FeasibleBalls
from oar.solvers.feasible.shared_budgets import SharedBudgets
from oar.solvers.query.own_move import best_own_move
from oar.solvers.rounds.descent import DescentEnd, DescentPoint, DescentSettings, Landscape, RoundFeasibleSet, descend
from oar.solvers.rounds.timing import leverage
from oar.solvers.settings import FrankWolfe, ProjectedGradient

Array = NDArray[np.float64]
SLOWLY = 1.0  # budgets: the longest first step of a start that grows
MOST_ROUNDS = 6  # from which shared budgets are all spent in one, to start with


def limits_of(problem: OnlineProblem) -> RoundFeasibleSet:
    """Return everyone's limits: a ball for each row, and where rounds share it one budget for all rows of a person."""
    norm = problem.everyone.allowance.norm
    if not problem.has_totals:
        return FeasibleBalls(norm, problem.radii, np.ones(problem.radii.size))
    return SharedBudgets(norm, problem.radii, persons_of(problem), problem.totals)


def persons_of(problem: OnlineProblem) -> NDArray[np.intp]:
    """Return whose row each is, as 0, 1, …."""
    who = problem.stream.who
    return np.arange(problem.radii.size) if who is None else np.unique(who, return_inverse=True)[1].ravel()


@dataclass(eq=False)
class Terrain:
    """A problem as something to descend on: it counts how often all rounds are walked."""

    walk: Rollout
    walks: int = 0
    last: tuple[Path, Back] | None = None

    @classmethod
    def of(cls, problem: OnlineProblem, together: Aggregate | None = None, by: int | None = None) -> Terrain:
        """Return it for a problem; several queries' losses become one by `together`."""
        return cls(Rollout(problem, together, by))

    @property
    def landscape(self) -> Landscape:
        """What `descend` asks for."""
        return Landscape(self.forward, self.slopes)

    def forward(self, moves: Array) -> DescentPoint:
        """Walk all rounds that matter: the loss is that of the last, or the mean over all."""
        self.walks += 1
        path = self.walk.forward(moves, counted=True)
        return DescentPoint(float(self.walk.problem.weights @ path.losses), path)

    def slopes(self, moves: Array, walked: DescentPoint) -> Array:
        """Walk back: dL/dδ (n, d)."""
        return self.back(moves, walked).gradient

    def back(self, moves: Array, walked: DescentPoint) -> Back:
        """Walk back, and keep what was broadcast."""
        self.walks += 1
        return self.walk.gradient(walked.path, moves)


@dataclass(frozen=True, eq=False)
class RoundSearchResult:
    """What a search found: the best end of all starts, the slopes (n, d) and loss before any move, and its cost."""

    best: DescentEnd
    slopes_before: Array
    loss_before: float
    steps: int
    walks: int
    passes: int


def search(
    problem: OnlineProblem,
    settings: ProjectedGradient | FrankWolfe,
    on_step: OnStep | None = None,
    together: Aggregate | None = None,
    by: int | None = None,
) -> RoundSearchResult:
    """Return the best of several descents."""
    terrain, limits = Terrain.of(problem, together, by), limits_of(problem)
    assert settings.max_steps is not None
    assert settings.tolerance is not None
    kind = "spectral" if isinstance(settings, ProjectedGradient) else "frank-wolfe"
    deadline = time.monotonic() + settings.time_limit
    descent = DescentSettings(kind, settings.max_steps, settings.tolerance, deadline)
    stay = np.zeros((problem.radii.size, problem.stream.people.dimensions))
    unmoved = terrain.forward(stay)
    slopes = terrain.slopes(stay, unmoved)
    best = descend(terrain.landscape, limits, stay, descent, FAR, on_step, unmoved)
    steps = best.steps
    for start, longest in _starts(problem, settings, limits, terrain, unmoved, slopes, best):
        if time.monotonic() > deadline or best.loss <= _least(problem):
            break
        with suppress(NumericsError):  # where it cannot be trained, other starts stand
            found = descend(terrain.landscape, limits, start, descent, longest, on_step)
            steps += found.steps
            best = min(best, found, key=lambda end: end.loss)
    return RoundSearchResult(best, slopes, unmoved.loss, steps, terrain.walks, terrain.walk.passes)


def _least(problem: OnlineProblem) -> float:
    """Return a loss than which none can be less."""
    return problem.model.least_loss


def _starts(
    problem: OnlineProblem,
    settings: ProjectedGradient | FrankWolfe,
    limits: RoundFeasibleSet,
    terrain: Terrain,
    unmoved: DescentPoint,
    slopes: Array,
    first: DescentEnd,
) -> Iterator[tuple[Array, float]]:
    """Yield more places to start from, and how long the first step may be there.

    Grown slowly from where everybody stands; everyone alike, where that gives the query what its own best move would;
    where budgets are shared, all of them spent in one round; and at random.
    """
    stay = np.zeros_like(first.moves)
    convex = problem.model.convex
    if isinstance(settings, ProjectedGradient) and (settings.restarts or first.ended != "closed") and convex:
        yield stay, SLOWLY
    alike = _everyone_alike(problem, terrain, unmoved)
    if alike is not None:
        yield alike, SLOWLY
    if isinstance(limits, SharedBudgets) and settings.restarts:
        yield from ((start, SLOWLY) for start in _in_one_round(problem, limits, slopes))
    rng = np.random.default_rng(settings.seed)
    for _ in range(settings.restarts or 0):
        yield limits.respond(rng.standard_normal(stay.shape)), SLOWLY


def _in_one_round(problem: OnlineProblem, limits: SharedBudgets, slopes: Array) -> Iterator[Array]:
    """Yield full responses in one round alone, for the rounds of most leverage.

    Everybody's choosing when to act makes many minima, in which some act early and some late.
    """
    levers, when = leverage(problem, slopes), problem.stream.when
    for number in np.argsort(-levers, kind="stable")[:MOST_ROUNDS]:
        yield limits.respond(np.where((when == number)[:, None], slopes, 0.0))


def _everyone_alike(problem: OnlineProblem, terrain: Terrain, unmoved: DescentPoint) -> Array | None:
    """Return everyone by minus the query's own best move; None where that promises nothing.

    Where training is translation-equivariant, all who are read move, and nothing else is remembered, everybody's
    moving by −m changes the last model as the query's moving by m would. Then a plan is no worse than the query alone.
    """
    model, everyone = problem.model, problem.everyone
    dominated = isinstance(model, Differentiable) and model.equivariant and everyone.plain
    if not dominated or problem.has_totals or problem.remembers or problem.has_history or not problem.radii.min() > 0:
        return None
    last = problem.rounds - 1
    training = terrain.walk.update(last, None, None).training
    fit = Fit(unmoved.path.parameters[last], training.moved(None), 0.0, True)
    move = best_own_move(everyone, training, float(problem.radii.min()), fit).move
    return np.broadcast_to(-move, (problem.radii.size, move.size)).copy()

"""Many starts of one small problem side by side: what a search with random starts does one after the other.

Twice a dozen projected-gradient searches (`spectral`), whose refits are one compiled call (`linear.lanes`): first
from where everybody stands and from random places, then from random places about the best of these. Compiling takes
about two seconds, so that this pays for those who ask about the same people again and again, as a study does.

Only ends are of interest. They are starts for the descent (`retrained`), which refits by other code, closes the gap and
decides; what is wrong here can cost gain, but no truth.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, repeat

import numpy as np

from oar.errors import NumericsError
from oar.models import SoftmaxRegression
from oar.models.linear.lanes import RefitsSideBySide
from oar.models.linear.training import LinearTraining
from oar.models.training import Array
from oar.plans import Proposal
from oar.problem import Problem
from oar.solvers import FEW, ProjectedGradient, propose_collective
from oar.solvers.descent.starts import ABOUT_THE_BEST, ANYWHERE, KINDS, RandomStarts
from oar.solvers.feasible.sets import FeasibleBalls
from oar.solvers.query.move_search import BatchedObjective, Minimum, Rows, minimise

LANES = 12
STEPS = 120
TOLERANCE = 1e-8  # a tenth of the descent's: where a search has ended, the descent's gap is closed at once
KEPT, ALIKE = 3, 1e-6  # ends that are returned, and the share of the loss by which two of them must differ
MOST_PARAMETERS, MOST_WORK = 50, 500_000  # p, and n·p²: a lane's Hessian; beyond, a refit takes longer than its call
CONVERGED = 1e-6  # how tight the refit to unmoved people is, which only shows that there is one


def suits(problem: Problem) -> bool:
    """Report whether a problem is one of those: few people, softmax regression, one query, balls without corners."""
    if not (
        type(problem.model) is SoftmaxRegression
        and not problem.people.streamed
        and problem.only_free_moves
        and problem.allowance.norm.p == 2
    ):
        return False
    people, dimensions = problem.people.size, problem.people.dimensions
    parameters = problem.goal_target.size * (dimensions + 1)
    return people * dimensions <= FEW and parameters <= MOST_PARAMETERS and people * parameters**2 <= MOST_WORK


def propose(problem: Problem) -> Proposal:
    """Return `propose_collective`'s answer, with its random starts side by side; only for problems that suit."""
    moves, passes = searched(problem)
    if not moves:
        return propose_collective(problem)
    found = propose_collective(problem, ProjectedGradient(restarts=0), starts=moves)
    solver = f"{found.solver}, {2 * LANES} starts side by side"
    return replace(found, solver=solver, passes=passes + found.passes)


def searched(problem: Problem) -> tuple[list[Array], int]:
    """Return the ends (n + 1, d) of the best of two dozen searches, best first, and the passes of all of them.

    There are none where people as they stand cannot be fitted.
    """
    training = problem.training()
    try:
        fitted = training.fit(training.moved(None), training.start(), CONVERGED).converged
    except NumericsError:
        fitted = False
    if not fitted:
        return [], training.passes
    lanes, generator = _Lanes(problem, training), np.random.default_rng(0)
    random = RandomStarts(problem, lanes.limits)
    stay = np.zeros((problem.people.size + 1, problem.people.dimensions))

    def starts(best: Array, which: tuple[int, ...], count: int) -> list[Array]:
        draws = enumerate(generator.normal(size=stay.shape) for _ in repeat(None))
        some = ((number, draw) for number, draw in draws if number % KINDS in which)
        return [random.start(number, draw, best) for number, draw in islice(some, count)]

    first = lanes.run(np.stack([stay, *starts(stay, ANYWHERE, LANES - 1)]))
    best = first.points[first.values.argmin()]
    second = lanes.run(np.stack(starts(best, ABOUT_THE_BEST, LANES)))
    points, values = np.concatenate([first.points, second.points]), np.concatenate([first.values, second.values])
    kept: list[int] = []
    for place in values.argsort(kind="stable"):
        differs = all(abs(values[place] - values[other]) > ALIKE * abs(values[place]) for other in kept)
        if np.isfinite(values[place]) and differs and len(kept) < KEPT:
            kept.append(int(place))
    return [points[place] for place in kept], training.passes + lanes.refits.passes


class _Lanes:
    """One problem, searched from LANES starts at a time."""

    def __init__(self, problem: Problem, training: LinearTraining) -> None:
        self.refits = RefitsSideBySide(problem.model, training)  # type: ignore[arg-type]
        radii = np.append(problem.allowance.everyones(problem.people.size), 0.0)
        self.limits = FeasibleBalls(problem.allowance.norm, radii, np.append(training.weights, 1.0))
        self._query, self._target = problem.first_query, problem.goal_target

    def run(self, starts: Array) -> Minimum:
        """Search from each start (b, n + 1, d)."""
        limits, fits = self.limits, np.zeros((len(starts), *self.refits.shape))

        def evaluate(points: Array, rows: Rows) -> tuple[Array, Array]:
            # Always as many lanes, so that there is one compiled program; those that have ended look at the first one.
            lanes = np.zeros(len(starts), dtype=np.intp)
            lanes[: len(rows)] = np.arange(len(rows))
            given = points[lanes], self._query, self._target, fits[rows[lanes]]
            losses, slopes, found = self.refits.at(*given, lanes=len(rows))
            there = np.isfinite(losses)
            fits[rows[there]] = found[there]
            return losses.copy(), slopes

        def inner(left: Array, right: Array, rows: Rows) -> Array:
            return np.einsum("n,bnd,bnd->b", limits.weights, left, right)

        def gap(points: Array, slopes: Array, rows: Rows) -> Array:
            each = limits.radii * limits.norm.dual.length(slopes) + np.einsum("bnd,bnd->bn", slopes, points)
            return np.maximum(each, 0.0) @ limits.weights

        def project(points: Array, rows: Rows) -> Array:
            return limits.norm.project(points, limits.radii)

        with np.errstate(all="ignore"):  # losses are infinite where a refit did not converge
            points = project(starts, np.arange(len(starts)))
            _, slopes = evaluate(points, np.arange(len(starts)))
            lengths = np.array([limits.span(one) for one in slopes])
            return minimise(BatchedObjective(evaluate, project, inner, gap), points, lengths, STEPS, TOLERANCE)

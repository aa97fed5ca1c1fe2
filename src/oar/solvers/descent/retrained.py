"""Collective and joint recourse for models that are refitted in a descent.

The descent starts from where everybody stands, with a full response to the first signal. If it is not done after some
steps, the budget is large (the loss is far from linear in the moves); if it stalls, the loss has kinks. Then there is a
second start from moves that were grown slowly, for p = 2 and ∞ by quasi-Newton steps (`ball`), otherwise by letting
budgets grow. With networks the second start takes small steps, because their loss is never close to linear.

Where everyone may move and training is translation-equivariant, "all members move by minus the query's best move" gives
the query exactly what that move of its own would; if the descent ends above that, it starts from there too, so that the
collective is never worse than an individual who may move as far as every member may. Where steps are quick, or where
they are asked for, random starts follow (`starts`). All starts get a few steps, the better half of them goes on for
twice as many, and so on (`search`).

The loss is not convex in the moves, so nothing is proved to be optimal and nothing to be impossible. A gap that closes
on an approximate gradient certifies nothing, and is not called finished.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.own_action import ActionRegion
from oar.actions.sets.cost_region import CostRegion, on_bounds
from oar.errors import NumericsError
from oar.goals.keep import Anchors
from oar.goals.wishes import Aggregate
from oar.models.training import Fit, Training
from oar.models.wrap.cost_units import CostUnits
from oar.plans import MemberPlan, Proposal
from oar.problem import Problem
from oar.progress import OnStep
from oar.signals import Signal, as_signal
from oar.signals.base import Outcome, refit
from oar.solvers.descent.descent import BEGIN, FAR, DescentEnd, DescentSettings
from oar.solvers.descent.multistart import Search, Start
from oar.solvers.descent.single_refit import SingleRefit, signalled
from oar.solvers.descent.starts import other_starts
from oar.solvers.discrete.exchanges import made_whole
from oar.solvers.discrete.integer_moves import Lattice
from oar.solvers.feasible.regions import FeasibleRegions
from oar.solvers.feasible.sets import FeasibleBalls
from oar.solvers.settings import FrankWolfe, OneShot, ProjectedGradient

Array = NDArray[np.float64]
TIGHT = 1e-10
MOST_JUDGED = 3
CLEAR = 1e-8  # of the loss: what a refit may leave uncertain
CONVERGED = 1e-6  # a larger gradient after the first refit is not that of a minimum
FARTHEST = 1e9  # ranges of the features that anybody is sent
ENDED = {
    "steps": "It took all the steps it may take; allow more with max_steps.",
    "time": "Its time limit was over.",
    "stalled": (
        "No step along the signal lowers the loss any more, as at a kink, with a signal that is far from exact, or at "
        "the precision of refits: more steps would not help, but restarts or another signal may."
    ),
    "creeps": "Its last steps lowered the loss by next to nothing, as where the loss has kinks; restarts may help.",
    "closed": "Its certificate closed on a signal that is not exact, so it proves little; signal='implicit' is exact.",
}


def solve(
    problem: Problem,
    settings: ProjectedGradient | FrankWolfe | OneShot,
    signal: Any,
    query: bool,
    on_step: OnStep | None = None,
    starts: Sequence[Array] = (),
    together: Aggregate | None = None,
    by: int | None = None,
    anchors: Anchors | None = None,
) -> Proposal:
    """Move the members, and the query too if `query`, to the least goal loss found.

    `starts` are more moves (n + 1, d) to start from, the query's last. Several queries' losses become one
    by `together`; None means their mean. Of several classes that will do, `by` is the one that is to be predicted. The
    mean loss of `anchors` is added to the queries'.
    """
    people = problem.people
    training = problem.training(together, by, anchors)
    maker, chosen = as_signal(signal, training)
    measured = None if problem.limits is None else problem.measured(query)
    limits, point = _limits(problem, measured, training, query), problem.first_query
    if measured is not None:
        training = CostUnits(training, measured.columns, measured.costs, point)
        point = training.point
    convex, smooth = problem.model.convex, problem.model.smooth
    objective = SingleRefit(training, maker, point, problem.goal_target, from_scratch=not convex)
    search = Search(objective, limits, replace(_descent_settings(settings), tight=not smooth), on_step)
    stay = np.zeros((people.size + 1, point.size))
    unmoved = refit(training, None, point, problem.goal_target, None, BEGIN)
    if not unmoved.fit.converged and unmoved.fit.residual > CONVERGED:
        return _given_up(problem, training, unmoved.fit, _name(settings))
    whole_only = (
        measured is not None and not isinstance(settings, ProjectedGradient) and bool(Lattice(measured).discrete.any())
    )
    if whole_only:  # everyone's best responses are whole, so no loop of cut ones comes first
        step = maker.differentiate(training, unmoved, None)
        search.begin(DescentEnd(signalled(stay, step), np.inf, [step.loss], "steps"))
    else:
        search.run(Start(stay, FAR), unmoved)
    known = [start if measured is None else start[:, measured.columns] * measured.costs for start in starts]
    others = other_starts(problem, settings, search, unmoved.fit)
    for start in () if whole_only else chain(map(Start, known), others):
        with suppress(NumericsError):  # where it cannot be refitted, other starts stand
            search.run(start)
        if search.best.loss <= problem.model.least_loss:
            break  # nothing can be better
    if not whole_only:
        search.carried_on()
    if measured is not None:
        search.begin(made_whole(problem, search, measured, unmoved, known))
    best, final = _judged_tightly(search, stay, unmoved)
    # Rules only choose among moves, so what is proved goes by the limits without them.
    stuck = measured is not None and FeasibleRegions(measured.unruled, limits.weights).nobody_moves
    finished = stuck or isinstance(settings, OneShot) or (best.ended == "closed" and _trustworthy(maker, training))
    # θ and v as they apply to features in the caller's units
    given = getattr(training, "in_given_units", lambda vector: vector)
    signal = None if best.step.signal is None else given(best.step.signal)
    moves = best.moves + 0.0 if measured is None else measured.exactly(best.moves)
    if measured is not None and problem.limits is not None and problem.people.encoding is not None:
        features = np.asarray(problem.people.features, dtype=np.float64)
        moves[:-1] = on_bounds(problem.limits, problem.people.encoding, features, moves[:-1])
    return Proposal(
        plan=MemberPlan(problem, moves[-1], moves[:-1], given(best.step.fit.parameters), signal),
        solver=_name(settings),
        claimed_loss=final.loss,
        gap=0.0 if stuck else best.gap,
        exact=stuck,
        finished=finished,
        ended="" if finished else ENDED[best.ended],
        steps=search.steps,
        passes=training.passes,
        note=f"{chosen} {best.step.note}{_dominance(problem)}",
        residual=final.fit.residual,
        promised=not _dominance(problem),
    )


def _dominance(problem: Problem) -> str:
    """Return a sentence where the collective is not promised to be at least as good as the individual."""
    if problem.several:
        return ""
    if problem.limits is not None:
        return (
            " Where each has limits of its own, members cannot all do what the query could: a collective is not "
            "promised to do as well as an individual."
        )
    if getattr(problem.model, "frozen", False) and not problem.model.equivariant:
        return " With this model behind a frozen scaler, a collective is not promised to do as well as an individual."
    return ""


def _limits(
    problem: Problem, measured: CostRegion | None, training: Training, query: bool
) -> FeasibleBalls | FeasibleRegions:
    """Return everyone's limits: a ball, or of a table a region."""
    weights = np.append(training.weights, 1.0)
    if measured is not None:
        return FeasibleRegions(measured.region, weights)
    if problem.own_action is not None:
        everyones = np.append(problem.allowance.everyones(problem.people.size), 0.0)
        rows = np.vstack([problem.people.features, problem.first_query])
        region: Any = ActionRegion.of_people(problem.own_action, rows, everyones)
        return FeasibleRegions(region, weights)
    own = problem.query_budget if query else 0.0
    radii = np.append(problem.allowance.everyones(problem.people.size), own)
    # Farther than that, people who have all moved cannot be told from each other in float64, and no refit can be
    # trusted; who may move farther may also move less far.
    spread = float(np.ptp(np.asarray(problem.people.features, dtype=np.float64), axis=0).max(initial=0.0))
    return FeasibleBalls(problem.allowance.norm, np.minimum(radii, FARTHEST * (spread or 1.0)), weights)


def _judged_tightly(search: Search, stay: Array, unmoved: Outcome) -> tuple[DescentEnd, Outcome]:
    """Return the best moves and what a tight refit says of them: those on the way are only as tight as steps needed.

    Where training has many minima, a tighter refit may end in another one. There the next best moves are judged too,
    and staying put.
    """
    if not search.objective.from_scratch:
        return search.best, _tightly(search, search.best)
    candidates = [*search.reached[:MOST_JUDGED], search.improved(stay, 0, began=unmoved)]
    judged = [(one, _tightly(search, one)) for one in candidates]
    return min(judged, key=lambda pair: pair[1].loss)


def _tightly(search: Search, reached: DescentEnd) -> Outcome:
    step, point = reached.step, reached.point
    scratch = search.objective.from_scratch
    if not scratch and point.signal_norm * point.residual <= CLEAR * abs(point.loss):
        return step.outcome
    with suppress(NumericsError):
        return search.judged(reached.moves, None if scratch else step.memory, TIGHT)
    return step.outcome


def _given_up(problem: Problem, training: Training, fit: Fit, solver: str) -> Proposal:
    """Return a proposal that nobody moves, because already the refit to unmoved data does not converge."""
    people = problem.people
    return Proposal(
        plan=MemberPlan(problem, np.zeros(people.dimensions), np.zeros((people.size, people.dimensions))),
        solver=solver,
        claimed_loss=np.nan,
        gap=np.inf,
        exact=False,
        finished=False,
        steps=0,
        passes=training.passes,
        note=f"The refit did not converge: its gradient's norm is still {fit.residual:.1e}.",
        residual=fit.residual,
    )


def _trustworthy(maker: Signal, training: Training) -> bool:
    """Report whether gradients were those of the true refit's loss."""
    return maker.exact and not getattr(training, "damping", 0.0) and not getattr(training, "inexact", "")


def _descent_settings(settings: ProjectedGradient | FrankWolfe | OneShot) -> DescentSettings:
    if isinstance(settings, OneShot):
        return DescentSettings("frank-wolfe", 1, 0.0, np.inf)
    kind = "spectral" if isinstance(settings, ProjectedGradient) else "frank-wolfe"
    assert settings.max_steps is not None
    assert settings.tolerance is not None
    deadline = time.monotonic() + settings.time_limit
    search = getattr(settings, "line_search", "armijo")
    return DescentSettings(kind, settings.max_steps, settings.tolerance, deadline, search)


def _name(settings: ProjectedGradient | FrankWolfe | OneShot) -> str:
    return {ProjectedGradient: "projected-gradient", FrankWolfe: "frank-wolfe", OneShot: "one-shot"}[type(settings)]

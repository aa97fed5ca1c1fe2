"""Collective and joint recourse for models that are refitted in a descent.

The descent starts from where everybody stands, with a full response to the first signal. If it is not done after some
steps, the budget is large (the loss is far from linear in the moves); if it stalls, the loss has kinks. Then there is a
second start from moves that were grown slowly, for p = 2 and ∞ by quasi-Newton steps (`open_ball`), otherwise by
letting budgets grow. With networks the second start takes small steps: their loss is never close to linear.

Where everyone may move and training is translation-equivariant, "all members move by minus the query's best move" gives
the query exactly what that move of its own would; if the descent ends above that, it starts from there too, so that the
collective is never worse than an individual who may move as far as every member may. Where steps are quick, or where
they are asked for, random starts follow (`starts`). All starts get a few steps, the better half of them goes on for
twice as many, and so on (`multistart`).

The loss is not convex in the moves, so nothing is proved to be optimal and nothing to be impossible. A gap that closes
on an approximate gradient certifies nothing, and is not called finished.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from oar.actions.limits.limit import FREE, Limits
from oar.actions.own_action import ActionRegion
from oar.actions.sets.cost_region import CostRegion, on_bounds
from oar.errors import NumericsError, OptionError
from oar.models.training import Array, CostUnits, Fit, Training
from oar.plans import MemberPlan, Proposal
from oar.problem import Problem
from oar.signals import Signal, as_signal
from oar.signals.base import Outcome, refit
from oar.solvers.descent.descent import (
    BEGIN,
    FAR,
    NOTHING,
    DescentEnd,
    DescentProblem,
    DescentSettings,
    SingleRefit,
    point_of,
)
from oar.solvers.descent.multistart import Multistart, Start
from oar.solvers.descent.starts import Starts
from oar.solvers.discrete.exchanges import ExchangeSearch
from oar.solvers.discrete.integer_moves import Lattice
from oar.solvers.feasible.sets import FeasibleBalls, FeasibleRegions
from oar.solvers.registry import IN_MEMORY, REFITTED, Solver, Task, called, current_effort, is_timed
from oar.solvers.settings import FrankWolfe, OneShot, ProjectedGradient, given_settings, no_idle_draws, starts_at_random
from oar.tolerances import CONVERGED, TIGHT

FEW, MORE, MANY = 2_000, 20_000, 1_000_000  # members' moves, as numbers
MOST_JUDGED = 3
HASTY = 2  # patience up to which a closed certificate at the first start is the end of it
CLEAR = 1e-8  # of the loss: what a refit may leave uncertain
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


def solve(task: Task, settings: ProjectedGradient | FrankWolfe | OneShot, patience: float = np.inf) -> Proposal:
    """Move the members, and the query too where it is joint recourse, to the least goal loss found.

    Where the first start ends with a closed certificate, random ones hardly ever pay: only endless patience makes any.
    """
    problem, query = task.problem, task.query
    training = problem.training(task.together, task.by, task.anchors)
    maker, chosen = as_signal(task.signal, training)
    measured = None if problem.limits is None else problem.measured(query)
    limits, point = _limits(problem, measured, training, query), problem.first_query
    whole, known = None, list(task.starts)
    if measured is not None:
        training = CostUnits(training, measured.columns, measured.costs, point)
        point, whole = training.point, Lattice(measured)
        known = [start[:, measured.columns] * measured.costs for start in task.starts]
    objective = SingleRefit(training, maker, point, problem.goal_target, from_scratch=not problem.model.convex)
    stay, least = np.zeros((problem.people.size + 1, point.size)), problem.model.least_loss
    unmoved = refit(training, None, point, problem.goal_target, None, BEGIN)
    least += NOTHING * max(unmoved.loss - least, 0.0)
    loop = replace(DescentSettings.of(settings), tight=not problem.model.smooth, least=least)
    descent = DescentProblem(objective, limits, loop, task.on_step)
    if not unmoved.fit.converged and unmoved.fit.residual > CONVERGED:
        return _given_up(problem, training, unmoved.fit, called(type(settings)))
    if whole is not None and whole.discrete.any() and settings.response != "spectral":
        # Everyone's best responses are whole, so no loop of cut ones comes first.
        point_there = objective.signalled(stay, unmoved)
        reached, steps = [DescentEnd(point_there, np.inf, [unmoved.loss], "steps")], 0
    else:
        search = Multistart(descent, loop.least)
        search.run(Start(stay, FAR, point_of(limits.project(stay), unmoved)))
        if search.run_all([lambda _: map(Start, known)]):
            first = search.best
            drawn: Any = settings
            if settings.restarts and patience <= HASTY and first.ended == "closed":
                drawn = replace(drawn, restarts=0)
            starts = Starts(problem, drawn, descent, unmoved.fit)
            if search.run_all(starts.in_order(first)):
                search.run_all(starts.at_random(first), patience)
        search.carry_on()
        reached, steps = list(search.history.reached), search.steps
    if whole is not None:
        descent = replace(descent, feasible=FeasibleRegions(whole.region, limits.weights))
        exchanges = ExchangeSearch(problem, descent, whole, unmoved, steps)
        reached = [exchanges.best(reached[0], known)]
        steps = exchanges.steps
    best, final = _judged_tightly(descent, reached, stay, unmoved)
    stuck, moves = False, best.moves + 0.0
    if measured is not None:
        # Rules only choose among moves, so what is proved goes by the limits without them.
        stuck = FeasibleRegions(measured.unruled, limits.weights).nobody_moves
        moves = exactly(problem, measured, best.moves)
    finished = stuck or isinstance(settings, OneShot) or (best.ended == "closed" and _trustworthy(maker, training))
    # θ and v as they apply to features in the caller's units
    given = getattr(training, "in_given_units", lambda vector: vector)
    signal = None if best.step.signal is None else given(best.step.signal)
    return Proposal(
        plan=MemberPlan(problem, moves[-1], moves[:-1], given(best.step.fit.parameters), signal),
        solver=called(type(settings)),
        claimed_loss=final.loss,
        gap=0.0 if stuck else best.gap,
        exact=stuck,
        finished=finished,
        ended="" if finished else ENDED[best.ended],
        steps=steps,
        passes=training.passes,
        note=f"{chosen} {best.step.note}{_dominance(problem)}",
        residual=final.fit.residual,
        promised=not _dominance(problem),
    )


def exactly(problem: Problem, measured: CostRegion, moves: Array) -> Array:
    """Return moves (n + 1, d) of a table's features: whole steps without rounding, and nobody past a bound by it."""
    found, people = measured.exactly(moves), problem.people
    features = np.asarray(people.features, dtype=np.float64)
    found[:-1] = on_bounds(problem.limits, people.encoding, features, found[:-1])  # type: ignore[arg-type]
    return found


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


def _judged_tightly(
    descent: DescentProblem, reached: list[DescentEnd], stay: Array, unmoved: Outcome
) -> tuple[DescentEnd, Outcome]:
    """Return the best moves and what a tight refit says of them: those on the way are only as tight as steps needed.

    Where training has many minima, a tighter refit may end in another one. There the next best moves are judged too,
    and staying put.
    """
    if not descent.objective.from_scratch:
        return reached[0], _tightly(descent, reached[0])
    staying = descent.improved(stay, 0, point_of(descent.feasible.project(stay), unmoved))
    judged = [(one, _tightly(descent, one)) for one in (*reached[:MOST_JUDGED], staying)]
    return min(judged, key=lambda pair: pair[1].loss)


def _tightly(descent: DescentProblem, reached: DescentEnd) -> Outcome:
    step, point = reached.step, reached.point
    scratch = descent.objective.from_scratch
    if not scratch and point.signal_norm * point.residual <= CLEAR * abs(point.loss):
        return step.outcome
    with suppress(NumericsError):
        return descent.objective.outcome(reached.moves, None if scratch else step.memory, TIGHT)
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

    def settled(self, problem: Problem, settings: Any) -> Any:
        """Return settings in which what was left open suits the problem and the effort."""
        usual, effort = _suitable(problem, type(settings)), current_effort()
        no_idle_draws(replace(settings, **(usual | given_settings(settings))), starts_at_random(problem))
        settings = effort.settled(settings)
        loop = effort.loop(usual, random=problem.limits is None, timed=is_timed(settings))
        return replace(settings, **(loop | given_settings(settings)))

    def propose(self, task: Task, settings: Any) -> Proposal:
        """Settle what was left open, and descend; restarts that a user asks for are all made."""
        patience = np.inf if "restarts" in given_settings(settings) else current_effort().patience
        return solve(task, self.settled(task.problem, settings), patience)


class FrankWolfeDescent(RefittedDescent):
    """Damped best responses, which on a table are quick (a knapsack) and integer; projections are slow there."""

    name, settings = "frank-wolfe", FrankWolfe

    def refusal(self, task: Task) -> str | None:
        """Return why "auto" rather takes projected gradient, or the usual reasons."""
        if task.is_auto and not moves_in_steps(task.problem):
            return "is taken by name, or where moves are integer"
        return super().refusal(task)

    def settled(self, problem: Problem, settings: Any) -> Any:
        """Return settings that suit the problem; refuse those that do nothing where moves are integer."""
        usual = FrankWolfe()
        for name in ("restarts", "line_search", "seed"):
            if getattr(settings, name) != getattr(usual, name) and moves_in_steps(problem):
                raise OptionError(
                    f"{name}: does nothing where moves are whole, as on this table; leave it out, or use "
                    "solver='projected-gradient'."
                )
        return super().settled(problem, settings)


class GradientDescent(RefittedDescent):
    """Projected gradient with spectral steps."""

    name, settings = "projected-gradient", ProjectedGradient


class OneShotDescent(RefittedDescent):
    """One signal, one full response, one refit."""

    name, settings, auto = "one-shot", OneShot, False

    def settled(self, problem: Problem, settings: Any) -> Any:
        """Return the settings: nothing is left open."""
        return settings


def moves_in_steps(problem: Problem) -> bool:
    """Report whether people of a table may change something that has whole steps or levels."""
    limits, schema = problem.limits or Limits(), problem.people.schema or ()
    own = {name for one in limits.own.values() for name in one}
    each = ((column, limits.columns.get(column.name, FREE)) for column in schema)
    return any((column.whole or limit.step) and (not limit.immutable or column.name in own) for column, limit in each)


def _suitable(problem: Problem, kind: type) -> dict[str, Any]:
    """Return settings that suit the problem: the loss has several minima, and some are looked at where steps are quick.

    A step takes a millisecond with few people and a linear model, and the training of a network from scratch elsewhere.
    """
    numbers = problem.people.size * problem.people.dimensions
    model = problem.model
    if not (model.convex or model.only_asked):
        return {"max_steps": 20, "tolerance": 1e-5, "restarts": 0}
    if problem.limits is not None:  # moves are made whole afterwards, so that the last digits do not matter
        return {"max_steps": 100, "tolerance": 1e-4 if numbers <= MANY else 1e-3, "restarts": 0}
    restarts = (24, 8, 0) if problem.model.quick else (8, 0, 0)
    size = 0 if numbers <= FEW else 1 if numbers <= MORE else 2
    steps, tolerance = (2_000, 1e-7) if size == 0 else (500, 1e-6)
    if kind is FrankWolfe:
        steps, tolerance = 500, 1e-5
    return {"max_steps": steps, "tolerance": tolerance, "restarts": restarts[size]}

"""Collective recourse through test-time batch norm: exact for one layer of units that can be pushed independently.

Take a network of affine layers, a norm, activations that never fall, and affine layers (`Sides`). A member's move δ
shifts unit j by w_j·δ, so by anything up to ε‖w_j‖_q, and at the query the goal leads rival c by

    Σ_j (A_gj − A_cj) f(γ_j u_j + β_j) + constant,     u_j the query's normalised value at unit j:

a sum over units, in which each term is monotone in its u_j. `unit_extremes` knows how far each u_j can be pushed.

* **A bound, always.** No moves can do better than every unit's own extreme: the lead over c is at most its sum over
  these extremes, and the loss at least log(1 + Σ_c exp(−that)). Where a lead cannot be positive, there is no way.
* **The optimum, where units are independent**: with one unit that matters, or with p = ∞ and units that look at
  different features, as where the features themselves are normalised. Then extremes of all units are reached together.
  With two classes that is the least loss there is. With more, different rivals may want different extremes; the best of
  these plans and of the loop over people is taken, and called exact only where it meets the bound.

With momentum 0 nothing that members do reaches the query: staying is the optimum, whatever the network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import OptionError
from oar.models.batch_norm.model import Sides, sides_of
from oar.models.training import Array
from oar.plans import MemberPlan, Proposal
from oar.problem import Problem
from oar.solvers.batch_norm.unit_extremes import Extreme, NormalisedUnit, highest, lowest
from oar.solvers.feasible.sets import FeasibleBalls
from oar.solvers.registry import IN_MEMORY, Task, Wrapper
from oar.solvers.settings import Exact

MET = 1e-10  # the share of a loss that may be rounding
CLOSED = 1e-6  # the share of a loss that its certificate may leave
CORNER = "The best plan against one rival was better than where the loop ended, and nothing is proved of it."
FROZEN = "Statistics are frozen (momentum 0): whatever the members of the batch do, the query does not feel it."


@dataclass(frozen=True, eq=False)
class UnitExtremes:
    """Every unit's extremes."""

    sides: Sides  # the network
    units: Array  # (n, u) the members' values there before any move
    low: list[Extreme]  # low, high: a unit's lowest and highest extreme each
    high: list[Extreme]
    matters: NDArray[np.bool_]  # (u,) whether the unit has a part in any lead
    independent: bool  # whether all extremes can be reached together

    def extremes(self, signs: Array) -> list[Extreme]:
        """Return the extreme of every unit that a lead wants, which changes with u as these signs (u,) say."""
        pairs = zip(signs, self.low, self.high, strict=True)
        return [high if sign > 0 else low for sign, low, high in pairs]

    def proved(self, signs: Array) -> bool:
        """Whether the extremes that a lead wants are proved, and can be reached together."""
        wanted = zip(signs, self.extremes(signs), strict=True)
        return self.independent and all(one.bound == one.value for sign, one in wanted if sign)


def solve(problem: Problem, solver: Any, signal: Any, loop: Callable[[Any], Proposal]) -> Proposal:
    """Return the optimum where it is known, and otherwise what `loop(solver)` finds, with what is proved about it."""
    model: Any = problem.model
    wanted = solver == "exact" or isinstance(solver, Exact)
    may = wanted or (solver == "auto" and signal == "auto")
    if wanted and signal != "auto":
        raise OptionError(f"signal: the exact solver needs none; leave it out, got {signal!r}.")
    # Members who ask are not felt by others either, but move themselves.
    frozen = model.momentum == 0 and problem.asked.members is None and problem.query.several == "mean"
    if frozen and may:
        return _exact(problem, np.zeros((problem.people.size, problem.people.dimensions)), suffices=FROZEN)
    pushed = _pushed(problem)
    rivals = [code for code in range(len(model.classes)) if problem.plain and code != problem.goal]
    ways = [] if pushed is None else [code for code in rivals if pushed.proved(_signs(problem, pushed.sides)[code])]
    alone = ways if len(rivals) == 1 else []
    if wanted and not alone:
        raise OptionError(
            "solver: 'exact' is for two classes and one normalised layer, with no activation before it and nothing but "
            "activations before the last dense layer, of which one unit matters or which looks at different features "
            "with p = inf; with unequal budgets or weights, only where the query leads. Use solver='auto'."
        )
    if alone and may:
        assert pushed is not None
        return _exact(problem, _moves(problem, pushed, alone[0]))
    found = loop(solver)
    if pushed is None:
        return found
    if ways and solver == "auto":
        others = [_exact(problem, _moves(problem, pushed, rival)) for rival in ways]
        best = min(others, key=lambda one: one.claimed_loss)
        if best.claimed_loss < found.claimed_loss * (1 - MET):
            closed = best.gap <= CLOSED * best.claimed_loss
            found = replace(best, solver="extremes", finished=closed, ended=CORNER, note=found.note)
    leads = np.delete(_most_leads(problem, pushed), problem.goal)
    least = (1 - MET) * float(np.logaddexp.reduce([0.0, *-leads]))  # no moves are below it, less what may be rounding
    exact = found.claimed_loss <= least * (1 + 2 * MET)
    return replace(found, exact=exact, finished=found.finished or exact)


def _pushed(problem: Problem) -> UnitExtremes | None:
    """Return how far every unit can be pushed; None where that is not known, or where it would not say enough."""
    people: Any = problem.people
    model: Any = problem.model
    sides = sides_of(model) if problem.plain and problem.within_balls else None
    if sides is None or model.momentum == 0:
        return None
    features = np.asarray(people.features, dtype=np.float64)
    units = features @ sides.weights.T + sides.biases
    query = sides.weights @ problem.query_features + sides.biases
    reach = problem.allowance.norm.dual.length(sides.weights)  # (u,): how far a budget of 1 shifts a unit
    radii = problem.allowance.everyones(people.size)[:, None] * reach
    lows, highs, own = units - radii, units + radii, float(model.query_in_batch)
    matters = np.asarray((_signs(problem, sides) != 0).any(axis=0) & (reach > 0))
    m, norm, rooms = model.momentum, sides.norm, []
    for unit, place in enumerate(query.tolist()):
        mean, variance = (0.0 if m == 1 else (1 - m) * float(one[unit]) for one in (norm.mean, norm.variance))
        at, weights = (lows[:, unit], highs[:, unit]), people.row_weights
        rooms.append(NormalisedUnit(*at, weights, place, own, m, mean, model.epsilon + variance))
    apart = bool(((sides.weights[matters] != 0).sum(axis=0) <= 1).all())  # no feature has a part in two units
    independent = matters.sum() <= 1 or (problem.allowance.norm.p == np.inf and apart)
    return UnitExtremes(sides, units, [*map(lowest, rooms)], [*map(highest, rooms)], matters, bool(independent))


def _signs(problem: Problem, sides: Sides) -> Array:
    """Return (k, u): how the goal's lead over each class changes with u."""
    return np.sign((sides.head[problem.goal] - sides.head) * sides.norm.scale)


def _moves(problem: Problem, pushed: UnitExtremes, rival: int) -> Array:
    """Return everyone's moves (n, d) that put every unit at its extreme for the lead over one rival."""
    sides, norm = pushed.sides, problem.allowance.norm
    signs = _signs(problem, sides)[rival]
    moves = np.zeros((problem.people.size, problem.people.dimensions))
    for unit in np.flatnonzero(pushed.matters & (signs != 0)):
        extreme = pushed.extremes(signs)[unit]
        way = norm.maximise(sides.weights[unit][None], np.ones(1))[0]  # of length 1, the one that shifts the unit most
        moves += (extreme.places - pushed.units[:, unit])[:, None] * way / float(sides.weights[unit] @ way)
    radii = problem.allowance.everyones(problem.people.size)
    return norm.project(moves, radii) + 0.0  # rounding alone


def _most_leads(problem: Problem, pushed: UnitExtremes) -> Array:
    """Return what the goal's lead over each class can be at the most (k,); infinite over itself."""
    sides = pushed.sides
    differences = sides.head[problem.goal] - sides.head
    low, high = (differences * sides.seen(np.array([one.bound for one in ends])) for ends in (pushed.low, pushed.high))
    leads = np.maximum(low, high).sum(axis=1)
    leads += sides.head_biases[problem.goal] - sides.head_biases
    leads[problem.goal] = np.inf
    return leads


def _exact(problem: Problem, moves: Array, suffices: str = "") -> Proposal:
    """Return moves as a proposal that is proved to be optimal, with the loop's certificate for them."""
    training = problem.training()
    fit = training.fit(training.moved(moves), training.start(), 0.0)
    loss, pull, _ = training.goal(fit.parameters, problem.first_query, problem.goal_target)
    signal = training.solve(fit, pull, None, 0.0)
    slopes = training.score_gradients(fit.parameters, fit.features, -signal)
    limits = FeasibleBalls(problem.allowance.norm, problem.allowance.everyones(problem.people.size), training.weights)
    return Proposal(
        plan=MemberPlan(problem, np.zeros(problem.people.dimensions), moves, fit.parameters, signal),
        solver="exact",
        claimed_loss=loss,
        gap=max(limits.gap(moves, slopes), 0.0),
        exact=True,
        finished=True,
        steps=1,
        passes=training.passes,
        suffices=suffices,
    )


class ThroughBatchNorm(Wrapper):
    """Test-time batch norm: exact for one layer, and with proofs about what the descent finds."""

    name, requires = "batch norm", frozenset({"batch norm"})
    serves = IN_MEMORY - {"best", "levers", "side effects", "own set"}

    def propose(self, task: Task, settings: Any) -> Proposal:
        """Solve exactly, or ask for a descent."""
        within = self.inside(task)
        return solve(task.problem, task.solver, task.signal, lambda solver: task.ask(solver=solver, within=within))

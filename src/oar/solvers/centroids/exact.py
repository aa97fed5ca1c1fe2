"""The exact global optimum for nearest centroid: one pass for the means, then O(k·d).

The centroid of class c can reach exactly the p-ball around μ_c of radius r_c = (1/W_c) Σ_{i∈c, participating} w_i ε_i,
so the goal's comes as near as it can, and all others go as far as they can (docs/maths.md). Everything here is O(k·d),
and vectorised over radii.

The paper's own heuristic is here to be compared with, so it is neither safeguarded nor warm-started.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.actions.sets.norms import Norm, euclidean
from oar.errors import DataError, OptionError
from oar.models.centroid.nearest_centroid import Centroids, goal_loss, loss_and_margin, odds_against, rival_ties
from oar.models.training import Array
from oar.people.wording import counted
from oar.plans import ClassPlan, Proposal
from oar.plans.proof import Hints
from oar.problem import Problem
from oar.solvers.query.shortest_move import ENOUGH, multipliers_against, nearer_limits, shortest_move_into
from oar.solvers.registry import OfCentroids, Task
from oar.solvers.settings import Exact, Paper

CONTACT = 1e-6  # nearer than this share of what the two can move, query and goal's centroid touch


@dataclass(frozen=True, eq=False)
class Reach:
    """The whole of a nearest-centroid problem, after one pass over the data."""

    offsets: Array  # (k, d), μ_c − x†
    goal: int  # the goal's class code
    unit: Array  # (k,), the radius of each class for one unit of scale
    # The budget where all share one (then `unit` is the share that takes part, by weight); 1 where budgets differ (then
    # `unit` is the mean budget).
    scale: float
    norm: Norm  # of the moves
    ties: Array  # (k,), how much farther than the goal's each rival's centroid must be for the goal to win the duel
    members: bool = True  # whether members may move
    query: bool = False  # whether the query may,
    query_budget: float = 0.0  # and how far

    @property
    def radii(self) -> Array:
        """The radius of each class at the given budget."""
        return self.unit * self.scale

    @property
    def others(self) -> list[int]:
        """The codes of all classes but the goal."""
        return [code for code in range(len(self.offsets)) if code != self.goal]

    def distances(self, radii: Array) -> Array:
        """Return the best distances (..., k) for radii (..., k): least for the goal, greatest for the others."""
        best = self.norm.farthest_distance(self.offsets, radii)
        best[..., self.goal] = self.norm.nearest_distance(self.offsets[self.goal], radii[..., self.goal])
        return best

    def loss(self, radii: Array) -> Array:
        """Return the least goal loss (...) that any moves can reach within radii (..., k)."""
        return goal_loss(self.distances(radii), self.goal)

    def odds(self, radii: Array) -> Array:
        """Return the least log odds (...) against the goal: they order plans as the loss does, also where it is 0.0."""
        return odds_against(self.distances(radii), self.goal)

    def lead(self, radii: Array) -> Array:
        """Return min_{c≠g} d_c − tie_c − d_g (...) at the best moves: the goal is reached where this is above 0."""
        return margin(self.distances(radii) - self.ties, self.goal)

    def directions(self) -> Array:
        """Return the optimal unit moves (k, d): class c's members move by their own budget times row c."""
        directions = self.norm.farthest(self.offsets, np.ones(len(self.offsets)))
        radius = self.radii[self.goal]
        if radius > 0:
            # Project the query onto the goal's ball, seen from the ball's centre, in units of its radius.
            directions[self.goal] = self.norm.project(-self.offsets[self.goal], radius) / radius
        directions[self.radii == 0] = 0.0  # Nobody in the class can move.
        directions /= np.maximum(self.norm.length(directions), 1.0)[:, None]  # no longer than 1, whatever the rounding
        return directions + 0.0  # Turns −0 into 0.

    def gradients(self, offsets: Array) -> Array:
        """Return ∂loss/∂μ_c (k, d) where the centroids lie at `offsets` from the query."""
        return self.loss_and_gradients(offsets)[1]

    def loss_and_gradients(self, offsets: Array, blur: float = 0.0) -> tuple[float, Array]:
        """Return the loss, and ∂loss/∂μ_c (k, d), where the centroids lie at `offsets` from the query.

        With t_c = d_g − d_c and q_c = e^{t_c}/(1 + Σ e^t): ∂L/∂μ_g = (Σ q_c) a_g/d_g and ∂L/∂μ_c = −q_c a_c/d_c.
        At distance 0 the norm has no gradient; 0 ("stay") is taken. With `blur` the goal's distance is rounded off
        to √(d_g² + blur²) − blur, which has one everywhere.
        """
        straight = euclidean(offsets)
        distances, lengths = straight.copy(), np.where(straight > 0, straight, 1.0)
        if blur:
            lengths[self.goal] = np.hypot(straight[self.goal], blur)
            distances[self.goal] = lengths[self.goal] - blur
        loss = float(goal_loss(distances, self.goal))
        pulls = -np.exp(distances[self.goal] - distances - loss)
        pulls[self.goal] = 0.0
        pulls[self.goal] = -pulls.sum()
        return loss, pulls[:, None] * offsets / lengths[:, None]

    def after(self, directions: Array, query_move: Array) -> Array:
        """Return the offsets (k, d) once the members have moved along `directions` and the query by its move."""
        return self.offsets + self.radii[:, None] * directions - query_move

    def gap(self, directions: Array, query_move: Array) -> float:
        """Return the Frank–Wolfe gap: Σ_c r_c (‖G_c‖_q + ⟨G_c, s_c⟩) + ε‖h‖_q + ⟨h, δ⟩ ≥ 0, with h = −Σ G_c.

        The first sum is Σ_i max_{‖δ‖≤ε_i} ⟨−∂L/∂δ_i, δ − δ_i⟩, since ∂L/∂δ_i = (w_i/W_c) G_c for every i in c.
        The query's move by δ moves every offset by −δ, so the loss's gradient in it is h.
        Where query and goal's centroid touch, the gap is the least over some subgradients. A rival's centroid that lies
        on the query has no gradient, but every way leads away from it, at a rate of q_c: that is added.
        """
        offsets = self.after(directions, query_move)
        gradients, dual = self.gradients(offsets), self.norm.dual
        touching = euclidean(offsets[self.goal]) <= CONTACT * (self.radii[self.goal] + self.query_budget)
        at_contact = self._contact_slopes(gradients, directions[self.goal], query_move) if touching else []
        members = self.radii * (dual.length(gradients) + np.einsum("cd,cd->c", gradients, directions))
        pull, radius = gradients[self.others].sum(axis=0), self.radii[self.goal]
        least = np.inf
        for slope in at_contact or [gradients[self.goal]]:
            own = -(pull + slope)
            goal_members = radius * (dual.length(slope) + slope @ directions[self.goal])
            query = self.query_budget * dual.length(own) + own @ query_move
            least = min(least, max(float(goal_members), 0.0) + max(float(query), 0.0))
        return float(np.maximum(members[self.others], 0.0).sum()) + least + self._stuck(offsets)

    def _stuck(self, offsets: Array) -> float:
        """Return what rivals who stand on the query (and have no gradient there) could still gain, to first order."""
        distances = euclidean(offsets)
        on_query = (distances == 0) & (self.radii > 0)
        on_query[self.goal] = False
        rates = np.exp(distances[self.goal] - distances - goal_loss(distances, self.goal))
        longest = self.norm.farthest_distance(np.zeros_like(offsets), self.radii)
        return float((rates * longest)[on_query].sum())

    def _contact_slopes(self, gradients: Array, direction: Array, query_move: Array) -> list[Array]:
        """Return subgradients in μ_g where query and goal's centroid touch; the gap may use any of them.

        There ‖x† − μ_g‖ has the subgradients v with ‖v‖ ≤ 1, so Q v is admissible for G_g, Q = Σ q_c. With
        V = −Σ_{c≠g} G_c (never longer than Q) the loss is stationary if V splits into a part that holds the
        query at its limit and a part that holds the goal's members at theirs: tried are none, all, and the
        least-squares split along the two moves.
        """
        from scipy.optimize import nnls

        total = gradients[self.goal] - gradients.sum(axis=0)
        weights, _ = nnls(-np.stack([query_move, direction], axis=1), total)
        split = -weights[1] * direction
        longest = np.delete(euclidean(gradients), self.goal).sum()  # Q, since ‖G_c‖ = q_c
        return [np.zeros_like(total), total] + ([split] if euclidean(split) <= longest else [])

    @property
    def relaxed(self) -> Array:
        """Radii (k,) that allow all that members and query can do: as if each class had the query's move to itself."""
        return self.radii + self.query_budget


def unrounded(bound: float, loss: float) -> float:
    """Return a lower bound on a loss that was found, less what is rounding: a larger excess is an error, and stays."""
    return loss if loss < bound <= loss + 1e-9 * (1 + abs(loss)) else bound


def margin(distances: Array, goal: int) -> Array:
    """Return min_{c≠g} d_c − d_g over the last axis."""
    return loss_and_margin(distances, goal)[1]


def reach_of(problem: Problem, members: bool = True, query: bool = False) -> Reach:
    """Summarise a problem in which members, query, or both may move: one pass over the data."""
    problem.only_moves("this question")
    problem.only_one_refit("this question")
    problem.only_balls("this question")
    if not problem.model.plain_means:
        raise OptionError(
            f"model: this question is answered for nearest centroid only so far, got {problem.model.name}; "
            "try budgets or participants with oar.collective."
        )
    model: Any = problem.model
    centroids = model.fit(problem.people)
    return Reach(
        offsets=centroids.positions - problem.query_features,
        goal=problem.goal,
        unit=unit_radii(problem, centroids) if members else np.zeros(len(centroids.positions)),
        scale=float(problem.allowance.budget) if problem.allowance.single else 1.0,
        norm=problem.allowance.norm,
        ties=rival_ties(centroids, problem.query_features, problem.goal),
        members=members,
        query=query,
        query_budget=problem.query_budget if query else 0.0,
    )


def unit_radii(problem: Problem, centroids: Centroids) -> Array:
    """Return each class's radius (k,) for one unit of scale; reads labels and weights where limits differ."""
    allowance, people = problem.allowance, problem.people
    if allowance.same_for_everyone:
        return np.ones(len(people.classes))
    radii = (allowance.acting if allowance.single else allowance.everyones)(people.size)
    with np.errstate(over="ignore"):
        units = people.class_sums(np.asarray(radii, dtype=np.float64)) / centroids.class_weights
    if not np.isfinite(units).all():
        raise DataError("budget: so large that sums of weights times budgets overflow; use smaller units.")
    return units


def smallest_scale(reach: Reach) -> tuple[float, int | None]:
    """Return the infimum of the scales at which the goal is reached, and the class that stands in the way.

    It is the largest root of all duels, and inf where one of them can never be won (docs/maths.md).
    """
    distances = euclidean(reach.offsets)
    goal_now = float(distances[reach.goal])
    goal_least = 0.0 if reach.unit[reach.goal] > 0 else goal_now
    worst, blocker = 0.0, None
    for code in reach.others:
        distance = float(distances[code])
        if reach.unit[code] == 0 and distance <= goal_least + reach.ties[code]:
            return np.inf, code
        scale = _duel_scale(reach, code, goal_now, distance)
        if scale > worst:
            worst, blocker = scale, code
    return worst, blocker


def _duel_scale(reach: Reach, code: int, goal_distance: float, distance: float) -> float:
    """Return the scale at which class `code` and the goal are equally near (0 if the goal is nearer already)."""
    goal_unit, unit = float(reach.unit[reach.goal]), float(reach.unit[code])
    if distance >= goal_distance:
        return 0.0
    if reach.norm.p == 2:
        # d_c + u_c s = d_g − u_g s; at the root d_g − u_g s = d_c + u_c s ≥ 0, so the goal's ball is not yet left.
        return (goal_distance - distance) / (goal_unit + unit)

    def lead(scale: float) -> float:
        away = reach.norm.farthest_distance(reach.offsets[code], unit * scale)
        return float(away - reach.norm.nearest_distance(reach.offsets[reach.goal], goal_unit * scale))

    # A p-ball of radius r reaches every point within r/√d, and pushes away by at least r/√d.
    return _root(lead, np.sqrt(reach.offsets.shape[1]) * (goal_distance - distance) / (goal_unit + unit))


def _root(rising: Callable[[float], float], high: float) -> float:
    """Return the root of a rising function that is below 0 at 0; it is looked for up to `high`, or beyond."""
    from scipy.optimize import brentq

    while rising(high) < 0:
        high *= 2
    return float(brentq(rising, 0.0, high, xtol=1e-14 * high, rtol=4 * np.finfo(float).eps, maxiter=500))


def smallest_scale_for(reach: Reach, loss: float) -> tuple[float, float]:
    """Return the infimum of the scales at which the least loss is at most `loss`, and what it falls to in the end.

    It never rises with the scale. In the end all who can move are infinitely far away, and the goal is as near as it
    can come; the scale is inf where even that is not enough.
    """
    distances = euclidean(reach.offsets)
    still = [code for code in reach.others if reach.unit[code] == 0]
    nearest = 0.0 if reach.unit[reach.goal] > 0 else float(distances[reach.goal])
    least = float(np.logaddexp.reduce([0.0, *(nearest - distances[still])]))
    if least >= loss * (1 - 1e-12):  # so near, rounding would decide
        return np.inf, least

    def spare(scale: float) -> float:
        return loss - float(reach.loss(reach.unit * scale))

    return 0.0 if spare(0.0) >= 0 else _root(spare, float(distances.max()) + 1.0), least


def propose(
    problem: Problem,
    reach: Reach,
    directions: Array,
    query_move: Array,
    *,
    solver: str,
    exact: bool = False,
    tolerance: float = np.inf,
    steps: int = 1,
    passes: int = 1,
) -> Proposal:
    """Put moves, their claims and their certificates together.

    A plan of any solver whose loss meets the proved lower bound is the global optimum, and is called exact.
    The solver is said to have finished if the gap is at most `tolerance` times the loss.
    """
    loss = float(goal_loss(euclidean(reach.after(directions, query_move)), reach.goal))
    bound, gap = unrounded(float(reach.loss(reach.relaxed)), loss), reach.gap(directions, query_move)
    finished, (reachable, suffices) = gap <= tolerance * loss, prospects(problem, reach)
    ended, hints = "", Hints()
    if not finished:
        ended = f"It took {counted(steps, 'step', 'steps')}; allow more with max_steps, or accept a larger tolerance."
    if not reach.members:  # (μ_c − μ_g)·δ ≤ (‖a_c‖² − ‖a_g‖²)/2 is what the query must keep to be nearest
        limits = nearer_limits(reach.offsets, reach.goal)
        hints = Hints(multipliers=multipliers_against(*limits, reach.norm, reach.query_budget))
    return Proposal(
        plan=ClassPlan(problem, query_move, directions),
        solver=solver,
        claimed_loss=loss,
        gap=gap,
        exact=exact or loss <= bound * (1 + 1e-12),
        finished=finished,
        steps=steps,
        passes=passes,
        suffices=suffices,
        reachable=reachable,
        ended=ended,
        hints=hints,
    )


def prospects(problem: Problem, reach: Reach) -> tuple[bool, str]:
    """Say whether a query that moves alone can reach the goal within its budget, and what would suffice."""
    if not reach.members:
        if problem.query.probability is not None:
            return False, ""
        move = shortest_move_into(reach.offsets, reach.goal, reach.norm)
        if move is None:
            return False, "No move of the query is enough: another class has the same centroid as the goal."
        least = float(reach.norm.length(move))
        there = bool(reach.lead(np.zeros(len(reach.offsets))) > 0)
        return there or bool(least < reach.query_budget * (1 - 1e-12)), ENOUGH.format(least)
    enough = what_suffices(problem, reach)
    return False, f"Even if the query stays where it is, {enough}" if reach.query else enough[0].upper() + enough[1:]


def what_suffices(problem: Problem, reach: Reach) -> str:
    """Say which budget of the members would be enough (at optimal moves), or why none is."""
    probability, blocker = problem.query.probability, None
    if probability is None:
        scale, blocker = smallest_scale(reach)
        met, why = "reach the goal", why_never(problem, reach, blocker)
    else:
        scale, least = smallest_scale_for(reach, -float(np.log(probability)))
        met = f"make the goal {probability:g} probable"
        most = f"{np.exp(-least):.6g}"
        why = f"however far they move, the goal is no more than {most} probable; let members of more classes take part."
    if scale == np.inf:
        return f"no budget is enough with these participants: {why}"
    binding = "" if blocker is None else f" (class {problem.people.classes[blocker]!r} binds)"
    single = problem.allowance.single
    budgets = f"any budget above {scale:.6g}" if single else f"budgets more than {scale:.6g} times as large"
    return f"optimal moves {met} with {budgets}{binding}."


def why_never(problem: Problem, reach: Reach, blocker: int | None) -> str:
    """Say why no budget lets the goal win against the class `blocker`."""
    other, goal = problem.people.classes[blocker or 0], problem.people.classes[reach.goal]
    if reach.unit[reach.goal] == 0:
        return (
            f"nobody of the goal class {goal!r} or of class {other!r} can move, and {other!r} is at least as near; "
            "let members of one of them take part."
        )
    return f"the query lies on the centroid of class {other!r}, and nobody of that class can move; let one take part."


def no_signal(signal: Any) -> None:
    """Refuse a signal, of which a closed form has no need."""
    if signal != "auto":
        raise OptionError(f"signal: nearest centroid is solved without one; leave it out, got {signal!r}.")


class ExactCentroids(OfCentroids):
    """The closed-form global optimum."""

    name, settings = "exact", Exact

    def propose(self, task: Task, settings: Exact) -> Proposal:
        """Return the moves with the least possible goal loss after the refit (`Reach` says why)."""
        no_signal(task.signal)
        reach, stay = reach_of(task.problem), np.zeros(task.problem.people.dimensions)
        return propose(task.problem, reach, reach.directions(), stay, solver=self.name, exact=True)


class PaperAmongCentroids(OfCentroids):
    """The paper's heuristic: one gradient, normalised to the budget."""

    name, settings, verbs, auto = "paper", Paper, ("individual", "collective", "joint"), False

    def propose(self, task: Task, settings: Paper) -> Proposal:
        """Move members, query or both by one normalised gradient step from where they are."""
        no_signal(task.signal)
        reach = reach_of(task.problem, task.verb != "individual", task.query)
        gradients = reach.gradients(reach.offsets)
        # The query's move by δ moves every offset by −δ, so its descent direction is +Σ_c ∂L/∂μ_c.
        ways = np.vstack([-gradients, gradients.sum(axis=0)])
        lengths = reach.norm.length(ways)
        ways /= np.where(lengths > 0, lengths, 1.0)[:, None]
        directions = np.where(reach.radii[:, None] == 0, 0.0, ways[:-1])
        return propose(task.problem, reach, directions + 0.0, reach.query_budget * ways[-1] + 0.0, solver=self.name)

"""Nearest centroid over time: the last centroids are weighted sums of rows with known weights, so it stays exact.

Every rule that takes a centroid some share of the way to the mean of whom it reads (`kept_share`: refits, exponential
means, gradient steps, fine-tuning) makes the centroid of class c after round t

    μ_c^t = Σ_{i∈c} ω_i^t (x_i + δ_i) + what nobody moves,          ω_i^t known (`oar.online.centroid_weights`),

so it can reach exactly the p-ball of radius r_c = Σ_{i∈c} |ω_i| ε_i around where it is without moves, and all that
`reach` says of one refit holds for the model after round t. Where a budget is shared over rounds, a person's share in
the sum ‖Σ_t ω_it δ_it‖ ≤ Σ_t |ω_it| ‖δ_it‖ is largest if it is spent on the row of largest weight, up to the row's own
limit, then on the next, until it is spent; all in one direction that is attained. With a_it these lengths r_c =
Σ_i |ω_i| a_i, as long as all rows of a person are of one class. Where they are not, the same radii allow each class the
whole budget: a relaxation, which still proves bounds and impossibility.

With a goal for every round, each round's own optimum is a bound on that round's loss, and their mean on the mean.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.norms import euclidean
from oar.models.centroid.nearest_centroid import Centroids, goal_loss, rival_ties
from oar.models.training import Array
from oar.online import OnlineProblem, Path, Rollout, centroid_weights
from oar.plans import Proposal
from oar.plans.rounds.plan import OnlinePlan
from oar.solvers.centroids.exact import Reach, what_suffices
from oar.solvers.feasible.shared_budgets import allotted
from oar.solvers.rounds.descent import leverage, why

Rows = NDArray[np.intp]


def solve(problem: OnlineProblem) -> Proposal:
    """Return the moves with the least possible goal loss after the last round; the reach must be attained."""
    walk = Rollout(problem)
    path = walk.forward(None)
    reach, weights, lengths = after_round(problem, path, problem.rounds - 1)
    codes = _codes(problem)
    directions = reach.directions()
    # Where a row's weight is negative, as after gradient steps that overshoot, it moves the other way.
    moves = (np.sign(weights) * lengths)[:, None] * directions[codes]
    stay = np.zeros(directions.shape[1])
    after = reach.after(directions, stay)
    before, left = (weights[:, None] * reach.gradients(offsets)[codes] for offsets in (reach.offsets, after))
    plan = OnlinePlan(problem, moves + 0.0)
    loss = float(goal_loss(euclidean(after), reach.goal))
    suffices = what_suffices(problem, reach) if _one_limit(problem) else ""
    return Proposal(
        plan=plan,
        solver="exact",
        claimed_loss=loss,
        gap=reach.gap(directions, stay),
        exact=True,
        finished=True,
        leverage=leverage(problem, before),
        leverage_left=leverage(problem, left),
        steps=1,
        walks=2,
        passes=walk.passes,
        why=why(plan, _shares(problem, weights), weighed=True),
        suffices=suffices[:1].upper() + suffices[1:],
    )


def least_loss(problem: OnlineProblem) -> float:
    """Return a loss that no moves are below, last or mean: the mean of the rounds' own optima."""
    path = Rollout(problem).forward(None)
    wanted = [problem.rounds - 1] if problem.goal_for == "last" else range(problem.rounds)
    reaches = [after_round(problem, path, number)[0] for number in wanted]
    return float(np.mean([float(reach.loss(reach.radii)) for reach in reaches]))


def attained(problem: OnlineProblem) -> bool:
    """Report whether the last round's optimum is exact: a goal for it alone, and no budget shared between classes."""
    return problem.goal_for == "last" and (not problem.has_totals or _one_class_each(problem))


def after_round(problem: OnlineProblem, path: Path, number: int) -> tuple[Reach, Array, Array]:
    """Return what the centroids after a round can reach, where `path` is that of no moves.

    And ω (n,), what each row weighs in the centroid of its own class; and how far each row goes (n,) where budgets do
    the most: all that count, or of a person's the heaviest.
    """
    codes = _codes(problem)
    weights, allowance = centroid_weights(problem, number), problem.allowance
    # Where all have the same budget radii are in units of it, so that it can be asked which one would do.
    single = allowance.single and _one_limit(problem)
    scale = float(allowance.budget) if single else 1.0
    able = np.where(weights != 0, allowance.acting(weights.size).astype(np.float64) if single else problem.radii, 0.0)
    lengths = _heaviest_first(problem, np.abs(weights), able) if problem.has_totals else able
    reached = np.abs(weights) * lengths
    units = np.bincount(codes, weights=reached, minlength=len(problem.stream.people.classes)).astype(np.float64)
    positions = path.parameters[number].reshape(-1, problem.stream.people.dimensions)
    sizes = np.full(len(positions), np.abs(np.asarray(problem.stream.people.features)).max())
    fitted = Centroids(positions, np.ones(len(positions)), np.maximum(sizes, np.abs(positions).max(axis=1)))
    reach = Reach(
        offsets=positions - problem.query_features,
        goal=problem.goal,
        unit=units,
        scale=scale,
        norm=allowance.norm,
        ties=rival_ties(fitted, problem.query_features, problem.goal),
    )
    return reach, weights, scale * lengths


def _one_limit(problem: OnlineProblem) -> bool:
    """Report whether radii grow in step with budgets: not where totals are given besides."""
    return isinstance(problem.shared, bool)


def _heaviest_first(problem: OnlineProblem, weights: Array, able: Array) -> Array:
    """Return how far each row goes (n,): of each person and class the heaviest row first.

    Of rows that weigh the same the earliest: what does not come off can then be done in a later round.
    """
    codes, persons, when = _codes(problem), problem.persons, problem.stream.when
    _, mine = np.unique(persons * len(problem.stream.people.classes) + codes, return_inverse=True)
    totals = able if _one_limit(problem) else np.where(able > 0, problem.totals, 0.0)
    budgets = np.zeros(int(mine.max(initial=-1)) + 1)
    np.maximum.at(budgets, mine, totals)
    order = np.lexsort((when, -weights))
    return allotted(mine, order, able, budgets)


def _one_class_each(problem: OnlineProblem) -> bool:
    """Report whether nobody's rows that may move are of different classes."""
    acting = problem.radii > 0
    pairs = np.unique(np.stack([problem.persons[acting], _codes(problem)[acting]]), axis=1)
    return np.unique(pairs[0]).size == pairs.shape[1]


def _codes(problem: OnlineProblem) -> Rows:
    people = problem.stream.people
    return np.asarray(people.codes(0, people.size), dtype=np.intp)


def _shares(problem: OnlineProblem, weights: Array) -> Array:
    """Return what each round's data weigh in the last model (T,), whichever way: on average over classes."""
    acts = problem.stream.when >= 0
    sums = np.bincount(problem.stream.when[acts], weights=np.abs(weights[acts]), minlength=problem.rounds)
    return np.asarray(sums / len(problem.stream.people.classes), dtype=np.float64)

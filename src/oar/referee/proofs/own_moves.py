"""The query moves alone, and outputs are linear in its features, or distances to centroids: half-spaces and tangents.

Whoever is accepted keeps inequalities that are linear in the move (`duels`); multipliers for them prove what
every accepted move costs, by the same arithmetic as advice (`certificate`). The goal loss is convex in the
outputs: with p its gradient at the plan's own move δ₀, L(δ) ≥ L(δ₀) + p·(z(δ) − z(δ₀)) for every δ, and that is least
where the budget is spent against the slope.
"""

from __future__ import annotations

import numpy as np

from oar.plans.individual.certificate import Certificate, Leaf, Statement
from oar.plans.proof import Hints, Proof
from oar.problem import Problem
from oar.referee.contributions import ALLOWED, Array
from oar.referee.individual.duels import Moves, UnmovedRefit, duels, seen_slopes
from oar.referee.verdicts import UNIT, loss_of_kind, proved, slopes_of_kind
from oar.referee.witnesses.refits import kind_of_loss

HALF_SPACES = "multipliers for the half-spaces that the query would have to be in"
TANGENT = "the tangent of a convex loss"


def beyond_half_spaces(problem: Problem, seen: UnmovedRefit, hints: Hints) -> Proof:
    """Return whether multipliers prove that no move of the query is accepted."""
    if hints.multipliers is None or problem.query.probability is not None:
        return Proof()
    rows = duels(seen, problem, _moves(problem, hints))
    budget, p, size = problem.query_budget * ALLOWED, problem.allowance.norm.p, rows.slopes.shape[1]
    wide = np.full(size, budget)  # no coordinate alone goes farther
    statement = Statement(
        kind="l2" if p == 2 else "l1",
        prices=np.ones(size),
        flat=np.zeros(size),
        column=np.arange(size),
        whole=np.zeros(size, dtype=bool),
        low=-wide,
        high=wide,
        rows=-rows.slopes,
        errors=rows.errors,
        room=rows.leads,
    )
    least = Certificate(statement, Leaf(hints.multipliers, empty=p == np.inf)).bound
    return Proof(impossible=bool(least > budget), by=HALF_SPACES)


def above_tangent(problem: Problem, seen: UnmovedRefit, hints: Hints, move: Array) -> Proof:
    """Return the bound that the tangent at a move (d,) puts on the loss of every other."""
    kind = kind_of_loss(seen.model)
    if kind is None or hints.slopes is None or seen.outputs is None:
        return Proof()
    at = _moves(problem, hints, move)
    here, slopes, errors, noise = seen_slopes(seen.outputs, at)
    target, norm, budget = problem.goal_target, problem.allowance.norm.dual, problem.query_budget * ALLOWED
    rates = slopes_of_kind(kind, here, target)
    slope, unsure = slopes.T @ rates, errors.T @ np.abs(rates)
    loss = loss_of_kind(kind, here, target)
    fall = budget * float(norm.length(slope)) + float(slope @ move)
    fall += budget * float(norm.length(unsure)) + float(unsure @ np.abs(move)) + 2 * float(np.abs(rates) @ noise)
    sizes = abs(loss) + budget * float(norm.length(slope)) + float(np.abs(slope) @ np.abs(move))
    return proved(problem, loss - fall - (move.size + 16) * UNIT * sizes, False, TANGENT)


def _moves(problem: Problem, hints: Hints, move: Array | float = 0.0) -> Moves:
    """Return moves of every feature, from where the query is or has moved to."""
    size = problem.query_features.size
    free = np.full(size, np.inf)
    expected = np.zeros((0, size + 1)) if hints.slopes is None else hints.slopes
    return Moves(problem.query_features + move, np.eye(size), -free, free, np.zeros(size, dtype=bool), expected)

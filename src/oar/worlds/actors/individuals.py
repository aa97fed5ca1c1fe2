"""Individuals, who game the deployed model, or follow advice that assumes that it is fixed.

Both take the shortest move to their goal under the deployed model. A strategic individual moves if that pays: with a
gain of 1 for the goal and a cost c‖δ‖, the best response is to cross the boundary if ‖δ‖ ≤ 1/c, and to stay otherwise
(Hardt et al. 2016). An advised individual receives a move and a promised class, and follows the advice or not. The
world checks the promise from round to round.

**Flat boundaries.** Linear models and nearest centroid predict the goal g where, against every rival c,

    a_c·x + b_c > 0:      linear a_c = w_g − w_c;      nearest centroid a_c = μ_g − μ_c, as ‖x − μ_g‖ < ‖x − μ_c‖.

With the deficit m_c = −(a_c·x + b_c), a move δ must satisfy a_c·δ ≥ m_c. Against one rival the shortest move has length
m/‖a‖_q, with 1/p + 1/q = 1, and is that length times the p-ball's extreme point along a (Hölder's inequality with
equality). Against several rivals the longest of these moves is a lower bound, and the answer if it satisfies all
constraints. Otherwise the answer is a projection onto a polyhedron: p = 2 by Lawson and Hanson's least distance
programming, p = 1 and ∞ by linear programmes.

**Other models.** The goal loss is lowered within balls (spectral projected gradient, as for the query's own move), and
bisection finds the smallest ball in which this reaches the goal. The move is then shortened to its first crossing of
the boundary. It is not proved to be the shortest.

Every move ends slightly beyond the boundary, because nobody on the boundary has the goal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.actions.sets.nonnegative_least_squares import nonnegative_least_squares
from oar.actions.sets.norms import Norm
from oar.checks import with_near_names
from oar.models import Centroids
from oar.solvers.query.move_search import BatchedObjective, minimise
from oar.typing import Label
from oar.worlds.actors.common import Movers, code_of, refuse_values
from oar.worlds.deployed.model import DeployedModel, deployed
from oar.worlds.deployed.predictions import predictions
from oar.worlds.protocol import Array, Deed, Mask, Rows, View

HAIR = 1e-9  # of the size of a person's features: how far beyond the boundary it goes
CLOSED = 1e-12  # of what was missing: what is nothing but rounding
HALVINGS = 14
STEPS = 40


@with_near_names
@dataclass(frozen=True)
class StrategicIndividuals(Movers):
    """Strategic individuals, who best-respond to the deployed model, each for itself.

    Each of them without the prediction `goal` makes the shortest move to it, and slightly more, if the move is within
    its budget and worth its cost; all others stay. Where boundaries are not flat, as those of linear models and nearest
    centroid are, it is found by search, which may miss a move.

    Args:
        share: the share of arrivals who are strategic, drawn once for each person.
        goal: the label that each of them wants for itself.
        budget: how far each can move.
        norm: 1, 2 or numpy.inf.
        cost: c, of moving by 1, where the goal is worth 1: nobody moves farther than 1/c. 0 means that moves are free.
        name: their name in records.
    """

    share: float
    goal: Label
    budget: float
    norm: Any = 2
    cost: float = 0.0
    name: str = "strategic individuals"

    def act(self, view: View) -> Deed:
        """Cross the boundary if that is possible and pays."""
        reach = self.budget if self.cost == 0 else min(self.budget, 1 / self.cost)
        moves, asked, found = ways(view, self.goal, self.norm, reach)
        lengths = self.norm.length(moves[found])
        note = {"wanting": int(asked.sum()), "moved": int(found.sum()), "distance": float(lengths.sum())}
        return Deed(moves=moves, note=note)


@with_near_names
@dataclass(frozen=True)
class AdvisedIndividuals(Movers):
    """People who receive individual recourse: a move to the goal, as of `StrategicIndividuals`, for a fixed model.

    Args:
        share: the share of arrivals who ask for advice, drawn once for each person.
        goal: the label that each of them wants for itself.
        budget: how far each can move; a person for whom no move within it is found gets no advice.
        norm: 1, 2 or numpy.inf.
        follow: the share of the advised who follow the advice; the others do not move, and their advice is recorded
            too.
        beyond: the length that advice adds to the shortest move, as a share of it, within the budget: advice at the
            boundary itself is the first to fail.
        name: their name in records.
    """

    share: float
    goal: Label
    budget: float
    norm: Any = 2
    follow: float = 1.0
    beyond: float = 0.0
    name: str = "advised individuals"

    def act(self, view: View) -> Deed:
        """Advise everyone with a move to the goal, and move those who follow."""
        moves, asked, found = ways(view, self.goal, self.norm, self.budget)
        code = code_of(self.goal, view.crowd.classes, "goal")
        moves = self._further(view, moves, found, code)
        told, promised = view.crowd.features[view.mine] + moves, np.where(found, code, -1).astype(np.intp)
        count = round(self.follow * int(found.sum()))
        followers = np.zeros(found.size, dtype=bool)
        followers[view.rng.permutation(np.flatnonzero(found))[:count]] = True
        note = {"wanting": int(asked.sum()), "advised": int(found.sum()), "moved": int(followers.sum())}
        return Deed(moves=np.where(followers[:, None], moves, 0.0), advice=(told, promised), note=note)

    def _further(self, view: View, moves: Array, found: Mask, code: int) -> Array:
        """Return moves that go on beyond the boundary where the model still predicts the goal there."""
        if self.beyond == 0 or not found.any():
            return moves
        lengths = self.norm.length(moves[found])
        factors = np.minimum(1 + self.beyond, np.maximum(self.budget * (1 - 1e-12) / lengths, 1.0))
        longer = moves.copy()
        longer[found] *= factors[:, None]
        rows, model = view.crowd.features[view.mine], view.operator.model
        kept = predictions(model, view.deployed.parameters, rows + longer) == code
        return np.where((kept & found)[:, None], longer, moves)


def ways(view: View, goal: Any, norm: Norm, reach: float) -> tuple[Array, Mask, Mask]:
    """Return the shortest moves (m, d) of an actor's people, who of them lacks the goal, and who can reach it."""
    model, parameters, code = view.operator.model, view.deployed.parameters, code_of(goal, view.crowd.classes, "goal")
    refuse_values(model)
    rows = view.crowd.features[view.mine]
    moves, found = np.zeros_like(rows, dtype=np.float64), np.zeros(len(rows), dtype=bool)
    asked = predictions(model, parameters, rows) != code if len(rows) else found
    if asked.any():
        classes = len(view.crowd.classes)
        moves[asked], found[asked] = shortest_moves(model, parameters, rows[asked], code, norm, reach, classes)
    return moves, asked, found


def shortest_moves(
    model: Any, parameters: Any, rows: Array, goal: int, norm: Norm, reach: float, classes: int
) -> tuple[Array, Mask]:
    """Return moves (m, d) into the goal, 0 for people without a move within reach, and who has one.

    `goal` is the code of one of the model's classes. The people must not have it as their prediction already.
    """
    moves, found = np.zeros_like(rows), np.zeros(len(rows), dtype=bool)
    if not len(rows) or reach <= 0:
        return moves, found
    flat = _half_spaces(model, parameters, goal)
    if flat is None:
        moves = _searched(model, parameters, rows, goal, norm, reach, classes)
    else:
        moves = _across(*flat, rows, norm, reach)
    lengths = norm.length(moves)
    found = (lengths > 0) & (lengths <= reach)
    # Only what is really predicted counts: far from the origin a hair may be lost in rounding.
    found[found] = predictions(model, parameters, rows[found] + moves[found]) == goal
    return np.where(found[:, None], moves, 0.0), found


def _half_spaces(model: Any, parameters: Any, goal: int) -> tuple[Array, Array] | None:
    """Return a (k − 1, d) and points (k − 1, d) on each boundary where boundaries are flat; None where they are not."""
    if isinstance(parameters, Centroids):
        own = parameters.positions[goal]
        rivals = np.delete(parameters.positions, goal, axis=0)
        return own - rivals, 0.5 * (own + rivals)
    if not getattr(model, "linear", False):
        return None
    matrix = np.asarray(parameters, dtype=np.float64)
    if len(matrix) == 1:  # a single logit, the second class's
        ahead = matrix if goal == 1 else -matrix
    else:
        ahead = matrix[goal] - np.delete(matrix, goal, axis=0)
    normals = ahead[:, :-1]
    squares = (normals**2).sum(axis=1, keepdims=True)
    # −b a/‖a‖² is on the boundary; where a = 0 there is none, and the sign of b says who wins everywhere.
    points = np.divide(-ahead[:, -1:] * normals, squares, out=np.zeros_like(normals), where=squares > 0)
    flat = squares[:, 0] == 0
    if (ahead[flat, -1] <= 0).any():  # a rival wins everywhere
        return normals[:0], points[:0]
    return normals[~flat], points[~flat]


def _across(normals: Array, points: Array, rows: Array, norm: Norm, reach: float) -> Array:
    """Return the shortest δ with a_c·δ ≥ m_c for all rivals c; 0 where there is none, or none within reach."""
    moves = np.zeros_like(rows)
    sizes = norm.dual.length(normals)
    if not len(normals) or not (sizes > 0).all():  # somebody wins everywhere, or stands on the goal's own place
        return moves
    normals = normals / sizes[:, None]  # now m_c is the distance to the boundary
    missing = np.einsum("cd,ncd->nc", normals, points - rows[:, None, :])
    missing += HAIR * (np.abs(rows).max(axis=1, keepdims=True) + np.abs(points).max())
    near = missing.max(axis=1) <= reach
    hardest = missing.argmax(axis=1)
    straight = norm.maximise(normals[hardest], np.maximum(missing[np.arange(len(rows)), hardest], 0.0))
    enough = (straight @ normals.T >= missing - CLOSED * np.abs(missing).max(axis=1, keepdims=True)).all(axis=1)
    moves[near & enough] = straight[near & enough]
    rest = np.flatnonzero(near & ~enough)
    if rest.size:
        solve = _projected if norm.p == 2 else _programmed
        moves[rest] = solve(normals, missing[rest], norm, reach)
    return moves


def _projected(normals: Array, missing: Array, norm: Norm, reach: float) -> Array:
    """Return argmin ‖δ‖₂ with a_c·δ ≥ m_c (Lawson and Hanson's least distance programming).

    Let u ≥ 0 minimise the distance of (Aᵀ; mᵀ) u from (0, …, 0, 1), with residual r. Then δ = −r_{1…d} / r_{d+1}; if
    the residual is zero, no δ satisfies the constraints.
    """
    moves = np.zeros((len(missing), normals.shape[1]))
    target = np.append(np.zeros(normals.shape[1]), 1.0)
    for person, short in enumerate(missing):
        size = np.abs(short).max()
        matrix = np.vstack([normals.T, short / size])
        left = matrix @ nonnegative_least_squares(matrix, target) - target
        if left[-1] < -CLOSED:
            moves[person] = -size * left[:-1] / left[-1]
    return moves


def _programmed(normals: Array, missing: Array, norm: Norm, reach: float) -> Array:
    """Return argmin ‖δ‖_p for p = 1 or ∞ with a_c·δ ≥ m_c: δ = u − v, u, v ≥ 0, and t ≥ u_j + v_j where p = ∞."""
    from scipy.optimize import linprog

    width = normals.shape[1]
    moves = np.zeros((len(missing), width))
    most = norm.p == np.inf
    cost = np.append(np.zeros(2 * width), 1.0) if most else np.append(np.ones(2 * width), 0.0)
    across = np.hstack([-normals, normals, np.zeros((len(normals), 1))])
    below = np.hstack([np.eye(width), np.eye(width), -np.ones((width, 1))])
    for person, short in enumerate(missing):
        matrix, bound = (np.vstack([across, below]), np.append(-short, np.zeros(width))) if most else (across, -short)
        answer = linprog(cost, A_ub=matrix, b_ub=bound, bounds=(0, None), method="highs")
        if answer.status == 0 and answer.fun <= reach:
            moves[person] = answer.x[:width] - answer.x[width : 2 * width]
    return moves


def _searched(model: Any, parameters: Any, rows: Array, goal: int, norm: Norm, reach: float, classes: int) -> Array:
    """Return the shortest ways that were found by lowering the goal loss within smaller and smaller balls."""
    at = deployed(model, parameters, classes)
    least, most = np.zeros(len(rows)), np.full(len(rows), reach)
    best, last = np.zeros_like(rows), np.zeros_like(rows)
    going = np.arange(len(rows))
    for halving in range(HALVINGS):
        radii = most[going] if halving == 0 else 0.5 * (least[going] + most[going])
        tried = _lowest(at, rows[going], goal, norm, radii, last[going])
        last[going] = tried
        across = at.predicted(rows[going] + tried) == goal
        best[going[across]] = _cut_short(at, rows[going[across]], tried[across], goal)
        most[going[across]] = norm.length(best[going[across]])
        least[going[~across]] = radii[~across]
        if halving == 0:
            going = going[across]  # who cannot be moved across within reach stays
        if not going.size:
            break
    return best


def _lowest(at: DeployedModel, rows: Array, goal: int, norm: Norm, radii: Array, near: Array) -> Array:
    """Return moves within balls at which the goal loss is as low as a search from earlier moves finds it."""

    def evaluate(moves: Array, which: Rows) -> tuple[Array, Array]:
        return at.slopes(rows[which] + moves, goal)

    def gap(moves: Array, slopes: Array, which: Rows) -> Array:
        return np.maximum(radii[which] * norm.dual.length(slopes) + np.einsum("bd,bd->b", slopes, moves), 0.0)

    objective = BatchedObjective(
        evaluate=evaluate,
        project=lambda moves, which: norm.project(moves, radii[which]),
        inner=lambda left, right, which: np.einsum("bd,bd->b", left, right),
        gap=gap,
    )
    _, slopes = evaluate(near, np.arange(len(rows)))
    sizes = norm.dual.length(slopes)
    first = np.maximum(radii, 1e-300) / np.where(sizes > 1e-100, sizes, 1.0)
    return minimise(objective, near, first, STEPS, 1e-3).points


def _cut_short(at: DeployedModel, rows: Array, moves: Array, goal: int) -> Array:
    """Return each move up to where it first is across, by bisection: across at its end, and not at its beginning."""
    low, high = np.zeros(len(rows)), np.ones(len(rows))
    for _ in range(30 if len(rows) else 0):
        middle = 0.5 * (low + high)
        across = at.predicted(rows + middle[:, None] * moves) == goal
        low, high = np.where(across, low, middle), np.where(across, middle, high)
    return high[:, None] * moves

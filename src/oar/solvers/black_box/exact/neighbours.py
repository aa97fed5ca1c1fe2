"""The query's own best move among its nearest neighbours: exact where there are few neighbourhoods.

The k nearest of a query at q + δ are S exactly if ‖q + δ − x_i‖ ≤ ‖q + δ − x_j‖ for all i ∈ S, j ∉ S. The squares of δ
cancel, and with a_i = x_i − q that is a polyhedron of moves:

    (a_j − a_i)·δ ≤ (‖a_j‖² − ‖a_i‖² − σ)/2        for all i ∈ S, j ∉ S

with σ = 0. The region of a goal is the union of the polyhedra of all S whose votes give it, and the shortest move into
each is a least-distance problem (p = 2) or a linear programme (p = 1, ∞). All S are looked at, those first whose single
half-spaces are nearest: the farthest of those half-spaces is a lower bound, which rules out most.

On an edge, distances tie, and who is counted is up to rounding. So σ > 0, a hair, keeps moves inside, and what is
ruled out is ruled out with −σ, by multipliers that prove it (`ruling_out`): a neighbourhood between the two is neither
had nor excluded. Where the query stands, though, the estimator can be asked, and staying there is always a choice.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.norms import Norm, euclidean
from oar.models.training import Array
from oar.plans import Proposal
from oar.plans.proof import Hints
from oar.problem import Problem
from oar.retraining.black_box import ROUNDED, BlackBoxTraining, neighbours_of
from oar.solvers.black_box.exact.claims import Flags, judged_outputs, levels, outputs_of, own_way, proposal
from oar.solvers.query.shortest_move import ruling_out, shortest_within

MOST_SETS = 20_000  # neighbourhoods that are looked at
MOST_PEOPLE = 500
MOST_PROGRAMMES = {2.0: 6_000, 1.0: 1_500, np.inf: 1_500}  # that are solved before this is given up, by p
FARTHEST = 1e4  # in units of the largest distance: beyond, programmes are not to be trusted
HAIR = 1e-9  # in squares of that unit: what programmes may be wrong by
TIGHT = 1e-10
NO_SET = "no neighbourhood gives"
HANGS = "hangs on who comes first of people that are equally far from it, which is up to the estimator."


class TooMany(Exception):
    """There are too many neighbourhoods to look at."""


class WayIn(NamedTuple):
    """The shortest move into a neighbourhood: its number, the move (d,) and its length, which is ∞ where none is."""

    number: int
    move: Array
    length: float


NO_WAY = WayIn(-1, np.zeros(1), np.inf)


@dataclass(eq=False)
class Regions:
    """All neighbourhoods of k people, and what each means for the query."""

    offsets: Array  # (n, d), x_i − q in units of `size`
    size: float
    blur: float  # σ in squares of that unit
    norm: Norm  # that measures moves
    sets: NDArray[np.intp]  # (m, k), who is in each
    losses: Array  # (m,)
    reached: Flags  # (m,), whether each gives the goal
    level: bool  # whether any gives the goal as many votes as another class, and no more
    said: Callable[[Array], tuple[bool, float]]  # by the estimator after a move (d,): is the goal missed, and the loss
    programmes: int = field(default=0, init=False)
    proofs: dict[tuple[int, ...], Array] = field(default_factory=dict, init=False)
    bounds: Array = field(init=False)  # (m,), lower bounds on the length of a move into each, ties included

    def __post_init__(self) -> None:
        """Work out how near each neighbourhood can be at most."""
        squares = np.einsum("nd,nd->n", self.offsets, self.offsets)
        apart = self.norm.dual.length(self.offsets[:, None] - self.offsets[None])
        needed = (squares[:, None] - squares[None] - self.blur) / 2  # of i, to be nearer than j
        needed = np.where(needed <= 0, 0.0, needed / np.where(apart > 0, apart, 1.0))
        outside = np.ones((len(self.sets), len(squares)), dtype=bool)
        np.put_along_axis(outside, self.sets, False, axis=1)
        self.bounds = np.zeros(len(self.sets))
        for place in range(self.sets.shape[1]):
            each = np.where(outside, needed[self.sets[:, place]], 0.0)
            self.bounds = np.maximum(self.bounds, each.max(axis=1))

    def into(self, number: int) -> WayIn:
        """Return the shortest move into one neighbourhood, distances a hair apart."""
        normals, slack, hair, _ = self._limits(number, self.blur)
        if (slack[hair == np.inf] < 0).any():
            return NO_WAY
        if (slack >= 0).all():
            return WayIn(number, np.zeros(self.offsets.shape[1]), 0.0)
        some = hair < np.inf
        move = self._counted(shortest_within, normals[some], slack[some], self.norm, TIGHT)
        if move is None or (normals @ move > slack + hair / 4).any():  # or it was none, but for rounding
            return NO_WAY
        return WayIn(number, move, float(self.norm.length(move)))

    def excluded(self, number: int, budget: float) -> bool:
        """Report whether it is proved that one neighbourhood is beyond a budget, however ties are settled."""
        normals, slack, _, lengths = self._limits(number, -self.blur)
        if not (slack < 0).any():
            return False
        found = self._counted(ruling_out, normals, slack, self.norm, budget)
        if found is not None:  # in units of the features, for limits as they are: what the referee checks
            self.proofs[tuple(self.sets[number].tolist())] = found / lengths
        return found is not None

    def _limits(self, number: int, blur: float) -> tuple[Array, Array, Array, Array]:
        """Return normals (c, d) of length 1, slack, a hair (∞ for two people in one place), and how long they were."""
        inside = self.offsets[self.sets[number]]
        others = np.delete(self.offsets, self.sets[number], axis=0)
        normals = (others[None] - inside[:, None]).reshape(-1, self.offsets.shape[1])
        sums = (others[None] + inside[:, None]).reshape(normals.shape)
        slack = (np.einsum("cd,cd->c", normals, sums) - blur) / 2
        lengths = euclidean(normals)
        unit = np.where(lengths > 0, lengths, 1.0)
        return normals / unit[:, None], slack / unit, np.where(lengths > 0, self.blur / unit, np.inf), unit

    def _counted(self, programme: Callable[..., Any], *arguments: Any) -> Any:
        self.programmes += 1
        if self.programmes > MOST_PROGRAMMES[self.norm.p]:
            raise TooMany
        try:
            return programme(*arguments)
        except RuntimeError:  # scipy did not come to an end
            raise TooMany from None

    def nearest(self, among: Flags, budget: float) -> WayIn:
        """Return the shortest move within a budget into any of some neighbourhoods."""
        best = NO_WAY
        for number in self._in_order(among):
            if self.bounds[number] > min(best.length, budget):
                break
            found = self.into(int(number))
            if found.length <= budget and found.length < best.length:
                best = found
        return best

    def any_within(self, among: Flags, budget: float) -> bool:
        """Report whether some of these neighbourhoods cannot be ruled out within a budget."""
        near = self._in_order(among & (self.bounds <= budget))
        return any(not self.excluded(number, budget) for number in near)

    def _in_order(self, among: Flags) -> NDArray[np.intp]:
        places = np.flatnonzero(among)
        return places[np.argsort(self.bounds[places], kind="stable")]

    def shortest(self) -> WayIn:
        """Return the shortest move, in units of the features, that gets the goal, a hair inside its region."""
        stay = np.zeros(self.offsets.shape[1])
        if not self.said(stay)[0]:
            return WayIn(-1, stay, 0.0)
        found = self.nearest(self.reached, FARTHEST)
        move = self.size * found.move + 0.0
        return WayIn(found.number, move, float(self.norm.length(move)) if found.length < np.inf else np.inf)


def regions_of(problem: Problem) -> Regions | None:
    """Return all neighbourhoods of a problem of nearest neighbours; None where it is none, or there are too many."""
    number, size = neighbours_of(problem), problem.people.size
    if number is None or size > MOST_PEOPLE or comb(size, number) > MOST_SETS:
        return None
    people, query = problem.people, problem.query_features
    offsets = np.asarray(people.features, dtype=np.float64) - query
    unit = float(euclidean(offsets).max())
    if unit == 0:
        return None
    sets = np.array(list(combinations(range(size), number)), dtype=np.intp)
    votes = np.eye(len(people.classes), dtype=np.intp)[people.codes(0, size)][sets].sum(axis=1)
    kinds, which = np.unique(votes, axis=0, return_inverse=True)
    outputs, which = outputs_of(kinds), which.reshape(-1)
    losses, reached = judged_outputs(problem, outputs)
    blur = HAIR + ROUNDED * (1 + float(euclidean(query)) / unit) ** 2
    box = BlackBoxTraining(problem).unmoved(0)

    def said(move: Array) -> tuple[bool, float]:
        counts = np.rint(np.exp(box.says((query + move)[None]).outputs) * number).astype(np.intp)
        losses, reached = judged_outputs(problem, outputs_of(counts))
        return not reached[0], float(losses[0])

    level, norm = levels(problem, outputs), problem.allowance.norm
    return Regions(offsets / unit, unit, blur, norm, sets, losses[which], reached[which], level, said)


def propose(problem: Problem) -> Proposal | None:
    """Move the query into the best neighbourhood within its budget; None where that cannot be said exactly."""
    regions = regions_of(problem)
    with suppress(TooMany):
        if regions is not None and problem.query_budget <= FARTHEST * regions.size:
            return _proposed(problem, regions)
    return None


def _proposed(problem: Problem, regions: Regions) -> Proposal | None:
    budget = problem.query_budget / regions.size
    chosen, loss, bound = NO_WAY, np.inf, np.inf
    order = np.lexsort([regions.losses, ~regions.reached])
    kinds = dict.fromkeys(zip(regions.reached[order].tolist(), regions.losses[order].tolist(), strict=True))
    for reached, least in kinds:  # the goal first, then the least loss
        among = (regions.reached == reached) & (regions.losses == least)
        found = NO_WAY if chosen.length < np.inf else regions.nearest(among, budget)
        if found.length < np.inf:
            chosen, loss = found, least
        if least < bound and (found.length < np.inf or regions.any_within(among, budget)):
            bound = least
    if chosen.length == np.inf:
        return None  # every neighbourhood within the budget hangs on a tie
    move, there = regions.size * chosen.move, (not regions.reached[chosen.number], loss)
    if regions.said(move) != there:
        return None  # distances that are so nearly equal are told apart by rounding alone
    here = regions.said(np.zeros_like(move))
    if here < there:  # a tie that the estimator settles as one likes
        move, there = np.zeros_like(move), here
    return proposal(
        problem,
        move,
        0.0,
        loss=there[1],
        bound=bound,
        suffices=_suffices(problem, regions),
        steps=regions.programmes,
        reached=not there[0],
        hints=Hints(excluded=regions.proofs),
    )


def _suffices(problem: Problem, regions: Regions) -> str:
    try:
        shortest = regions.shortest()
        if shortest.length == np.inf and regions.any_within(regions.reached, FARTHEST):
            return f"Whether any move of the query is enough for {problem.goal_words} {HANGS}"
    except TooMany:
        return ""
    return own_way(problem, shortest.length, NO_SET, regions.level)

"""All nearest-centroid cells from two passes over the data: one to solve, one to audit.

The exact solver needs the class means and the participating share of each class's weight. So does the refit: a plan
moves every participant of class c by ε s_c, so the moved rows' average is

    (Σ_{i∈c} w_i x_i + ε (Σ_{i∈c, taking part} w_i) s_c) / W_c,

the average that `oar.audit` takes row by row, with the moves summed class by class. The audit's pass computes its own
sums, by another algorithm than the solver's, and counts participants. Limits are checked class by class, since all
members of a class move alike. If the goal leads or lags by little more than a tie, so that the two sums could differ in
the verdict, a full audit decides the cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.participation import members_in_share, random_order
from oar.models import NearestCentroid
from oar.models.centroid.nearest_centroid import rival_ties
from oar.people import Population
from oar.people.population import Chunk
from oar.plans import Audit, Result
from oar.plans.result import Independence
from oar.problem import Problem
from oar.referee.centroids import SIZED, UnmovedCentroids, heard
from oar.referee.contributions import LIMIT_SLACK
from oar.referee.proofs.balls import within_radii
from oar.referee.verdicts import UNIT, AuditSummary
from oar.solvers import Exact
from oar.solvers.centroids.exact import Reach, propose
from oar.studies.rows import Row, row_of

Array = NDArray[np.float64]
Draw = tuple[float, int]
ROOM = 1 << 26  # places in random orders that are kept: 256 MB, or those of one seed
CLOSE = 1_000.0  # ties within which sums taken in another order are not left to decide
WITNESS = "class averages of the moved rows, by class sums (numpy)"


def has_quick_cells(problem: Problem, solver: Any) -> bool:
    """Report whether cells with a common budget and a random share are answered here: see the conditions."""
    return (
        type(problem.model) is NearestCentroid
        and not problem.over_rounds
        and (solver == "auto" or solver == "exact" or isinstance(solver, Exact))
        and problem.only_free_moves
        and problem.allowance.single
    )


class Classes:
    """Sums by class of people and of who takes part in each draw, from which nearest-centroid cells are answered."""

    def __init__(self, people: Population, draws: Sequence[Draw]) -> None:
        """Walk over the people twice: for the solver, and for the audit."""
        self.people, self.centroids = people, NearestCentroid().fit(people)
        classes = len(people.classes)
        self._numbers = {draw: number for number, draw in enumerate(draws)}
        self._weights, self._counts = np.zeros((len(draws), classes)), np.zeros((len(draws), classes), dtype=np.int64)
        seeds = list(dict.fromkeys(seed for share, seed in draws if share < 1.0))
        some = max(1, ROOM // people.size)
        self._ranks = lru_cache(some)(partial(_ranks, people.size))
        self._sum_up([draw for draw in draws if draw[0] >= 1.0 or draw[1] in seeds[:some]])
        for first in range(some, len(seeds), some):  # more seeds than there is room for: another pass for each roomful
            counted = [draw for draw in draws if draw[0] < 1.0 and draw[1] in seeds[first : first + some]]
            for chunk in people.chunks():
                self._count_in(chunk, counted)

    def _count_in(self, chunk: Chunk, draws: Sequence[Draw]) -> None:
        """Add up who takes part in some draws among some of the people."""
        classes = self._counts.shape[1]
        heavy = chunk.row_weights
        for share, seed in draws:
            drawn = heavy > 0  # who weighs nothing would move in vain
            if share < 1.0:
                last = members_in_share(self.people.size, share)
                drawn &= self._ranks(seed)[chunk.start : chunk.stop] < last
            codes, number = chunk.codes[drawn], self._numbers[share, seed]
            self._weights[number] += np.bincount(codes, weights=heavy[drawn], minlength=classes)
            self._counts[number] += np.bincount(codes, minlength=classes)

    def _sum_up(self, draws: Sequence[Draw]) -> None:
        people, classes = self.people, len(self.people.classes)
        sums, weights = np.zeros((classes, people.dimensions)), np.zeros(classes)
        sizes, sized = np.zeros(classes), np.zeros(classes)
        for chunk in people.chunks():
            heavy = chunk.row_weights
            for code in np.unique(chunk.codes):
                rows = chunk.codes == code
                sums[code] += heavy[rows] @ chunk.features[rows]
                weights[code] += heavy[rows].sum()
                if chunk.start < SIZED:
                    sizes[code] += heavy[rows] @ np.abs(chunk.features[rows]).max(axis=1)
                    sized[code] += heavy[rows].sum()
            self._count_in(chunk, draws)
        self._sums, self._totals = sums, weights
        # Audits measure ties by how large the numbers are that are averaged.
        means = np.abs(sums / weights[:, None]).max(axis=1)
        self._scales = np.maximum(means, sizes / np.where(sized > 0, sized, 1.0))

    def row(self, problem: Problem, budget: float, draw: Draw) -> Row | None:
        """Return the audited answer for one cell; None where the goal leads or lags by next to nothing.

        Only the problem's model, people and query matter.
        """
        weights, counts = self._acting(problem, draw)
        point, goal = problem.query_features, problem.goal
        reach = Reach(
            offsets=self.centroids.positions - point,
            goal=goal,
            unit=weights / self.centroids.class_weights,
            scale=budget,
            norm=problem.allowance.norm,
            ties=rival_ties(self.centroids, point, goal),
        )
        directions, stay = reach.directions(), np.zeros(point.size)
        proposal = propose(problem, reach, directions, stay, solver="exact", exact=True)
        audit = self._audited(problem, budget, directions, weights, counts)
        if abs(audit.margin) <= CLOSE * audit.tie:
            return None
        radii = budget * weights / self._totals * (1 + (self.people.size + 8) * UNIT)
        seen = UnmovedCentroids(
            self._sums / self._totals[:, None], self._scales, np.full(len(radii), float(self.people.size))
        )
        return row_of(Result(problem, proposal, audit, proof=within_radii(problem, seen, radii)))

    def _acting(self, problem: Problem, draw: Draw) -> tuple[Array, NDArray[np.int64]]:
        """Return the weight (k,) and number (k,) of participants; query subjects are none."""
        number = self._numbers[draw]
        weights, counts = self._weights[number].copy(), self._counts[number].copy()
        share, seed = draw
        for place in np.unique(problem.asked.among):
            heavy = 1.0 if self.people.weights is None else float(self.people.weights[place])
            drawn = share >= 1.0 or self._ranks(seed)[place] < members_in_share(self.people.size, share)
            if drawn and heavy > 0:
                code = int(self.people.codes(place, place + 1)[0])
                counts[code] -= 1
                weights[code] = weights[code] - heavy if counts[code] else 0.0
        return weights, counts

    def _audited(
        self, problem: Problem, budget: float, directions: Array, weights: Array, counts: NDArray[np.int64]
    ) -> Audit:
        """Refit before and after every participant of class c has moved by ε s_c."""
        moves = budget * directions
        lengths = np.linalg.norm(moves, ord=problem.allowance.norm.p, axis=1)
        violations = tuple(
            f"members of class {self.people.classes[code]!r} move by {lengths[code]:.6g}, limit {budget:.6g}"
            for code in np.flatnonzero((counts > 0) & ~(lengths <= budget * (1 + LIMIT_SLACK)))
        )
        before = self._sums / self._totals[:, None]
        after = (self._sums + weights[:, None] * moves) / self._totals[:, None]
        points = problem.asked.points
        first, last = (heard(problem, means, self._scales, points) for means in (before, after))
        told = AuditSummary(problem, first, last)
        return Audit(
            **told.reported(not violations),
            movers=int(counts[lengths > 0].sum()),
            effort=float(counts @ lengths),
            violations=violations,
            witness=WITNESS,
            residual=0.0,
            independence=Independence.IMPLEMENTATION,
        )


def _ranks(size: int, seed: int) -> NDArray[Any]:
    """Return everyone's place (n,) in the random order: the first m are those who take part."""
    kind = np.int32 if size < 2**31 else np.int64
    ranks = np.empty(size, dtype=kind)
    ranks[random_order(size, seed)] = np.arange(size, dtype=kind)
    return ranks

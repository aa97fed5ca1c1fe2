"""Members move among a query's nearest neighbours: the exact best, for any number of people and classes.

By its own moves member i can be at any distance from the query in [lo_i, hi_i], from the nearest to the farthest point
of its ball, because a ball is connected; who does not take part has lo_i = hi_i. Members choose independently, so S
(k people) can be the neighbourhood exactly if max_{i∈S} lo_i < min_{j∉S} hi_j. If: those in S go as near as they can,
and all others as far. Only if: whoever is in is no nearer than lo_i, and whoever is out no farther than hi_j.

With r = max_{i∈S} lo_i that reads: all of {hi_i ≤ r} are in, none of {lo_i > r}, and the others choose. So for each of
the n values of r, with m_c people of class c who must be in and M_c who may, the votes that can be had are

    m_c ≤ n_c ≤ M_c,    Σ_c n_c = k

and every choice of r and votes is some S. The loss falls as n_g grows, and so does what others have left: the best n_g
is the greatest, min(M_g, k − Σ_{c≠g} m_c), and the rest is spread as evenly as it can be (`spread`), which gives the
strongest rival the fewest votes. The goal can lead if m_c < n_g for all others and Σ_{c≠g} min(M_c, n_g − 1) is enough
to fill the rest. That is O(n·c·log n) in all.

Distances that are nearly equal are ordered by rounding. Squared distances are therefore compared with a hair σ: moves
keep them σ apart, and what is ruled out is ruled out although those within σ of each other were ordered as one likes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.norms import Norm, euclidean
from oar.models.training import Array
from oar.plans import Proposal
from oar.problem import Problem
from oar.retraining.black_box import ROUNDED, BlackBoxTraining, neighbours_of
from oar.solvers.black_box.exact.claims import MORE, at_least, judged_outputs, levels, outputs_of, proposal

Counts = NDArray[np.intp]
MOST_VOTES = 100_000  # times classes: beyond, one vote more is worth less than what probabilities are told apart by
LARGEST = 1e100  # squares of distances must be numbers
APART = 1e-3  # how far apart squared distances are kept where there is room, as a share of the largest
HALVINGS = 60


@dataclass(frozen=True, eq=False)
class Votes:
    """Votes: the numbers of each class in the neighbourhood (c,), and the squared radius r² that they can reach."""

    counts: Counts
    level: float


@dataclass(frozen=True, eq=False)
class Ring:
    """The range of each member's distance from the query."""

    offsets: Array  # (n, d), x_i − q
    norm: Norm  # of their balls
    codes: Counts  # (n,), their classes
    classes: int  # how many there are
    goal: int  # the code of the one that is wanted
    votes: int  # k
    farthest: float  # the distance beyond which nobody needs to go
    blur: float  # σ

    def ends(self, radii: Array) -> tuple[Array, Array]:
        """Return the squares of the least and greatest distances (n,) with balls of these radii."""
        low = self.norm.nearest_distance(self.offsets, radii)
        high = self.norm.farthest_distance(self.offsets, np.minimum(radii, 2 * self.farthest))
        return np.minimum(low, self.farthest) ** 2, np.minimum(high, self.farthest) ** 2

    def best(self, radii: Array, blur: float, leading: bool) -> Votes | None:
        """Return the best votes that can be had with squared distances this far apart; None if there are none.

        Best is: the goal leads, if `leading`; then as many votes for it as can be; then as many other classes with a
        vote as can be, because each that has none is counted with the least probability there is, at the goal's
        expense. Of equals, it is the one in which those stay in or out who are already.
        """
        low, high = self.ends(radii)
        levels = np.unique(low)
        must = self._by_class(high, levels + blur, "left")
        may = self._by_class(low, levels, "right")
        # Who is out of reach at r, but by less than σ, is in doubt. (Where σ < 0 there is nobody.)
        ordered = np.sort(low)
        clear = np.searchsorted(ordered, levels + blur) <= np.searchsorted(ordered, levels, "right")
        others = np.delete(np.arange(self.classes), self.goal)
        least, most = must[:, others], may[:, others]
        goal = np.minimum(may[:, self.goal], self.votes - least.sum(axis=1))
        rest = self.votes - goal
        possible = clear & (goal >= must[:, self.goal]) & (rest <= most.sum(axis=1))
        if not possible.any():
            return None
        below = np.minimum(most, goal[:, None] - 1)
        leads = leading & (least < goal[:, None]).all(axis=1) & (below.sum(axis=1) >= rest)
        new = np.minimum(rest - least.sum(axis=1), ((least == 0) & (most > 0)).sum(axis=1))
        kinds = (least > 0).sum(axis=1) + new
        usual = np.sort(euclidean(self.offsets))[self.votes - 1] ** 2
        row = int(np.lexsort([-np.abs(levels - usual), kinds, goal, leads, possible])[-1])
        counts = np.zeros(self.classes, dtype=np.intp)
        counts[self.goal] = goal[row]
        counts[others] = spread(least[row], most[row], int(rest[row]))
        return Votes(counts, float(levels[row]))

    def _by_class(self, ends: Array, levels: Array, side: str) -> Counts:
        """Return how many of each class have ends up to each level (l, c); below it, if `side` is "left"."""
        ordered: Any = [np.sort(ends[self.codes == code]) for code in range(self.classes)]
        return np.column_stack([each.searchsorted(levels, side) for each in ordered])

    def moves(self, radii: Array, votes: Votes) -> Array:
        """Return moves (n, d) after which these are the votes; those who are where they should be stay.

        Of each class those are in who must be, and then the nearest. Everybody goes straight towards the nearest, or
        the farthest, point of its ball, just as far as is needed: along that way a + t·s the distance is r at a root of
        t²‖s‖² + 2t a·s + ‖a‖² − r² = 0, written so that nothing cancels.
        """
        low, high = self.ends(radii)
        squares = np.einsum("nd,nd->n", self.offsets, self.offsets)
        inside = np.zeros(len(squares), dtype=bool)
        for code, number in enumerate(votes.counts):
            able = np.flatnonzero((self.codes == code) & (low <= votes.level))
            order = np.lexsort([squares[able], high[able] >= votes.level + self.blur])
            inside[able[order[:number]]] = True
        nearest, farthest = low[inside].max(), high[~inside].min(initial=self.farthest**2)
        apart = min((farthest - nearest) / 3, APART * self.farthest**2)
        usual = np.sort(squares)[self.votes - 1]
        near = float(np.clip(usual, nearest + apart, farthest - 2 * apart))
        far = near + apart
        moves = np.zeros_like(self.offsets)
        for who, level in ((inside & (squares > near), near), (~inside & (squares < far), far)):
            starts, ball = self.offsets[who], radii[who]
            ways = self.norm.project(-starts, ball) if level == near else self.norm.farthest(starts, ball)
            steep = np.abs(np.einsum("nd,nd->n", starts, ways))
            sizes, lack = np.einsum("nd,nd->n", ways, ways), squares[who] - level
            root = steep + np.sqrt(np.maximum(steep**2 - sizes * lack, 0.0))
            shares = np.abs(lack) / np.where(root > 0, root, 1.0)
            moves[who] = np.minimum(shares, 1.0)[:, None] * ways
        return moves


def spread(least: Counts, most: Counts, total: int) -> Counts:
    """Return counts within least and most that add up to a total, the greatest of them as small as it can be.

    Whoever has fewest is given the next: what is lowest rises first, as water does.

    >>> spread(np.array([0, 2, 0]), np.array([1, 5, 4]), 5)
    array([1, 2, 2])
    """
    found = least.copy()
    for _ in range(total - int(least.sum())):
        found[np.where(found < most, found, np.iinfo(np.intp).max).argmin()] += 1
    return found


def ring_of(problem: Problem) -> Ring | None:
    """Return where members can be; None where the model is not nearest neighbours, or the question is another one."""
    number = neighbours_of(problem)
    if number is None or not (problem.plain and problem.just_moves):
        return None
    people, query = problem.people, problem.query_features
    offsets = np.asarray(people.features, dtype=np.float64) - query
    longest = float(euclidean(offsets).max())
    farthest = 2 * longest if longest > 0 else 1.0  # everybody on the query: any unit will do
    if number * len(people.classes) > MOST_VOTES or not 1 / LARGEST < farthest < LARGEST:
        return None
    blur = ROUNDED * (float(euclidean(query)) + farthest) ** 2
    norm, codes = problem.allowance.norm, np.asarray(people.codes(0, people.size), dtype=np.intp)
    return Ring(offsets, norm, codes, len(people.classes), problem.goal, number, farthest, blur)


def propose(problem: Problem) -> Proposal | None:
    """Move the members to the best votes that they can give the query; None where that cannot be said exactly."""
    ring = ring_of(problem)
    if ring is None:
        return None
    people, leading = problem.people, problem.query.probability is None
    radii = problem.allowance.everyones(people.size)

    def judged(votes: Votes) -> tuple[bool, float]:
        """Return whether these votes miss the goal, and their loss: what is less is better."""
        losses, reached = judged_outputs(problem, outputs_of(votes.counts[None]))
        return not reached[0], float(losses[0])

    most, lowest = (ring.best(radii, -ring.blur, first) for first in (leading, False))
    assert most is not None  # all who might be are
    assert lowest is not None
    bound = judged(lowest)[1]
    moves, found = np.zeros_like(ring.offsets), (True, np.inf)
    for reach in (np.zeros_like(radii), radii):  # who need not move, stays
        votes = ring.best(reach, ring.blur, leading)
        if votes is not None and judged(votes) < found:
            moves, found = ring.moves(reach, votes) if reach is radii else moves, judged(votes)
    if found != judged(most):  # a tie might go either way: as people are, that can be asked
        asking = BlackBoxTraining(problem)
        loss, reached = problem.combined(*asking.answers(asking.unmoved(0), problem.asked.points))
        if (not reached, loss) < found:
            moves, found = np.zeros_like(moves), (not reached, loss)
    return proposal(
        problem,
        np.zeros(people.dimensions),
        moves,
        loss=found[1],
        bound=bound,
        suffices=_suffices(problem, ring, leading),
        steps=len(radii),
        reached=not found[0],
    )


def _suffices(problem: Problem, ring: Ring, leading: bool) -> str:
    """Say by how much larger budgets would be enough: whoever can go farther can do all that was possible before."""
    allowance, size = problem.allowance, problem.people.size
    units = allowance.acting(size).astype(np.float64) if allowance.single else allowance.everyones(size)

    def enough(scale: float) -> bool:
        votes = ring.best(scale * units, ring.blur, leading)
        return votes is not None and bool(judged_outputs(problem, outputs_of(votes.counts[None]))[1][0])

    # With twice the largest distance everybody who takes part can be on the query, or beyond everybody else.
    smallest = units[units > 0].min(initial=np.inf)
    low, high = 0.0, 4 * ring.farthest * np.sqrt(problem.people.dimensions) / smallest
    if enough(0.0):
        return ""
    if not enough(high):
        votes = ring.best(high * units, ring.blur, leading)
        why = f"too few of the {ring.votes} nearest are {problem.goal_words}"
        if votes is not None and levels(problem, outputs_of(votes.counts[None])):
            why = f"the {ring.votes} nearest do not give {problem.goal_words}{MORE}"
        return f"No budget is enough with these participants: wherever they go, {why}; let more people take part."
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    least = at_least(high)
    budgets = f"any budget of at least {least}" if allowance.single else f"budgets {least} times as large"
    return f"Optimal moves reach the goal with {budgets}."

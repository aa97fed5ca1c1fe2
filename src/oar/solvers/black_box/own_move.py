"""The query's own best move against a black box that stays as it is, by questions alone.

It is trained once; where training is random, a few times, and what counts is the mean loss. Then points within the
query's limits are asked about, many at a time: at random, towards people who have the goal, and around the best of
them. On plain features `cma` goes on from there; on a table moves are whole, and single columns are changed as long as
that helps. Trees are flat nearly everywhere, so it matters to look in many places first. Nothing is proved.

Where there are labels alone, the loss is a distance to places that have the goal (`LabelDistance`). A search can do
with few of those places, all of its points in one question, and with none once a point has the goal; what it ends at is
measured by all of them, against staying put.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from oar.estimators.black_box import Box
from oar.models.training import Array
from oar.plans import MemberPlan, Proposal
from oar.problem import Problem
from oar.retraining.black_box import NOWHERE, PLACES, BlackBoxTraining, LabelDistance
from oar.solvers.black_box.direct_search import asked_of_cma, unproved
from oar.solvers.discrete.integer_moves import Lattice

TRAININGS = 5  # where training is random
DRAWN = 512  # random moves that are looked at first
TOWARDS = 256  # people towards whom moves are looked at
GENERATIONS = 30
MOST_ROUNDS = 30
SETTLED = 1e-9
MANY, THIN, NEAREST = 64, 4, 8  # of labels alone: from so many points on every fourth place, to the nearest eight
Losses = Callable[[Array], Array]
ENDED = "It looked in many places, and proves nothing about others."


def solve(problem: Problem, seed: int = 0) -> Proposal:
    """Move the query alone."""
    asking = BlackBoxTraining(problem)
    before, random = asking.box.calls.copy(), asking.is_random()
    boxes = [asking.unmoved(number) for number in range(TRAININGS if random else 1)]

    def of_box(box: Box, points: Array) -> Array:  # one question, and one more for labels alone
        said = box.says(points)
        if said.labels_alone:
            return _by_labels(asking, box, points, said.outputs, alone=not random)
        return np.array([problem.wishes[0].loss(row) for row in said.outputs])

    def losses(moves: Array) -> Array:
        return np.mean([of_box(box, problem.query_features + moves) for box in boxes], axis=0)

    move, loss, steps = (_plain if problem.limits is None else _whole)(problem, losses, seed)
    if boxes[0].says(problem.query_features[None]).labels_alone:
        both = problem.query_features + [np.zeros_like(move), move]
        stay, loss = (float(np.mean([asking.answers(box, one[None])[0][0] for box in boxes])) for one in both)
        move, loss = (move, loss) if loss < stay else (np.zeros_like(move), stay)
    calls = asking.box.calls.since(before)
    plan = MemberPlan(problem, move + 0.0, np.zeros((problem.people.size, problem.people.dimensions)))
    return unproved(plan, "direct-search", loss, calls, finished=True, steps=steps, note=ENDED, estimated=random)


def _by_labels(asking: BlackBoxTraining, box: Box, points: Array, codes: NDArray[np.intp], alone: bool) -> Array:
    """Return label distances (m,) of points (m, d) with these labels, by few places.

    Where a box stands alone, a point that has the goal cannot be beaten, and no other is looked at more closely.
    """
    codes_wanted, every = asking.problem.wanted_codes, asking.distances[0]
    if asking.problem.query.probability is not None:
        asking.answers(box, points[:1])  # which refuses it
    far = every.lengths.size // PLACES  # ways there are; places go by how far along their ways they are
    thin = THIN if len(points) > MANY else 1  # fewer places never lower a loss
    some = np.arange(every.lengths.size).reshape(PLACES, far)[thin - 1 :: thin, :NEAREST].ravel()
    few = LabelDistance(every.places[some], every.lengths[some])
    has = np.isin(codes, codes_wanted)
    losses = np.where(has, 0.0, NOWHERE * float(every.lengths.max(initial=1.0)))
    without = np.flatnonzero(~has)
    if not without.size or (alone and has.any()):
        return losses
    asked = (points[without, None] + few.places).reshape(-1, points.shape[1])
    if len(asked):
        reached = np.isin(box.says(asked).outputs, codes_wanted).reshape(without.size, -1)
        near = np.where(reached, few.lengths, np.inf).min(axis=1)
        losses[without] = np.minimum(losses[without], near)
    return losses


def _towards(problem: Problem, rng: np.random.Generator) -> Array:
    """Return ways (m, d) from the query to people who have the goal; of values, to anybody."""
    features = np.asarray(problem.people.features, dtype=np.float64)
    who = np.arange(len(features))
    if not problem.regresses:
        who = np.flatnonzero(np.isin(problem.people.codes(0, problem.people.size), problem.wanted_codes))
    drawn = who if who.size <= TOWARDS else np.sort(rng.choice(who, TOWARDS, replace=False))
    return features[drawn] - problem.query_features


def _plain(problem: Problem, losses: Losses, seed: int) -> tuple[Array, float, int]:
    """Search among moves in a ball."""
    rng = np.random.default_rng(seed)
    norm, budget, width = problem.allowance.norm, problem.query_budget, problem.people.dimensions

    def allowed(moves: Array) -> Array:
        return norm.project(moves, np.full(len(moves), budget))

    spreads = np.asarray(problem.people.features, dtype=np.float64).std(axis=0)
    ways = rng.normal(size=(DRAWN, width)) * np.where(spreads > 0, spreads, 0.0)
    shares = rng.uniform(size=(DRAWN, 1)) ** (1 / width)
    axes = budget * np.vstack([np.eye(width), -np.eye(width)])
    far = norm.maximise(ways, np.full(DRAWN, budget))
    tried = allowed(np.vstack([np.zeros((1, width)), axes, shares * far, _towards(problem, rng)]))
    found = losses(tried)
    best, least = tried[int(found.argmin())], float(found.min())
    steps = 1
    if budget > 0:
        scale = budget / np.sqrt(width)
        for points, tell in asked_of_cma(best / scale, seed):
            moves = allowed(scale * np.array(points))
            found = losses(moves)
            if found.min() < least:
                best, least = moves[int(found.argmin())], float(found.min())
            tell(found.tolist())
            steps += 1
            if steps > GENERATIONS or least <= SETTLED:
                break
    return best, least, steps


def _whole(problem: Problem, losses: Losses, seed: int) -> tuple[Array, float, int]:
    """Search among whole moves of one person of a table."""
    rng = np.random.default_rng(seed)
    measured = problem.measured(query=True).of(np.array([problem.people.size]))
    width = measured.columns.size
    here = np.zeros((1, width))
    if not width:
        stay = np.zeros((1, problem.people.dimensions))
        return stay[0], float(losses(stay)[0]), 0
    whole = Lattice(measured)

    def judged(moves: list[Array]) -> tuple[Array, float]:
        found = losses(measured.exactly(np.vstack(moves)))
        return moves[int(found.argmin())], float(found.min())

    drawn, towards = rng.normal(size=(DRAWN // 4, width)), _towards(problem, rng)[:, measured.columns] * measured.costs
    ways = [whole.settled(whole.response(way[None]), here) for way in np.vstack([drawn, towards])]
    here, least = judged([here, *ways])
    for steps in range(1, MOST_ROUNDS + 1):  # noqa: B007
        others, rest = list(whole.changed(here)), np.where(whole.discrete, 0.0, here)
        fixed = here - rest
        bounds = whole.rest(fixed)
        for _ in range(8):  # what need not be whole, a little to all sides, within its own bounds
            aside = rest + np.where(whole.discrete, 0.0, rng.normal(size=rest.shape)) * 0.3 * measured.unruled.radii[0]
            beside = whole.shrunk(fixed, np.clip(aside, bounds.lower, bounds.upper))
            others.append(whole.settled(fixed + beside, here))
        if not others:
            break
        best, found = judged(others)
        if not found < least - SETTLED * abs(least):
            break
        here, least = best, found
    return measured.exactly(here)[0], least, steps

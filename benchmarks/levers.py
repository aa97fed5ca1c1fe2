"""How far greedy flips and strikes are from the best of all subsets.

Small random problems (12 people around 2 or 3 centres, weights between 0.3 and 1.3, three changes), in which every
subset can be refitted. Measured is the share of the gain of the best subset that a method misses: 0 is the optimum.
The search adds and exchanges changes; "greedy" only adds the best one three times; "first order" makes the three
changes that promise most at the first signal, with no refit between them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

import oar
from benchmarks.rows import Effort, Row
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import OwnTraining
from oar.solvers.discrete.greedy import Effort as Trying
from oar.solvers.discrete.greedy import LeverSearch
from oar.solvers.discrete.ground import EMPTY, LEAVE, CentroidGround, Changes, Ground, OpenChanges, RefittedGround

PEOPLE, MOST = 12, 3
MODELS = (oar.NearestCentroid(), oar.SoftmaxRegression(0.05))
LEVERS = {"flips": oar.Relabel(most=MOST), "strikes": oar.Withhold(most=MOST)}


def rows(effort: Effort) -> Iterator[Row]:
    seeds = 4 * effort.rounds
    for model, (name, action) in itertools.product(MODELS, LEVERS.items()):
        missed = np.array([_missed(seed, model, action) for seed in range(seeds if name == "strikes" else seeds // 2)])
        for column, method in enumerate(("search", "greedy", "first order")):
            shares = missed[:, column]
            equal = (
                f"the optimum in {np.mean(shares < 1e-6):.0%} of {len(shares)} problems, at worst {shares.max():.2g}"
            )
            effort_spent = f"; {missed[:, 3].mean():.0f} refits of {missed[:, 4].mean():.0f}" if column == 0 else ""
            target = 1e-6 if column == 0 else None
            yield Row(f"{model.name}, {name}: gain missed by {method}", shares, "", target, equal + effort_spent)


def _missed(seed: int, model: Any, action: Any) -> tuple[float, ...]:
    """Return the share of the best gain that each method misses, the search's refits, and the number of subsets."""
    problem = _problem(seed, model, action)
    ground = _ground(problem)
    open_ = OpenChanges(problem.levers, ground.start, False)  # type: ignore[arg-type]
    before = ground.loss({})
    found = LeverSearch(ground, open_, Trying(4_000, 64)).run().loss
    refits = ground.refits
    greedy = _greedy(ground, open_)
    at_once = ground.loss(_most_promising(_ground(problem), open_))
    columns = ground.start.parts[1].shape[1]
    singles = [(int(i), LEAVE if c == columns else int(c)) for i, c in np.argwhere(open_.now({}))]
    subsets = [
        dict(some)
        for size in range(MOST + 1)
        for some in itertools.combinations(singles, size)
        if _valid(some, problem)
    ]
    best = min(ground.loss(some) for some in subsets)
    gain = before - best
    losses = (found, greedy, min(at_once, before))
    missed = [0.0 if gain < 1e-12 else max(0.0, (loss - best) / gain) for loss in losses]
    return *missed, float(refits), float(len(subsets))


def _greedy(ground: Ground, open_: OpenChanges) -> float:
    """Return the loss after the best change, the best one after that, and so on, while they help."""
    changes: Changes = {}
    for _ in range(MOST):
        columns = open_.start.parts[1].shape[1]
        singles = [(int(i), LEAVE if c == columns else int(c)) for i, c in np.argwhere(open_.now(changes))]
        best = min(({**changes, person: what} for person, what in singles), key=ground.loss)
        if ground.loss(best) >= ground.loss(changes):
            break
        changes = best
    return ground.loss(changes)


def _valid(some: tuple[tuple[int, int], ...], problem: oar.Problem) -> bool:
    """Report whether nobody changes twice, and every class keeps somebody."""
    changes = dict(some)
    if len(changes) < len(some):
        return False
    labels = problem.people.labels.copy()
    for person, what in some:
        labels[person] = what
    return set(labels[labels != LEAVE]) == set(problem.people.labels)


def _most_promising(ground: Ground, open_: OpenChanges) -> Changes:
    promised = np.where(open_.now({}), ground.promised({}), np.inf)
    best = promised.argmin(axis=1)
    people = np.argsort(promised.min(axis=1))[:MOST]
    leave = promised.shape[1] - 1
    return {int(person): LEAVE if best[person] == leave else int(best[person]) for person in people}


def _ground(problem: oar.Problem) -> Ground:
    kind = CentroidGround if isinstance(problem.model, oar.NearestCentroid) else RefittedGround
    return kind(OwnTraining(problem, 1e-9, EMPTY), Contribution.of(problem.people, problem.regresses))


def _problem(seed: int, model: Any, action: Any) -> oar.Problem:
    random = np.random.default_rng(seed)
    classes = 2 + seed % 2
    labels = np.arange(PEOPLE) % classes
    features = 1.5 * random.standard_normal((classes, 2))[labels] + random.standard_normal((PEOPLE, 2))
    people = oar.Population(features, labels, random.random(PEOPLE) + 0.3)
    return oar.Problem(people, model, oar.Query(random.standard_normal(2), int(random.integers(classes))), action)

"""Plain problems of any scale, with budgets just below and above what suffices; and a search for what beats proofs."""

from __future__ import annotations

import numpy as np

import oar
from oar import models
from oar.solvers.query.shortest_move import shortest_move

VERBS = ("individual", "collective", "joint")
ROUNDING = 1e-6, 1e-9  # what the package itself allows a refit to be below a bound: a share of a loss, and a loss
NEAR = (0.3, 0.9, 1 - 1e-6, 1 - 1e-9, 1 + 1e-9, 1 + 1e-6, 1.5)


def drawn(rng):
    """Draw a problem and the verb that it is asked by."""
    people, dimensions, classes = int(rng.integers(6, 20)), int(rng.integers(1, 4)), 2 + int(rng.random() < 0.4)
    codes = np.concatenate([np.arange(classes), rng.integers(0, classes, people - classes)])
    scales = 10.0 ** rng.uniform(-12, 12) * (10.0 ** rng.uniform(-3, 3, dimensions) if rng.random() < 0.3 else 1.0)
    features = (rng.normal(size=(people, dimensions)) + rng.normal(size=dimensions) * codes[:, None]) * scales
    if rng.random() < 0.2:
        features = features + 10.0 ** rng.uniform(0, 6) * scales
    labels = np.array(["no", "yes", "maybe"])[codes]
    weights = rng.uniform(0.1, 5, people) if rng.random() < 0.3 else None
    group = oar.Population(features, labels, weights=weights)
    query = features[int(rng.integers(people))] + rng.normal(size=dimensions) * scales * rng.uniform(0, 1)
    verb = str(rng.choice(VERBS))
    linear = verb == "individual" and rng.random() < 0.4
    model = models.Scaled(models.SoftmaxRegression()) if linear else oar.NearestCentroid()
    norm = float(rng.choice([1.0, 2.0, np.inf]))
    asked = oar.Query(query, goal=str(rng.choice(group.classes)))
    size = float(np.max(scales))
    problem = oar.Problem(group, model, asked, oar.Perturb(size, norm=norm))
    factor = float(rng.choice(NEAR))
    if isinstance(model, oar.NearestCentroid):
        move = shortest_move(problem) if verb == "individual" else None
        enough = oar.minimal_budget(problem).value if verb != "individual" else 0.0
        enough = float(np.linalg.norm(move, norm)) if move is not None else enough
        size = enough if 0 < enough < np.inf else size
    budget = factor * size
    return verb, oar.Problem(
        group, model, oar.Query(query, goal=asked.goal, budget=budget), oar.Perturb(budget, norm=norm)
    )


def refuted(rng, verb, problem) -> tuple[str, str]:
    """Return what beats what is proved of a problem (nothing where it holds), and what became of it."""
    result = getattr(oar, verb)(problem)
    outcome = f"{verb} {result.status}{' exact' if result.exact else ''}"
    for own, moves in tried(rng, verb, problem, result):
        told = oar.audit(problem, moves, query_move=own)
        if told.violations:
            continue
        if told.success and result.status is oar.results.Status.IMPOSSIBLE:
            return f"{verb}: impossible, and yet the audit accepts {own} and {moves}", outcome
        if told.loss < result.bound - max(ROUNDING[0] * abs(result.bound), ROUNDING[1]):
            return f"{verb}: a loss of {told.loss!r} is below the bound {result.bound!r}", outcome
    return "", outcome


def tried(rng, verb, problem, result):
    """Yield moves of query and members that use their budgets in good and in random directions."""
    people, norm, size = problem.people, problem.allowance.norm, problem.query_budget * (1 - 1e-12)
    features = np.asarray(people.features, dtype=float)
    codes, goal = people.codes(0, people.size), problem.goal
    means = np.array([features[codes == code].mean(axis=0) for code in range(len(people.classes))])
    nobody, still = np.zeros_like(features), np.zeros(people.dimensions)
    for _ in range(10):
        noise = rng.normal(size=people.dimensions) * np.abs(means).max() * rng.choice([0.0, 0.01, 0.3, 3.0])
        rival = int(rng.choice(np.delete(np.arange(len(means)), goal)))
        own, moves = still, nobody
        if verb != "collective":
            heading = means[goal] - means[rival] + noise
            own = norm.maximise(heading[None], np.array([size]))[0] * rng.choice([1.0, 1.0, 0.7])
        if verb != "individual":
            towards = problem.query_features + own - means + noise
            towards[np.arange(len(means)) != goal] *= -1
            moves = norm.maximise(towards, np.full(len(means), size))[codes]
        yield own, moves
    given = result.plan.query_move
    if verb == "individual" and given is not None:
        yield given * (1 - 1e-9), nobody

"""Proofs beside those of plain plans: choices of members, questions, rounds, trees, neighbours and batch norm.

Each kind draws a small problem, asks, and then looks for anything that the audit accepts and that was ruled out: all
choices of members where there are few, plans for smaller budgets, and moves at random that spend what they may.
"""

from __future__ import annotations

import itertools

import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import oar
from oar import models, online
from oar.models import BatchNorm, Dense, TestTimeBatchNorm

ROUNDING = 1e-6, 1e-9  # what the package itself allows a refit to be below a bound: a share of a loss, and a loss
SPENT = 1 + 5e-10  # of a budget, which the audit lets pass


def people_of(rng, most=12, classes=None):
    """Draw people, and the size of their features."""
    number, dimensions = int(rng.integers(5, most)), int(rng.integers(1, 4))
    classes = classes or 2 + int(rng.random() < 0.4)
    codes = np.concatenate([np.arange(classes), rng.integers(0, classes, number - classes)])
    scale = 10.0 ** rng.uniform(-9, 9) if rng.random() < 0.5 else 1.0
    features = (rng.normal(size=(number, dimensions)) + rng.normal(size=dimensions) * codes[:, None]) * scale
    weights = rng.uniform(0.1, 5, number) if rng.random() < 0.3 else None
    return oar.Population(features, np.array(["no", "yes", "maybe"])[codes], weights=weights), scale


def question_of(rng, model, people=None, scale=None, **action):
    """Draw a problem of these people."""
    if people is None:
        people, scale = people_of(rng)
    features = np.asarray(people.features, dtype=float)
    query = features[int(rng.integers(people.size))] + rng.normal(size=people.dimensions) * scale * rng.uniform(0, 1)
    budget = float(scale * rng.choice([0.05, 0.3, 1.0, 3.0]))
    perturb = oar.Perturb(budget, norm=float(rng.choice([1.0, 2.0, np.inf])), **action)
    return oar.Problem(people, model, oar.Query(query, goal=str(rng.choice(people.classes))), perturb)


def at_random(rng, problem, result=None):
    """Yield members' moves (n, d) that spend their budgets: along the plan, towards and away from the query."""
    people, norm = problem.people, problem.allowance.norm
    features = np.asarray(people.features, dtype=float)
    radii, codes = problem.allowance.everyones(people.size) * SPENT, people.codes(0, people.size)
    towards = problem.query_features - features
    goal = (codes == problem.goal)[:, None]
    for _ in range(12):
        noise = rng.normal(size=features.shape) * np.abs(towards).max() * rng.choice([0.0, 0.1, 3.0])
        yield norm.maximise(np.where(goal, towards, -towards) + noise, radii)
    if result is not None:
        yield np.asarray(result.plan.moves(), dtype=float) * SPENT


def against(problem, result, moves, own=None):
    """Return what an accepted plan refutes of a result."""
    told = oar.audit(problem, moves, query_move=own)
    if told.violations or not told.converged:
        return ""
    if told.success and result.status is oar.results.Status.IMPOSSIBLE:
        return f"impossible, and yet the audit accepts {own} and {moves}"
    if told.loss < result.bound - max(ROUNDING[0] * abs(result.bound), ROUNDING[1]):
        return f"a loss of {told.loss!r} is below the bound {result.bound!r}"
    return ""


def best_members(rng):
    """All choices of m members, planned for one by one."""
    people, scale = people_of(rng, most=9)
    number = int(rng.integers(1, 4))
    problem = question_of(rng, oar.NearestCentroid(), people, scale, participants=oar.Best(number))
    result = oar.collective(problem)
    if problem.best is None:
        return "", "all"
    for some in itertools.combinations(range(people.size), number):
        mask = np.isin(np.arange(people.size), some)
        other = oar.collective(problem.with_action(participants=mask, seed=None))
        refuted = against(other.problem, result, np.asarray(other.plan.moves()) * SPENT)
        if refuted:
            return f"members {some}: {refuted}", "best"
    return "", f"best {result.status}{' exact' if result.exact else ''}"


def fewest_members(rng):
    """All choices of one member fewer than are said to be needed, and budgets just below the least."""
    people, scale = people_of(rng, most=10)
    linear = rng.random() < 0.15  # which takes as long as all others together
    model = oar.NearestCentroid()
    if linear:
        model = models.SoftmaxRegression(0.1) if len(people.classes) == 2 else models.LinearSVM(0.1, True)
        people, scale = oar.Population(np.asarray(people.features) / scale, people.labels, people.weights), 1.0
    problem = question_of(rng, model, people, scale)
    coalition, budget = oar.minimal_coalition(problem), oar.minimal_budget(problem)
    outcome = f"fewest {'linear' if linear else 'centroids'} {coalition.status}{' exact' if coalition.exact else ''}"
    able = coalition.at_least - 1 if coalition.size is not None else people.size
    if coalition.status is not oar.results.Status.IMPOSSIBLE and coalition.size is None:
        able = 0
    for some in itertools.islice(itertools.combinations(range(people.size), max(able, 0)), 60 if linear else 400):
        mask = np.isin(np.arange(people.size), some)
        few = problem.with_action(participants=mask, seed=None)
        plans = at_random(rng, few) if linear else [np.asarray(oar.collective(few).plan.moves()) * SPENT]
        for moves in plans:
            told = oar.audit(few, moves)
            if told.success and not told.violations and not told.success_before:
                return f"members {some} are enough, and {coalition.explanation}", outcome
    least = budget.at_least
    if 0 < least < np.inf:
        less = problem.with_action(budget=least * (1 - 1e-9))
        moves = [np.asarray(oar.collective(less).plan.moves()) * SPENT] if not linear else at_random(rng, less)
        for each in moves:
            told = oar.audit(less, each)
            if told.success and not told.violations:
                return f"a budget of {least * (1 - 1e-9)!r} is enough, and {budget.explanation} {least!r}", outcome
    return "", outcome


def rounds(rng):
    """A stream of few rounds, with the rules of which it is known what rows weigh."""
    people, scale = people_of(rng, most=16)
    parts = np.array_split(rng.permutation(people.size), int(rng.integers(1, 4)))
    features, labels = np.asarray(people.features), people.labels
    stream = online.Stream.of_batches([(features[part], labels[part]) for part in parts], history=(features, labels))
    rule = [online.FullRefit(), online.Window(2), online.ExponentialMeans(float(rng.uniform(0.1, 1)))][rng.integers(3)]
    budget = float(scale * rng.choice([0.05, 0.3, 1.0, 3.0]))
    query = features[int(rng.integers(people.size))] + rng.normal(size=people.dimensions) * scale * rng.uniform(0, 1)
    problem = online.OnlineProblem(
        stream, oar.NearestCentroid(), rule, oar.Query(query, goal=str(rng.choice(people.classes))),
        oar.Perturb(budget, norm=float(rng.choice([1.0, 2.0, np.inf]))),
    )  # fmt: skip
    result = oar.collective(problem)
    outcome = f"rounds {result.status}{' exact' if result.exact else ''}"
    for moves in at_random(rng, problem.everyone):
        moves[stream.when < 0] = 0.0
        told = oar.audit(type(result.plan)(problem, moves))
        if told.violations:
            continue
        if told.success and result.status is oar.results.Status.IMPOSSIBLE:
            return f"impossible, and yet the replay accepts {moves}", outcome
        if told.loss < result.bound - max(ROUNDING[0] * abs(result.bound), ROUNDING[1]):
            return f"a loss of {told.loss!r} is below the bound {result.bound!r}", outcome
    return "", outcome


def boxes(rng):
    """One tree or few neighbours, whom the query or the members move among."""
    people, scale = people_of(rng, most=16)
    people = oar.Population(np.asarray(people.features), people.labels)
    if rng.random() < 0.5:
        tree = DecisionTreeClassifier(max_depth=int(rng.integers(1, 5)), random_state=0)
        box, verb = oar.BlackBox(make_pipeline(StandardScaler(), tree) if rng.random() < 0.3 else tree), "individual"
    else:
        box = oar.BlackBox(KNeighborsClassifier(int(rng.integers(1, 4))))
        verb = str(rng.choice(["individual", "collective"]))
    problem = question_of(rng, box, people, scale)
    if verb == "collective":
        result = oar.collective(problem, solver="exact")
        tries = ((None, moves) for moves in at_random(rng, problem, result))
    else:
        try:
            result = oar.individual(problem, solver="exact")
        except oar.errors.OptionError:
            return "", "boxes none"
        nobody, norm = np.zeros((people.size, people.dimensions)), problem.allowance.norm
        ways = rng.normal(size=(40, people.dimensions)) * np.where(rng.random((40, people.dimensions)) < 0.7, 1, 0)
        owns = norm.maximise(ways, np.full(40, problem.query_budget * SPENT)) * rng.uniform(0, 1, (40, 1)) ** 0.3
        tries = ((own, nobody) for own in owns)
    outcome = f"boxes {verb} {result.status}{' exact' if result.exact else ''}"
    for own, moves in tries:
        refuted = against(problem, result, moves, own)
        if refuted:
            return f"{box.name} {verb}: {refuted}", outcome
    return "", outcome


def batch_norms(rng):
    """One normalised layer."""
    units, dimensions, classes = int(rng.integers(1, 4)), int(rng.integers(1, 4)), 2 + int(rng.random() < 0.3)
    names = ["no", "yes", "maybe"][:classes]
    momentum = float(rng.choice([1.0, 0.5, 0.1]))
    more = {} if momentum == 1 else {"mean": rng.normal(size=units), "variance": rng.random(units) + 0.1}
    layers = [Dense(rng.normal(size=(units, dimensions))), BatchNorm(rng.normal(size=units), **more)]
    layers += ["relu"] if rng.random() < 0.4 else []
    layers += [Dense(rng.normal(size=(classes, units)), rng.normal(size=classes))]
    own = bool(rng.random() < 0.5)
    model = TestTimeBatchNorm(layers, classes=names, momentum=momentum, query_in_batch=own)
    number = int(rng.integers(3, 9))
    offset = 10.0 ** rng.uniform(3, 11) if rng.random() < 0.4 else 0.0
    features = rng.normal(size=(number, dimensions)) + offset
    codes = np.concatenate([np.arange(classes), rng.integers(0, classes, max(number - classes, 0))])[:number]
    people = oar.Population(features, np.array(names)[codes % classes])
    query = oar.Query(rng.normal(size=dimensions) * 2 + offset, goal=str(rng.choice(people.classes)))
    budget = float(rng.choice([0.1, 0.5, 2.0]))
    problem = oar.Problem(people, model, query, oar.Perturb(budget, norm=float(rng.choice([1.0, 2.0, np.inf]))))
    result = oar.collective(problem)
    for moves in [*at_random(rng, problem, result), *(-each for each in at_random(rng, problem))]:
        refuted = against(problem, result, moves)
        if refuted:
            return f"batch norm: {refuted}", "batch norm"
    return "", f"batch norm {result.status}{' exact' if result.exact else ''}"


KINDS = (best_members, fewest_members, rounds, boxes, batch_norms)

"""How far a batch can push a query: exact extremes of one unit, optima of one layer, and bounds elsewhere."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oar
from oar.errors import Status
from oar.models import BatchNorm, Dense, TestTimeBatchNorm
from oar.referee import judged
from oar.solvers import propose_collective
from oar.solvers.batch_norm.planning import solve
from oar.solvers.batch_norm.unit_extremes import NormalisedUnit, highest, lowest

STEPS = 9


def a_unit(seed, equal):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 4))
    centres = rng.normal(size=size) * rng.choice([0.1, 1.0, 3.0])
    radii, weights = np.full(size, rng.uniform(0.05, 2.0)), np.ones(size)
    if not equal:
        radii, weights = rng.uniform(0, 2, size), rng.uniform(0.2, 2, size)
    elif seed % 2:
        radii *= rng.random(size) < 0.6  # those who do not take part
    m = float(rng.choice([1.0, 0.5, 0.1]))
    return NormalisedUnit(
        centres - radii,
        centres + radii,
        weights,
        query=float(rng.normal() * 2),
        own=float(rng.integers(2)),
        momentum=m,
        mean=(1 - m) * float(rng.normal()),
        variance=(1 - m) * float(rng.random()) + float(rng.choice([1e-3, 0.1])),
    )


def values_on_a_grid(unit):
    """Return the query's normalised value for all members on grids of their intervals."""
    grids = [np.linspace(low, high, STEPS) for low, high in zip(unit.lows, unit.highs, strict=True)]
    places = np.array(list(itertools.product(*grids)))
    weights = np.append(unit.weights, unit.own)
    values = np.column_stack([places, np.full(len(places), unit.query)])
    means = np.average(values, axis=1, weights=weights)
    variances = np.average((values - means[:, None]) ** 2, axis=1, weights=weights)
    return (unit.query - unit.mean - unit.momentum * means) / np.sqrt(unit.variance + unit.momentum * variances)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), equal=st.booleans())
def test_a_units_extremes_are_those_of_brute_force(seed, equal):
    unit = a_unit(seed, equal)
    found = values_on_a_grid(unit)
    for extreme, best, sign in ((highest(unit), found.max(), 1), (lowest(unit), -found.min(), -1)):
        assert (extreme.places >= unit.lows).all()
        assert (extreme.places <= unit.highs).all()
        assert unit.value(extreme.places) == pytest.approx(extreme.value, rel=1e-12)
        assert best <= sign * extreme.bound + 1e-10  # what is proved
        if equal:
            assert extreme.bound == extreme.value
            assert best <= sign * extreme.value + 1e-10


def test_both_kinds_of_extremes_occur():
    low, high = np.array([-1.0, 0.0, 1.0]) - 0.5, np.array([-1.0, 0.0, 1.0]) + 0.5
    above = NormalisedUnit(low, high, np.ones(3), query=2.0, own=1.0, momentum=1.0, mean=0.0, variance=1e-3)
    level = highest(above).places  # the query leads: all others gather at a level, as near as they can
    np.testing.assert_allclose(level, np.clip(level[1], low, high), atol=1e-12)
    assert low[1] < level[1] < high[1]
    below = highest(dataclasses.replace(above, query=-4.0)).places  # the query trails: others spread out
    assert all(place in (*low, *high) for place in below)
    assert below.std() > low.std() - 1e-12


def test_a_query_in_the_batch_is_at_most_root_n_away():
    far = NormalisedUnit(np.full(9, -1e6), np.full(9, 1e6), np.ones(9), 0.0, 1.0, 1.0, 0.0, 1e-5)
    assert highest(far).value == pytest.approx(3.0, rel=1e-9)
    alone = highest(dataclasses.replace(far, own=0.0))
    assert alone.value == pytest.approx(1e6 / np.sqrt(1e-5), rel=1e-6)  # not counted, it has no such limit


def network(rng, classes=2, activation=None, units=2, **settings):
    layers = [
        BatchNorm(rng.normal(size=units), rng.normal(size=units), rng.normal(size=units), rng.random(units) + 0.1)
    ]
    layers += [activation] if activation else []
    return TestTimeBatchNorm(
        [*layers, Dense(rng.normal(size=(classes, units)) * 2, rng.normal(size=classes))], **settings
    )


def brute_force(problem, steps=7):
    """Return the least loss of three people's moves on a grid of everyone's square."""
    model, people = problem.model, problem.people
    radii = problem.allowance.everyones(people.size)
    ways = np.linspace(-1, 1, steps)
    each = [[radius * np.array(way) for way in itertools.product(ways, repeat=2)] for radius in radii]
    shares = np.append(np.ones(people.size), float(model.query_in_batch))
    shares /= shares.sum()
    least = np.inf
    for moves in itertools.product(*each):
        rows = np.vstack([people.features + np.array(moves), problem.query_features])
        logits = model.batch_outputs(rows, shares)[-1]
        least = min(least, float(np.logaddexp.reduce(logits) - logits[problem.goal]))
    return least


@pytest.mark.parametrize("activation", [None, "relu", "tanh"])
@pytest.mark.parametrize("extra", [{}, {"momentum": 0.5}, {"query_in_batch": False}], ids=str)
def test_one_layer_is_solved_exactly(activation, extra):
    rng = np.random.default_rng(len(str(extra)) + (0 if activation is None else len(activation)))
    model, people = network(rng, activation=activation, **extra), oar.Population(rng.normal(size=(2, 2)), ["?"] * 2)
    problem = oar.Problem(people, model, oar.Query(rng.normal(size=2), 1), oar.Perturb(0.4, norm=np.inf))
    result = oar.collective(problem)
    assert result.exact
    assert result.proposal.solver == "exact"
    assert result.bound == pytest.approx(result.loss, rel=1e-7)
    assert not result.audit.violations
    found = brute_force(problem, 9)
    assert result.loss <= found + 1e-12
    assert found - result.loss < 0.05 * result.loss_before + 0.02  # a grid comes near
    loop = oar.collective(problem, solver="projected-gradient")
    assert loop.loss >= result.loss - 1e-10
    assert loop.bound <= result.loss + 1e-9
    assert result.status is not Status.STOPPED_EARLY


@pytest.mark.parametrize("seed", range(6))
def test_bounds_hold_for_three_classes_and_other_balls(seed):
    rng = np.random.default_rng(seed)
    model, people = network(rng, classes=3), oar.Population(rng.normal(size=(2, 2)), ["?"] * 2)
    wide = oar.Problem(people, model, oar.Query(rng.normal(size=2), 2), oar.Perturb(0.4, norm=np.inf))
    round_ones = dataclasses.replace(wide, action=oar.Perturb(0.4))
    results = [oar.collective(one) for one in (wide, round_ones)]
    least = brute_force(wide)
    for result in results:
        assert result.bound <= min(least, result.loss) + 1e-9
        if result.status is Status.IMPOSSIBLE:
            assert least >= np.log(2) - 1e-9 or not result.success
    assert results[0].loss <= least + 1e-6
    assert results[0].loss <= results[1].loss + 1e-7


def test_a_loop_that_ends_badly_is_replaced_by_the_best_plan_against_one_rival():
    rng = np.random.default_rng(5)
    model, people = network(rng, classes=3), oar.Population(rng.normal(size=(2, 2)), ["?"] * 2)
    problem = oar.Problem(people, model, oar.Query(rng.normal(size=2), 2), oar.Perturb(0.4, norm=np.inf))
    stay = oar.solvers.ProjectedGradient(max_steps=0, restarts=0)
    found = solve(problem, "auto", "auto", lambda _: propose_collective(problem, stay))
    assert found.solver == "extremes"
    told = judged(found, problem, "members")
    assert told.bound <= brute_force(problem) + 1e-9
    assert found.claimed_loss < propose_collective(problem, stay).claimed_loss
    assert found.exact == (found.claimed_loss <= told.bound * (1 + 1e-6))


def test_one_unit_is_exact_in_every_ball():
    rng = np.random.default_rng(2)
    layers = [Dense(rng.normal(size=(1, 3))), BatchNorm([1.0]), "tanh", Dense([[-1.0], [2.0]], [0.5, 0.0])]
    model = TestTimeBatchNorm(layers, classes=["no", "yes"])
    people = oar.Population(rng.normal(size=(12, 3)), ["?"] * 12)
    for norm in (1, 2, np.inf):
        problem = oar.Problem(people, model, oar.Query(rng.normal(size=3), "yes"), oar.Perturb(0.3, norm=norm))
        exact, loop = oar.collective(problem), oar.collective(problem, solver="projected-gradient")
        assert exact.exact
        assert not exact.audit.violations
        assert exact.loss <= loop.loss + 1e-9
        assert loop.bound == pytest.approx(exact.loss, rel=1e-8)


def test_the_exact_optimum_beats_every_loop_with_many_people_and_some_who_stay():
    rng = np.random.default_rng(0)
    model = network(rng, units=4)
    people = oar.Population(rng.normal(size=(40, 4)), ["?"] * 40)
    problem = oar.Problem(
        people, model, oar.Query(rng.normal(size=4), 1), oar.Perturb(0.2, norm=np.inf, participants=0.5, seed=1)
    )
    exact, loop = oar.collective(problem), oar.collective(problem, solver="frank-wolfe")
    assert exact.exact
    assert exact.loss <= loop.loss + 1e-9
    assert exact.audit.movers <= 20


def test_unequal_budgets_are_bounded_and_not_called_exact_where_that_is_not_proved():
    rng = np.random.default_rng(1)
    people = oar.Population(rng.normal(size=(6, 1)), ["?"] * 6)
    model = TestTimeBatchNorm([BatchNorm([1.0]), Dense([[0.0], [1.0]])])
    action = oar.Perturb(rng.uniform(0.1, 1.0, 6), norm=np.inf)
    trailing = oar.Problem(people, model, oar.Query([-3.0], 1), action)  # the query is far below: ends, not a level
    result = oar.collective(trailing)
    assert result.bound < result.loss
    assert not result.exact
    with pytest.raises(oar.errors.OARError, match="solver: 'exact' is for two classes"):
        oar.collective(trailing, solver="exact")
    leading = dataclasses.replace(trailing, query=oar.Query([3.0], 1))
    assert oar.collective(leading, solver="exact").exact  # a common level is proved whatever the budgets


def test_frozen_statistics_leave_nothing_to_do():
    rng = np.random.default_rng(3)
    model = network(rng, momentum=0.0)
    people, query = oar.Population(rng.normal(size=(9, 2)), ["?"] * 9), rng.normal(size=2)
    predicted = model.predict(model.fit(people), query)
    result = oar.collective(oar.Problem(people, model, oar.Query(query, 1 - int(predicted)), oar.Perturb(100.0)))
    assert result.exact
    assert result.status is Status.IMPOSSIBLE
    assert result.loss == result.loss_before
    assert "frozen" in result.explanation
    by_loop = oar.collective(result.problem, solver="projected-gradient")
    assert by_loop.loss == result.loss


def test_what_exact_cannot_be_asked():
    rng = np.random.default_rng(4)
    people = oar.Population(rng.normal(size=(5, 2)), ["?"] * 5)
    problem = oar.Problem(people, network(rng), oar.Query(rng.normal(size=2), 1), oar.Perturb(0.3))
    with pytest.raises(oar.errors.OARError, match="solver: 'exact' is for two classes"):
        oar.collective(problem, solver="exact")
    with pytest.raises(oar.errors.OARError, match="signal: the exact solver needs none"):
        oar.collective(problem, solver="exact", signal="implicit")

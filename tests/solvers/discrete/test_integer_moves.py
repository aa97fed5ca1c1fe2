"""Whole moves: responses against enumeration, rounding, what is left, and exchanges."""

from itertools import product

import numpy as np
import pandas
import pytest

import oar
from oar.actions.limits.limit import Limit, Limits
from oar.actions.sets.cost_region import measure
from oar.actions.sets.norms import Norm
from oar.people.tables.schema import Column, Schema
from oar.solvers.discrete.integer_moves import Lattice

SCHEMA = Schema(
    (
        Column("months", "integer"),
        Column("owns", "boolean"),
        Column("purpose", "category", ("car", "education", "other")),
        Column("income", "number"),
    )
)


def people(size=12, seed=0):
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame(
        {
            "months": rng.integers(10, 20, size),
            "owns": rng.random(size) < 0.5,
            "purpose": rng.choice(["car", "education", "other"], size),
            "income": rng.normal(2_000, 500, size),
            "approved": np.where(np.arange(size) % 2, "yes", "no"),
        }
    )
    return oar.Population.from_frame(frame, "approved", schema=SCHEMA)


def whole_moves(limits, norm, radius, members):
    size = members.size
    features = np.asarray(members.features)
    weights, radii = np.full(size, 1 / size), np.full(size, radius)
    return measure(limits.check(SCHEMA), members.encoding, features, weights, radii, Norm(norm), members.index)


LIMITS = Limits({"income": Limit(immutable=True), "months": Limit(step=2, lower=8, upper=21, cost=0.7)})


@pytest.mark.parametrize("norm", [1.0, 2.0, np.inf])
@pytest.mark.parametrize("radius", [0.5, 1.0, 2.2])
def test_responses_are_close_to_the_best_of_all_whole_moves(norm, radius):
    members = people()
    measured = whole_moves(LIMITS, norm, radius, members)
    whole = Lattice(measured)
    rng = np.random.default_rng(1)
    slopes = rng.normal(size=(members.size, measured.costs.size))
    found = whole.response(slopes)
    gains, best = np.einsum("nd,nd->n", slopes, found), np.empty(members.size)
    features = np.asarray(members.features)
    for person in range(members.size):
        best[person] = 0.0
        for months, owns, purpose in product(range(-14, 15, 2), (-1, 0, 1), range(3)):
            after = features[person].copy()
            after[0] += months
            after[1] += owns
            after[2:5] = np.eye(3)[purpose]
            if not 8 <= after[0] <= 21 or after[1] not in (0, 1):
                continue
            move = (after - features[person]) * measured.costs
            if np.linalg.norm(move, ord=norm) <= radius * (1 + 1e-12):
                best[person] = max(best[person], slopes[person] @ move)
    assert (gains <= best + 1e-9).all()
    assert (gains >= -1e-12).all()
    assert gains.sum() >= 0.9 * best.sum()  # greedy
    assert whole.fits(found).all()


@pytest.mark.parametrize("norm", [1.0, 2.0, np.inf])
@pytest.mark.parametrize("seed", range(4))
def test_bounds_that_are_no_whole_number_of_steps_away_are_kept(norm, seed):
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame({"k": rng.integers(0, 5, 24), "m": rng.normal(0, 40, 24).round(1), "t": np.arange(24) % 2})
    limits = {"k": Limit(upper=3.8), "m": Limit(lower=-60, upper=60, step=26)}
    people = oar.Population.from_frame(frame, "t")
    for model in (oar.NearestCentroid(), oar.SoftmaxRegression(l2=0.01)):
        query = oar.Query({"k": 1, "m": 1.5}, 1)
        result = oar.collective(oar.Problem(people, model, query, oar.Perturb(1.0, norm=norm, limits=limits)))
        after, before = result.plan.table(), frame.drop(columns="t")
        for name, least, most in (("k", -np.inf, 3.8), ("m", -60, 60)):
            inside = before[name].between(least, most)  # who is outside may come nearer
            assert after[name][inside].between(least, most).all()
        assert not result.audit.violations


@pytest.mark.parametrize("whole", [False, True])
def test_a_class_that_may_not_move_away_goes_past_the_query(whole):
    incomes = np.array([0, -100, 100, 10_000, 9_900, 10_100]) + (0 if whole else 0.5)
    people = oar.Population.from_frame(pandas.DataFrame({"income": incomes, "y": ["no"] * 3 + ["yes"] * 3}), "y")
    action = oar.Perturb(1.0, norm=1, limits={"income": Limit(direction="up", unit=1_000)})
    result = oar.collective(oar.Problem(people, oar.NearestCentroid(), oar.Query({"income": 300}, "yes"), action))
    np.testing.assert_array_equal(result.plan.moves().to_numpy()[:, 0], [1_000] * 3 + [0] * 3)


@pytest.mark.parametrize("norm", [1.0, 2.0, np.inf])
def test_rounded_moves_are_whole_and_allowed(norm):
    members = people()
    limits = Limits({"months": Limit(step=2, direction="up")}, links=["change(months) <= change(income) / 100 + 3"])
    measured = whole_moves(limits, norm, 1.5, members)
    whole = Lattice(measured)
    rng = np.random.default_rng(2)
    relaxed = measured.region.project(2 * rng.normal(size=(members.size, measured.costs.size)))
    rounded = whole.rounded(relaxed)
    assert whole.fits(rounded).all()
    raw = rounded / measured.costs
    np.testing.assert_allclose(raw[:, 0] / 2, np.rint(raw[:, 0] / 2), atol=1e-9)
    after = np.asarray(members.features)[:, 2:5] + raw[:, 2:5]
    np.testing.assert_allclose(np.sort(after, axis=1), np.tile([0.0, 0.0, 1.0], (members.size, 1)), atol=1e-9)
    np.testing.assert_array_equal(raw[:, 5], 0.0)
    rest = whole.rest(rounded)
    both = relaxed * ~whole.discrete
    kept = rest.project(both) + rounded
    assert (np.linalg.norm(kept, ord=norm, axis=1) <= 1.5 * (1 + 1e-9)).all()
    assert (kept @ measured.region.links.T <= measured.region.room + 1e-6).all()


@pytest.mark.parametrize("solver", ["frank-wolfe", "projected-gradient", "one-shot"])
def test_every_solver_makes_whole_moves_that_the_audit_confirms(solver):
    members = people(30, 3)
    query = oar.Query({"months": 12, "owns": False, "purpose": "car", "income": 1_500.0}, "yes")
    action = oar.Perturb(1.0, norm=1, limits=Limits({"months": Limit(step=2)}))
    result = oar.collective(oar.Problem(members, oar.SoftmaxRegression(0.1), query, action), solver=solver)
    assert result.audit.violations == ()
    assert result.loss < result.loss_before
    assert result.loss == pytest.approx(result.proposal.claimed_loss, rel=1e-6)
    table = result.plan.table()
    moved = table["months"].to_numpy() - np.asarray(members.features)[:, 0]
    np.testing.assert_array_equal(moved % 2, 0)


def test_all_columns_immutable_is_proved_impossible():
    members = people()
    query = oar.Query({"months": 12, "owns": False, "purpose": "car", "income": 1_500.0}, "yes")
    fixed = {name: Limit(immutable=True) for name in SCHEMA.names}
    for model in (oar.SoftmaxRegression(), oar.NearestCentroid()):
        problem = oar.Problem(members, model, query, oar.Perturb(1.0, limits=fixed))
        for verb in (oar.collective, oar.individual, oar.joint):
            result = verb(problem)
            if not result.audit.success_before:
                assert result.status == oar.results.Status.IMPOSSIBLE
            assert result.exact
            assert not np.asarray(result.plan.moves()).any()


@pytest.mark.parametrize("verb", [oar.individual, oar.joint, oar.collective])
@pytest.mark.parametrize(("asks", "limit"), [(30, Limit(upper=24)), (6, Limit(lower=12))])
def test_a_query_outside_the_bounds_may_stay_there_and_goes_no_further_out(verb, asks, limit):
    query = oar.Query({"months": asks, "owns": False, "purpose": "car", "income": 1_500.0}, "yes", budget=2.0)
    action = oar.Perturb(1.0, limits={"months": limit, "owns": Limit(immutable=True), "purpose": Limit(immutable=True)})
    result = verb(oar.Problem(people(), oar.SoftmaxRegression(), query, action))
    after = result.plan.query_row()["months"].iloc[0]
    assert min(asks, 12) <= after <= max(asks, 24)
    assert not result.audit.violations
    if verb is oar.collective:
        assert after == asks


def test_limits_need_a_schema():
    plain = oar.Population(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(oar.errors.DataError, match="people with a schema"):
        oar.Problem(plain, oar.SoftmaxRegression(), oar.Query(np.ones(4), 1), oar.Perturb(1.0, limits=Limits()))
    with pytest.raises(oar.errors.DataError, match="limits: must be an oar.Limits"):
        oar.Perturb(1.0, limits=3)


def test_the_shortest_way_knows_only_balls_and_says_so():
    query = oar.Query({"months": 12, "owns": False, "purpose": "car", "income": 1_500.0}, "yes")
    problem = oar.Problem(people(), oar.NearestCentroid(), query, oar.Perturb(1.0))
    with pytest.raises(oar.errors.OptionError, match="limits it does not know"):
        oar.solvers.shortest_move(problem)

"""What is called proved, at the numbers at which it was once false; and certificates that cannot be talked into it."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
import scipy.optimize

import oar
from oar import models
from oar.actions.limits.limit import Limit, Limits
from oar.plans.individual.certificate import Certificate, Leaf, Split, Statement
from oar.solvers.cheapest import branch_and_bound as cheapest_proof
from oar.solvers.cheapest import milp as cheapest_milp

KINDS = ("l1", "l2", "l0")


def with_amounts(median, size=400):
    """Two classes, and amounts that are the same in both."""
    rng, codes = np.random.default_rng(0), np.repeat([0, 1], size // 2)
    amounts = np.tile(median * np.exp(rng.normal(0, 1, size // 2)), 2)
    frame = pandas.DataFrame(
        {"amount": amounts, "score": rng.normal(size=size) + 1.5 * codes, "months": rng.normal(size=size) - 0.7 * codes}
    )
    return frame.assign(label=np.where(codes == 1, "yes", "no"))


def accepted(ready, query, row):
    return ready._judge.judge(ready._problem(query), row).reached


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("median", [24_000, 180_000, 489_000])
def test_a_large_column_that_separates_nobody_makes_no_bound_higher(median, kind):
    frame = with_amounts(median)
    people = oar.Population.from_frame(frame, target="label")
    row = frame.drop(columns="label").iloc[3]
    query, limits = oar.Query(row, goal="yes"), {"amount": Limit(immutable=True)}
    ready = oar.Cheapest(people, oar.NearestCentroid(), limits)
    advice = ready.of(query, kind)
    assert advice.success
    assert advice.certificate.bound == advice.bound <= advice.cost
    assert advice.cost - advice.bound <= 1e-4 * advice.cost  # the audit's own tie is all that costs more
    # Nothing that is a little shorter is accepted for less than the bound.
    before = dict(row)
    for share in np.linspace(0.9, 1.0, 41)[:-1]:
        shorter = {name: before[name] + share * (advice.after.values[name] - before[name]) for name in before}
        if kind != "l0" and share * advice.cost < advice.bound * (1 - 1e-9):
            assert not accepted(ready, query, shorter)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("deviation", "unit", "cost"),
    [(1e9, 0.01, 1.0), (1e6, 1e-6, 1.0), (1.0, None, 1e12), (3e10, None, 1.0), (1e-12, None, 1.0), (1e12, 1e-9, 1e-9)],
)
def test_a_slope_is_nothing_only_if_it_is_nothing(deviation, unit, cost, kind):
    rng, codes = np.random.default_rng(1), np.repeat([0, 1], 100)
    frame = pandas.DataFrame(
        {"free": deviation * (rng.normal(size=200) + 2 * codes), "fixed": min(deviation, 1.0) * rng.normal(size=200)}
    )
    people = oar.Population.from_frame(frame.assign(label=np.where(codes == 1, "yes", "no")), target="label")
    row = frame.iloc[int(frame["free"].argmin())]
    limits = {"free": Limit(unit=unit, cost=cost), "fixed": Limit(immutable=True)}
    advice = oar.cheapest(people, oar.NearestCentroid(), oar.Query(row, goal="yes"), limits, cost=kind)
    assert advice.status is oar.results.Status.ACHIEVED
    assert advice.proved
    assert advice.because == ()
    # One column alone must go to the edge between the two centroids, as seen from where the other one stays.
    means = [frame[codes == code].mean().to_numpy() for code in (0, 1)]
    apart, middle = means[1] - means[0], 0.5 * (means[0] + means[1])
    edge = middle[0] - apart[1] * (row["fixed"] - middle[1]) / apart[0]
    price = cost if kind == "l0" else cost * (edge - row["free"]) / (unit or frame["free"].std(ddof=0))
    assert advice.cost == pytest.approx(price, rel=1e-6)


def linked(kind, seed=5, limits=None):
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame(rng.normal(size=(60, 6)), columns=list("abcdef"))
    codes = (frame.sum(axis=1) > 0).astype(int)
    people = oar.Population.from_frame(frame.assign(label=np.where(codes == 1, "yes", "no")), target="label")
    costs = {
        name: Limit(cost=price, lower=-3, upper=3) for name, price in zip("abcdef", (7, 5, 4, 6, 3, 8), strict=True)
    }
    limits = Limits(costs, links=["a + b <= 0.5 * c + d"])
    row = frame.iloc[int(frame.sum(axis=1).argmin())]
    return oar.cheapest(
        people, models.Scaled(models.SoftmaxRegression()), oar.Query(row, goal="yes"), limits, cost=kind
    )


@pytest.mark.parametrize("kind", ["l0", "l1", "l2"])
def test_a_programme_that_runs_out_of_time_proves_nothing(monkeypatch, kind):
    """Bounds come from certificates: whatever HiGHS has not finished, they are not above the true cost."""
    whole = linked(kind)
    assert whole.proved
    real = scipy.optimize.milp

    def hasty(costs, **asked):
        """Give a place that is dearer than need be, as HiGHS does where time is up, and call it optimal."""
        answer = real(np.random.default_rng(0).permutation(costs), **asked)
        if answer.x is not None:
            answer.fun, answer.mip_dual_bound = float(costs @ answer.x), np.inf
        return answer

    monkeypatch.setattr(scipy.optimize, "milp", hasty)
    monkeypatch.setattr(oar.questions.cheapest_change, "MOST_BETTER", 0)
    advice = linked(kind)
    assert advice.success
    assert advice.bound <= whole.cost
    assert not advice.proved or advice.cost <= whole.cost * (1 + 1e-6)
    if advice.cost > whole.cost * (1 + 1e-6):
        assert "not proved" in advice.note


def test_what_cannot_be_finished_is_found_and_not_proved(monkeypatch):
    monkeypatch.setattr(cheapest_proof, "MOST_PARTS", -1)
    advice = linked("l0")
    assert advice.success
    assert not advice.proved
    assert advice.bound < advice.cost
    assert "not proved" in advice.note


def test_places_that_a_proof_cannot_rule_out_are_tried(monkeypatch):
    """A solver that finds nothing is helped by the proof, which ends at the cheapest change."""
    monkeypatch.setattr(oar.solvers.cheapest.asking, "solve", lambda space, goal: cheapest_milp.CheapestChange())
    advice = linked("l1")
    assert advice.proved
    monkeypatch.undo()
    assert advice.cost == pytest.approx(linked("l1").cost, rel=2e-6)


# -- certificates by themselves --------------------------------------------------------------------------------------


def knapsack(kind="l1"):
    """Reach 2.5 with whole steps of 1 and 2 that cost 1 and 1.5: nothing below 2.5, so that 3 units are taken."""
    return Statement(
        kind=kind,
        prices=np.array([1.0, 1.5]),
        flat=np.array([1.0, 1.5]),
        column=np.array([0, 1]),
        whole=np.array([True, True]),
        low=np.zeros(2),
        high=np.array([5.0, 5.0]),
        rows=np.array([[-1.0, -2.0]]),
        errors=np.zeros((1, 2)),
        room=np.array([-2.5]),
    )


@pytest.mark.parametrize(("kind", "cost"), [("l1", 2.5), ("l2", np.sqrt(3.25)), ("l0", 1.0)])
def test_a_certificate_proves_the_optimum(kind, cost):
    certificate, _ = cheapest_proof.prove(knapsack(kind), cost)
    assert cost * (1 - 1e-6) <= certificate.bound <= cost


@pytest.mark.parametrize(
    "tree",
    [
        Leaf(np.array([1e6])),
        Leaf(np.array([-1.0])),
        Leaf(np.array([np.nan])),
        Leaf(np.array([1.0, 1.0])),
        Leaf(np.array([1.0]), empty=True),
        Split(1, 1.0, Leaf(np.array([0.75])), Leaf(np.array([1e9]), empty=True)),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_no_certificate_proves_what_is_false(tree, kind):
    truth = {"l1": 2.5, "l2": np.sqrt(3.25), "l0": 1.0}[kind]
    assert Certificate(knapsack(kind), tree).bound <= truth
    assert Certificate(knapsack(kind), tree, most=100.0).bound <= truth


def test_random_multipliers_prove_nothing_false():
    """Any tree may be handed in: what it is said to prove is never above the cheapest of all changes."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        kind = str(rng.choice(KINDS))
        size, rows = int(rng.integers(1, 4)), int(rng.integers(1, 3))
        scales = 10.0 ** rng.uniform(-12, 12, size)
        statement = Statement(
            kind=kind,
            prices=rng.uniform(0.5, 2, size) / scales * 10.0 ** rng.uniform(-6, 6),
            flat=rng.uniform(0.5, 2, size),
            column=np.arange(size),
            whole=np.zeros(size, dtype=bool),
            low=-3 * scales,
            high=3 * scales,
            rows=rng.normal(size=(rows, size)) / scales,
            errors=np.zeros((rows, size)),
            room=rng.normal(size=rows) - 1.0,
        )
        places = rng.uniform(-3, 3, (4000, size)) * scales * (rng.random((4000, size)) < 0.7)
        good = places[(places @ statement.rows.T <= statement.room).all(axis=1)]
        parts = statement.prices * np.abs(good)
        costs = {"l1": parts.sum(axis=1), "l2": np.sqrt((parts**2).sum(axis=1)), "l0": (good != 0) @ statement.flat}
        truth = costs[kind].min(initial=np.inf)
        certificate, _ = cheapest_proof.prove(statement)
        assert certificate.bound <= truth
        random = Leaf(10.0 ** rng.uniform(-6, 6, rows), empty=bool(rng.random() < 0.5))
        assert Certificate(statement, random).bound <= truth


def test_trees_may_be_deeper_than_functions_may_call_themselves():
    none = np.zeros((0, 1))
    statement = Statement(
        "l1", np.ones(1), np.ones(1), np.zeros(1, dtype=np.intp), np.ones(1, dtype=bool), np.ones(1), np.full(1, 5e3),
        none, none, np.zeros(0),
    )  # fmt: skip
    tree = Leaf(np.zeros(0))
    for at in range(2_000, 0, -1):
        tree = Split(0, float(at), Leaf(np.zeros(0)), tree)
    assert Certificate(statement, tree).bound == pytest.approx(1.0, rel=1e-9)

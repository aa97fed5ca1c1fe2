"""Knapsacks that are filled without HiGHS, against HiGHS."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

import oar
from oar import models
from oar.actions.limits.limit import Limit, Limits
from oar.solvers.cheapest import knapsack as cheapest_knapsack
from oar.solvers.cheapest import milp as cheapest_milp
from oar.solvers.cheapest.knapsack import TooManyNodes, filled

ITEM = st.tuples(
    st.floats(0.01, 3.0),
    st.floats(0.05, 4.0),
    st.sampled_from([0.5, 1.0, 2.0, 3.0, 7.0, 40.0, np.inf]),
    st.sampled_from([True, True, False]),
)


@settings(max_examples=150, deadline=None)
@given(items=st.lists(ITEM, max_size=8), need=st.floats(-0.5, 12.0))
def test_a_filled_knapsack_is_the_cheapest(items, need):
    gains, costs, tops, whole = (list(part) for part in zip(*items, strict=True)) if items else ([], [], [], [])
    tops = [np.floor(top) if is_whole else top for top, is_whole in zip(tops, whole, strict=True)]
    found = filled(gains, costs, tops, whole, need)
    if not items:
        assert found == ([] if need <= 0 else None)
        return

    def told(need: float) -> float:
        """Return HiGHS's least cost."""
        found = milp(
            costs,
            constraints=LinearConstraint(np.array([gains]), need, np.inf),
            bounds=Bounds(np.zeros(len(items)), np.array(tops)),
            integrality=np.array(whole, dtype=int),
            options={"mip_rel_gap": 1e-9},
        )
        return np.inf if found.x is None else found.fun

    reach = sum(gain * top for gain, top in zip(gains, tops, strict=True))
    if found is None:
        assert reach < need
        return
    amounts = np.array(found)
    assert amounts @ gains >= need - 1e-9
    assert (amounts >= 0).all()
    assert (amounts <= tops).all()
    assert all(amount == round(amount) for amount, is_whole in zip(found, whole, strict=True) if is_whole)
    # HiGHS takes a lack of 1e-6 for none, so it is asked for a little less and for a little more.
    assert told(need - 1e-5) <= amounts @ costs * (1 + 1e-6) + 1e-6
    assert told(need + 1e-5) >= amounts @ costs * (1 - 1e-6) - 1e-6


def test_a_knapsack_that_takes_long_is_given_up():
    """Σ of 15 even numbers is to be odd: every bound is lower than every filling."""
    gains = [float(2 * number) for number in range(1001, 1031)]
    with pytest.raises(TooManyNodes):
        filled(gains, gains, [1.0] * 30, [True] * 30, need=30001.0)


def refused(size=150, seed=3):
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame(
        {
            "income": rng.normal(30.0, 8.0, size),
            "children": rng.integers(0, 5, size),
            "owns": rng.random(size) < 0.4,
            "purpose": rng.choice(["car", "home", "school"], size),
            "grade": pandas.Categorical.from_codes(rng.integers(0, 4, size), list("abcd"), ordered=True),
        }
    )
    score = frame["income"] / 8 - 0.5 * frame["children"] + frame["owns"] + (frame["purpose"] == "home")
    frame["label"] = np.where(score + rng.normal(0, 0.7, size) > score.median(), "yes", "no")
    return oar.Population.from_frame(frame, target="label"), frame[frame["label"] == "no"].drop(columns="label")


@pytest.mark.parametrize(
    "model", [models.Scaled(models.SoftmaxRegression()), oar.NearestCentroid()], ids=lambda m: m.name
)
@pytest.mark.parametrize(
    "limits",
    [
        Limits(),
        Limits({"income": Limit(immutable=True), "children": Limit(lower=0, direction="down", cost=0.3)}),
        Limits({"income": Limit(step=5, upper=60), "purpose": Limit(levels=("school",), cost=0.2)}),
        Limits({name: Limit(immutable=True) for name in ("income", "children", "purpose")}),
        Limits({"income": Limit(immutable=True)}, rules=["if purpose == 'home' then owns == True"]),
        Limits({"income": Limit(upper=50)}, links=["owns + grade <= 2"]),
    ],
    ids=["free", "directions", "steps", "few", "rules", "links"],
)
def test_advice_is_the_same_with_and_without_knapsacks(monkeypatch, model, limits):
    def too_many(*knapsack):
        raise TooManyNodes

    people, rows = refused()
    queries = [oar.Query(row, goal="yes") for _, row in rows.iloc[:4].iterrows()]
    quick = oar.cheapest(people, model, queries, limits)
    with monkeypatch.context() as patch:
        patch.setattr(cheapest_knapsack, "MOST_NODES", -1)
        handed_on = oar.cheapest(people, model, queries, limits)
        patch.setattr(cheapest_milp, "filled", too_many)
        slow = oar.cheapest(people, model, queries, limits)
    for one, other in [*zip(quick, slow, strict=True), *zip(handed_on, slow, strict=True)]:
        assert one.status is other.status
        assert (one.success, one.proved, one.because) == (other.success, other.proved, other.because)
        assert one.cost == pytest.approx(other.cost, rel=1e-6)
        assert one.bound == pytest.approx(other.bound, rel=2e-6)

"""Staying where people are: distances by hand, what is refused, and that staying always is plausible."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from support.rule_tables import SCHEMA, frame_of, people_of

import oar
from oar.actions.limits.limit import Limit, Limits
from oar.errors import DataError, OptionError
from oar.referee.table_moves import NeighbourDistances


def problem(plausible, size=40, **columns):
    people = people_of(frame_of(size))
    query = oar.Query({"age": 23, "income": 15.0, "owns": False, "grade": "low", "job": "none"}, "yes")
    limits = Limits(columns, plausible=plausible)
    return oar.Problem(people, oar.SoftmaxRegression(0.01), query, oar.Perturb(1.0, 1, limits=limits))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1.5, "share: must be a share of the people"),
        (-0.1, "share: must be a share of the people"),
        (True, "must be a share such as 0.95"),
        ("much", "must be a share such as 0.95"),
        ({"neighbors": 3}, "Did you mean 'neighbours'"),
        ({"neighbours": 0}, "whole number of at least 1"),
        ({"neighbours": 2.5}, "whole number of at least 1"),
        ({"share": "all"}, "share: must be a share"),
    ],
)
def test_what_cannot_be_is_named(value, message):
    with pytest.raises((DataError, OptionError), match=message):
        Limits(plausible=value)


def test_more_neighbours_than_others_are_refused_at_once():
    with pytest.raises(DataError, match="fewer than the 40 people.*ask for fewer"):
        problem(oar.limits.Plausible(neighbours=40))
    problem(oar.limits.Plausible(neighbours=39))
    with pytest.raises(DataError, match="fewer than the 40 people"):
        oar.Cheapest(people_of(frame_of(40)), oar.NearestCentroid(), Limits(plausible=oar.limits.Plausible(40)))


def by_hand(frame, costs, one, other):
    """The distance of two rows: the root of the squares of what each column's difference costs."""
    total = 0.0
    for name in SCHEMA.names:
        if name in ("owns", "job"):
            total += costs.get(name, 1.0) ** 2 * (one[name] != other[name])
            continue
        values = frame[name].cat.codes if name == "grade" else frame[name]
        a, b = (
            list(frame["grade"].cat.categories).index(row[name]) if name == "grade" else row[name]
            for row in (one, other)
        )
        total += (costs.get(name, 1.0) * (a - b) / np.std(values)) ** 2
    return np.sqrt(total)


def test_distances_are_what_is_documented():
    asked = problem(oar.limits.Plausible(neighbours=3, share=0.8), income=Limit(cost=2.0), job=Limit(cost=3.0))
    frame = frame_of(40)
    rows = frame.drop(columns="label").to_dict("records")
    table = np.array([[by_hand(frame, {"income": 2.0, "job": 3.0}, one, other) for other in rows] for one in rows])
    own = np.sort(table, axis=1)[:, 3]  # the first is oneself
    where = asked.neighbourhood
    np.testing.assert_allclose(where.own, own, rtol=1e-9, atol=1e-12)
    assert where.far == pytest.approx(np.quantile(own, 0.8))
    # Somebody who is no member is nobody's double: the member at the same place counts.
    features = np.asarray(asked.people.features)
    strangers = where.distances(features, np.full(40, -1))
    np.testing.assert_allclose(strangers, np.sort(table, axis=1)[:, 2], rtol=1e-9, atol=1e-12)
    # The audit's distances are its own.
    columns, costs = [], {"income": 2.0, "job": 3.0}
    for column in SCHEMA:
        place = asked.people.encoding.places[column.name]
        unit = 1.0 if column.kind in ("boolean", "category") else features[:, place].std()
        columns.append((place, costs.get(column.name, 1.0) / unit))
    places = NeighbourDistances(features, columns, 3, 0.8)
    np.testing.assert_allclose(places.own, own, rtol=1e-9, atol=1e-12)
    assert places.usual == pytest.approx(np.quantile(own, 0.8))
    np.testing.assert_allclose(places.kth(features, np.full(40, -1)), strangers, rtol=1e-9, atol=1e-12)


def test_people_far_out_may_stay_and_come_nearer():
    asked = problem(oar.limits.Plausible(neighbours=3, share=0.5))
    where, features = asked.neighbourhood, np.asarray(asked.people.features)
    everyone = np.arange(40)
    assert where.near(features, everyone, features).all()
    far = features.copy()
    far[:, 1] += 1_000.0
    assert not where.near(far, everyone, features).any()
    nearer = features.copy()
    nearer[:, 1] += 900.0
    assert where.near(nearer, everyone, far).all()
    assert not where.near(far, everyone, nearer).any()


def test_duplicates_have_no_distance():
    frame = frame_of(10)
    people = people_of(frame.loc[np.repeat(frame.index, 4)].reset_index(drop=True))
    features = np.asarray(people.features)
    where = oar.actions.limits.plausible.Neighbourhood(
        oar.limits.Plausible(3, 1.0), features, np.ones(features.shape[1])
    )
    assert where.far == 0
    assert where.near(features, np.arange(40), features).all()
    moved = features.copy()
    moved[:, 1] += 1e-3
    assert not where.near(moved, np.arange(40), features).any()


def test_nothing_of_scipy_is_imported_before_it_is_needed():
    code = "import oar, sys; assert not any(name.split('.')[0] == 'scipy' for name in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)

"""Values that may be mistakes are asked about, by ranges that are nobody's own values."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oar
from oar.plans.cards.file import as_json
from oar.plans.cards.usual_values import usual_range, usual_ranges

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=50, max_size=80)


@given(VALUES, st.integers(0, 3), st.floats(-1e9, 1e9))
def test_no_four_people_on_either_side_can_be_told_from_a_range(values, number, other):
    """Whatever the most extreme people had instead, farther out, the range stays the same."""
    ordered = sorted(values)
    lower = [min(ordered[0], other)] * number + ordered[number:]
    upper = ordered[: len(ordered) - number] + [max(ordered[-1], other)] * number
    assert usual_range(lower) == usual_range(upper) == usual_range(values)


@given(VALUES)
def test_a_range_holds_most_people_and_has_one_sign_where_they_have(values):
    found = usual_range(values)
    if found is None:
        return
    inside = sum(found[0] <= value <= found[1] for value in values)
    assert inside >= len(values) - 8
    ordered = sorted(values)
    assert found[0] >= 0 or ordered[4] < 0
    assert found[1] <= 0 or ordered[-5] > 0


def test_few_people_have_no_range_and_columns_that_hardly_vary_have_one():
    assert usual_range(range(49)) is None
    assert usual_range([3.0] * 50) == (2.0, 4.0)
    assert usual_range([0.0] * 50) == (0.0, 0.0)
    assert usual_range([0.0] * 960 + [1.0] * 30 + [2.0] * 10) == (0.0, 3.0)  # times late, of whom 45,000 are none
    assert usual_range([0.0] * 990 + [1.0] * 6 + [7.0] * 4) == (0.0, 2.0)


@pytest.fixture(scope="module")
def card():
    loans = oar.datasets.german_credit()
    refused = loans.frame.drop(columns="credit").iloc[1]
    problem = oar.Problem(
        loans.population,
        oar.models.Scaled(oar.SoftmaxRegression()),
        oar.Query(refused, "good"),
        oar.Perturb(0.25, norm=1, limits=loans.limits),
    )
    return oar.collective(problem).plan.card()


def row(**changes):
    return oar.datasets.german_credit().frame.drop(columns="credit").iloc[3].to_dict() | changes


def test_members_are_asked_back(card):
    assert card.doubts(row()) == []
    assert card.doubts(row(age=450)) == ["age is 450, and between 10 and 80 is expected; is this right?"]
    assert card.doubts(row(amount=-5)) == ["amount is -5, and between 0 and 30,000 is expected; is this right?"]
    with pytest.warns(UserWarning, match="features: age is 450, and between 10 and 80 is expected"):
        card.respond(row(age=450), "good")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        card.respond(row(), "good")


def test_a_card_file_has_the_ranges_and_an_earlier_one_has_none(card, tmp_path):
    card.save(tmp_path / "plan.json")
    again = oar.results.Card.load(tmp_path / "plan.json")
    assert again.usual == card.usual
    assert again.doubts(row(age=450)) == card.doubts(row(age=450))
    for usual, good in ((None, True), ([None], False), ([[1, 0]] * 20, False), ([["a", 1]] * 20, False)):
        (tmp_path / "other.json").write_text(json.dumps(as_json(card) | {"usual": usual}))
        if good:
            assert oar.results.Card.load(tmp_path / "other.json").doubts(row(age=450)) == []
        else:
            with pytest.raises(oar.errors.StorageError, match="usual"):
                oar.results.Card.load(tmp_path / "other.json")


def test_plain_features_have_ranges_too():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.uniform(0, 1, 200), "y": rng.normal(size=200)})
    people = oar.Population(frame, np.arange(200) % 2)
    assert usual_ranges(people) == ((0.0, 1.1), (-3.0, 4.0))
    problem = oar.Problem(people, oar.NearestCentroid(), oar.Query([0.5, 0.5], 1), oar.Perturb(0.5))
    assert oar.collective(problem).plan.card().doubts([76.6, 0.0]) == [
        "x is 76.6, and between 0 and 1.1 is expected; is this right?"
    ]


def test_a_few_who_are_far_beyond_all_others_do_not_make_their_values_usual():
    rng = np.random.default_rng(0)
    used = np.concatenate([rng.beta(1, 2, 4_900), 10.0 ** rng.uniform(2, 4.6, 100)])  # shares, and 2 % that are none
    assert usual_range(used)[1] <= 10
    assert usual_range(np.concatenate([used, 10.0 ** rng.uniform(2, 4.6, 500)]))[1] > 100  # so many are no mistake

"""A plan as a table again."""

import numpy as np
import pandas
import pytest

import oar


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(5)
    size = 40
    frame = pandas.DataFrame(
        {
            "age": rng.integers(20, 60, size).astype("int32"),
            "income": rng.normal(2_000, 500, size).astype("float32"),
            "owns": rng.random(size) < 0.5,
            "grade": pandas.Categorical.from_codes(rng.integers(3, size=size), ["low", "middle", "high"], ordered=True),
            "purpose": rng.choice(["car", "education", "other"], size),
        },
        index=[f"p{number}" for number in range(size)],
    )
    wealth = frame["income"] / 500 + frame["owns"] + frame["grade"].cat.codes
    frame["approved"] = np.where(wealth + rng.normal(size=size) > wealth.median(), "yes", "no")
    return frame


@pytest.fixture(scope="module")
def result(frame):
    people = oar.Population.from_frame(frame, target="approved")
    refused = frame[frame["approved"] == "no"].drop(columns="approved").iloc[0]
    model = oar.models.Scaled(oar.models.SoftmaxRegression())
    return oar.collective(oar.Problem(people, model, oar.Query(refused, goal="yes"), oar.Perturb(1.5, norm=1)))


def test_the_table_comes_back_as_it_came(frame, result):
    table = result.plan.table()
    features = frame.drop(columns="approved")
    pandas.testing.assert_index_equal(table.index, features.index)
    assert list(table.columns) == list(features.columns)
    assert dict(table.dtypes) == dict(features.dtypes)
    assert not table.equals(features)
    assert (table["age"] == table["age"].round()).all()
    assert set(table["purpose"]) <= {"car", "education", "other"}


def test_changes_are_the_cells_that_differ(frame, result):
    table, features, changes = result.plan.table(), frame.drop(columns="approved"), result.plan.changes()
    assert list(changes.columns) == ["person", "column", "before", "after"]
    for column in features.columns:
        of_column = changes[changes["column"] == column].set_index("person")
        differ = features.index[(features[column] != table[column]).to_numpy()]
        assert set(of_column.index) == set(differ)
        for person in differ:
            assert of_column.loc[person, "before"] == features.loc[person, column]
            assert of_column.loc[person, "after"] == table.loc[person, column]
    assert len(changes) > 0


def test_refitting_on_the_table_gives_the_audited_prediction(frame, result):
    moved = result.plan.table().assign(approved=frame["approved"])
    again = oar.Problem(
        oar.Population.from_frame(moved, target="approved"),
        result.problem.model,
        result.problem.query,
        oar.Perturb(0.0),
    )
    assert oar.collective(again).loss == pytest.approx(result.loss, rel=1e-5)  # incomes are float32 again


def test_plain_features_have_no_table():
    people = oar.Population(np.random.default_rng(0).normal(size=(10, 2)), np.arange(10) % 2)
    result = oar.collective(oar.Problem(people, oar.NearestCentroid(), oar.Query([0.0, 0.0], 1), oar.Perturb(0.1)))
    for out in (result.plan.table, result.plan.changes):
        with pytest.raises(oar.DataError, match="no schema"):
            out()


def test_a_plan_for_a_table_has_no_card(result):
    with pytest.raises(oar.DataError, match="a card knows only balls"):
        result.plan.card()

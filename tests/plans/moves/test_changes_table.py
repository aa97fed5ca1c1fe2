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
    for out in (result.plan.table, result.plan.changes, result.plan.query_row):
        with pytest.raises(oar.errors.DataError, match="no schema"):
            out()


@pytest.fixture(scope="module")
def asked(frame):
    people = oar.Population.from_frame(frame, target="approved")
    refused = frame[frame["approved"] == "no"].drop(columns="approved").iloc[0]
    return people, oar.models.Scaled(oar.models.SoftmaxRegression()), oar.Query(refused, goal="yes")


def test_the_query_and_its_move_are_in_the_tables_words(frame, asked):
    plan = oar.individual(oar.Problem(*asked, oar.Perturb(1.5, norm=1))).plan
    row, changes, before = plan.query_row(), plan.changes(), asked[2].features
    assert list(row.index) == [before.name]
    assert dict(row.dtypes) == dict(frame.drop(columns="approved").dtypes)
    differ = [name for name in row.columns if row[name].iloc[0] != before[name]]
    assert differ
    assert list(changes["person"]) == ["query"] * len(differ)
    assert list(changes["column"]) == differ
    assert [*changes["after"]] == [row[name].iloc[0] for name in differ]
    assert [*changes["before"]] == [before[name] for name in differ]


def test_joint_changes_end_with_the_query(asked):
    plan = oar.joint(oar.Problem(*asked, oar.Perturb(0.5, norm=1)), solver="one-shot").plan
    changes = plan.changes()
    theirs = (changes["person"] == "query").to_numpy()
    assert theirs.any()
    assert not theirs.all()
    assert theirs[-theirs.sum() :].all()


def test_a_query_that_stays_is_its_row_as_given(result):
    row = result.plan.query_row()
    assert row.iloc[0].to_dict() == result.problem.query.features.to_dict()
    assert "query" not in set(result.plan.changes()["person"])


def test_labels_that_change_are_changes(frame, asked):
    plan = oar.collective(oar.Problem(*asked, oar.Relabel(most=3))).plan
    changes, labels = plan.changes(), plan.labels()
    differ = frame.index[(frame["approved"] != labels).to_numpy()]
    assert len(differ)
    assert list(changes["person"]) == list(differ)
    assert set(changes["column"]) == {"approved"}
    assert list(changes["before"]) == list(frame["approved"][differ])
    assert list(changes["after"]) == list(labels[differ])


def test_soft_labels_are_shares_by_class(asked):
    plan = oar.collective(oar.Problem(*asked, oar.Relabel(soft=0.25))).plan
    changes, labels = plan.changes(), plan.labels()
    assert len(changes)
    for change in changes.itertuples():
        assert change.before in ("no", "yes")
        assert change.after == labels.loc[change.person].to_dict()


def test_values_that_change_are_numbers(frame):
    table = frame.drop(columns="approved")
    people = oar.Population.from_frame(table, target="income")
    query = oar.Query(table.drop(columns="income").iloc[0], goal=2_500.0, within=1.0)
    plan = oar.collective(oar.Problem(people, oar.models.Ridge(l2=0.1), query, oar.Relabel(soft=50.0))).plan
    changes = plan.changes().set_index("person")
    assert set(changes["column"]) == {"income"}
    for person, change in changes.iterrows():
        assert change["before"] == frame["income"][person]
        assert change["after"] == plan.labels()[person]


def test_who_leaves_withholds_all_data(asked):
    plan = oar.collective(oar.Problem(*asked, oar.Withhold(most=4))).plan
    changes, leavers = plan.changes(), plan.leavers()
    assert list(changes["person"]) == list(leavers.index[leavers])
    assert 0 < len(changes) <= 4
    assert {tuple(row) for row in changes[["column", "before", "after"]].to_numpy()} == {
        ("all data", "given", "withheld")
    }


def test_whole_numbers_that_gaps_have_made_floats_of_are_told_as_whole_numbers():
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"lines": rng.integers(0, 9, 60).astype(float), "share": rng.random(60)})
    frame["y"] = np.where(frame["lines"] + rng.normal(0, 1, 60) > 4, "yes", "no")
    frame.loc[3, "lines"] = np.nan
    people = oar.Population.from_frame(frame, "y", missing="impute")
    problem = oar.Problem(
        people,
        oar.models.Scaled(oar.SoftmaxRegression()),
        oar.Query({"lines": 1, "share": 0.5}, "yes"),
        oar.Perturb(1.0),
    )
    changes = oar.collective(problem).plan.changes()
    told = {
        name: {type(value) for value in part[["before", "after"]].stack()} for name, part in changes.groupby("column")
    }
    assert told == {"lines": {int}, "share": {float}}

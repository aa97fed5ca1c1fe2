"""Who takes part: groups by columns, and the best so many; masks, shares and functions are in test_problem."""

import numpy as np
import pandas as pd
import pytest

import oar
from oar.people.tables.schema import Column, Schema

TABLE = pd.DataFrame(
    {
        "town": ["Bern", "Uri", "Bern", "Zug", "Uri", "Zug"],
        "size": ["small", "large", "large", "small", "small", "large"],
        "age": [20, 30, 40, 50, 60, 70],
        "owner": [True, False, True, False, True, False],
        "outcome": ["no", "yes", "no", "yes", "no", "yes"],
    }
)
SCHEMA = Schema(
    (
        Column("town", "category", ("Bern", "Uri", "Zug")),
        Column("size", "ordinal", ("small", "large")),
        Column("age", "integer"),
        Column("owner", "boolean"),
    )
)


def of_a_table(participants, seed=None):
    people = oar.Population.from_frame(TABLE, "outcome", schema=SCHEMA)
    query = oar.Query(TABLE.drop(columns="outcome").iloc[0], "yes")
    return oar.Problem(people, oar.SoftmaxRegression(), query, oar.Perturb(1.0, participants=participants, seed=seed))


def of_numbers(participants, weights=None, budget=1.0, **action):
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [0.0, 1.0, 0.0, 1.0]})
    people = oar.Population(frame, [0, 0, 1, 1], weights)
    action = oar.Perturb(budget, participants=participants, **action)
    return oar.Problem(people, oar.NearestCentroid(), oar.Query([1.0, 0.5], 1), action)


@pytest.mark.parametrize(
    ("group", "members"),
    [
        ({"town": "Uri"}, [1, 4]),
        ({"town": ["Uri", "Zug"]}, [1, 3, 4, 5]),
        ({"town": "Uri", "size": "large"}, [1]),
        ({"size": "small"}, [0, 3, 4]),
        ({"age": (30, 50)}, [1, 2, 3]),
        ({"age": [20, 70]}, [0, 5]),
        ({"age": 40}, [2]),
        ({"owner": True}, [0, 2, 4]),
        ({"owner": False, "age": (0, 45)}, [1]),
    ],
)
def test_a_group_of_a_table_is_who_matches_all_columns(group, members):
    assert np.flatnonzero(of_a_table(group).allowance.mask).tolist() == members


def test_a_group_of_plain_columns_is_matched_by_number():
    assert of_numbers({"a": (0.5, 2.0)}).allowance.mask.tolist() == [False, True, True, False]
    assert of_numbers({"a": [0, 3], "b": 1}).allowance.mask.tolist() == [False, False, False, True]


@pytest.mark.parametrize(
    ("group", "said"),
    [
        ({"twon": "Uri"}, "'town', 'size', 'age', 'owner'.*got 'twon'.*Did you mean 'town'"),
        ({"town": "Genf"}, "column 'town' has the levels 'Bern', 'Uri', 'Zug', got 'Genf'"),
        ({"town": ("Bern", "Zug")}, "must be \\(lowest, highest\\), two numbers"),
        ({"size": (0, 1)}, "has levels, which have no range"),
        ({"age": "old"}, "'age' holds numbers.*got 'old'"),
        ({"age": 41}, "nobody is in the group"),
        ({"town": []}, "at least one value"),
        ({}, "at least one column"),
    ],
)
def test_a_group_that_cannot_be_is_refused_with_what_is_known(group, said):
    with pytest.raises(oar.errors.DataError, match=said):
        of_a_table(group)


def test_people_without_names_have_no_groups():
    people = oar.Population([[0.0], [1.0]], [0, 1])
    with pytest.raises(oar.errors.OptionError, match="plain array"):
        oar.Perturb(1.0, participants={"a": 1}).allowance(people)


def test_groups_are_for_every_action_and_have_no_seed():
    problem = of_a_table({"town": "Uri"})
    action = [oar.Relabel(most=1, participants={"town": "Bern"}), oar.Withhold(most=1, participants={"age": (60, 70)})]
    problem = oar.Problem(problem.people, problem.model, problem.query, action)
    assert np.flatnonzero(problem.levers.relabel.mask).tolist() == [0, 2]
    assert np.flatnonzero(problem.levers.withhold.mask).tolist() == [4, 5]
    with pytest.raises(oar.errors.OptionError, match="seed"):
        oar.Perturb(1.0, participants={"town": "Uri"}, seed=1)


def test_best_allows_all_whom_it_chooses_from_until_they_are_chosen():
    problem = of_a_table(oar.Best(2, among={"town": ["Uri", "Zug"]}))
    assert np.flatnonzero(problem.allowance.mask).tolist() == [1, 3, 4, 5]
    assert problem.best.number == 2
    changed = problem.with_action(budget=0.5)
    assert changed.best.number == 2
    assert (changed.allowance.mask == problem.allowance.mask).all()
    assert of_a_table(oar.Best(2, among=0.5), seed=3).allowance.mask.sum() == 3
    assert repr(of_a_table(oar.Best(2)).action) == "Perturb(budget=1.0, norm=2, participants=Best(2))"


@pytest.mark.parametrize("number", [0, -1, 1.5, True, "3", None])
def test_best_is_a_whole_number(number):
    with pytest.raises(oar.errors.DataError, match="Best"):
        oar.Best(number)


def test_best_is_at_most_as_many_as_can_take_part():
    of_numbers(oar.Best(4))
    with pytest.raises(oar.errors.DataError, match="data count, 4, got 5"):
        of_numbers(oar.Best(5))
    with pytest.raises(oar.errors.DataError, match="data count, 3, got 4"):
        of_numbers(oar.Best(4), weights=[1, 0, 1, 1])
    with pytest.raises(oar.errors.DataError, match="data count, 2, got 3"):
        of_numbers(oar.Best(3), budget=[0.0, 1.0, 0.0, 2.0])


def test_best_is_for_moves_alone():
    for action in (oar.Relabel, oar.Withhold):
        with pytest.raises(oar.errors.OptionError, match="oar.Perturb alone"):
            action(most=1, participants=oar.Best(2))
    problem = of_numbers(oar.Best(2))
    with pytest.raises(oar.errors.OptionError, match="moving is all"):
        oar.Problem(problem.people, problem.model, problem.query, [problem.action, oar.Withhold(most=1)])
    with pytest.raises(oar.errors.OptionError, match="another kind"):
        oar.Best(2, among=oar.Best(3))

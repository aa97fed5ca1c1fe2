import numpy as np
import pandas as pd
import pytest

import oar

PEOPLE = oar.Population([[0.0, 0.0], [1.0, 1.0], [4.0, 4.0], [5.0, 6.0]], ["no", "no", "yes", "yes"])


def problem(query=(1.0, 2.0), goal="yes", **action):
    return oar.Problem(PEOPLE, oar.NearestCentroid(), oar.Query(query, goal), oar.Perturb(**({"budget": 1.0} | action)))


@pytest.mark.parametrize("budget", [-1, -1e-300, np.nan, np.inf, "1", None, True])
def test_bad_budgets(budget):
    with pytest.raises(oar.errors.DataError, match="budget: must be"):
        oar.Perturb(budget)
    if budget is not None:
        with pytest.raises(oar.errors.DataError, match="Query budget: must be"):
            oar.Query([0.0, 0.0], "yes", budget=budget)


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ([1.0, 1.0], "budget: must have one value for each of the 4 people"),
        ([1.0, 1.0, -1.0, 1.0], "budget: must not be negative, got -1.0 at position 2"),
        ([1.0, 1.0, np.nan, 1.0], "budget: must be finite"),
    ],
)
def test_bad_budgets_of_each(budget, message):
    with pytest.raises(oar.errors.DataError, match=message):
        problem(budget=budget)


@pytest.mark.parametrize(
    ("participants", "message"),
    [
        (-0.1, "a share must be between 0 and 1"),
        (1.1, "a share must be between 0 and 1"),
        (np.nan, "a share must be between 0 and 1"),
        (np.array([True]), "one entry for each of the 4 people"),
        ([0, 1, 1, 0], "must be None, a share between 0 and 1, a boolean mask"),
        (lambda people: None, "must return a boolean mask, got None"),
        (lambda people: np.arange(4), "boolean mask"),
        ("everyone", "must be None, a share"),
    ],
)
def test_bad_participants(participants, message):
    with pytest.raises(oar.errors.DataError, match=message):
        problem(participants=participants)


def test_ways_to_say_who_takes_part():
    mask = np.array([False, True, True, False])
    for way in (mask, mask.tolist(), lambda people: mask, pd.Series(mask)):
        np.testing.assert_array_equal(problem(participants=way).allowance.mask, mask)
    by_label = problem(participants=lambda people: people.labels == "no").allowance.mask
    np.testing.assert_array_equal(by_label, [True, True, False, False])
    assert problem(participants=0.5).allowance.mask.sum() == 2
    assert not problem(participants=0).allowance.mask.any()
    assert problem(participants=1).allowance.mask.all()


def test_shares_of_one_seed_are_nested():
    people = oar.Population(np.zeros((100, 1)) + np.arange(100)[:, None], np.arange(100) % 2)
    masks = [oar.Perturb(1.0, participants=share, seed=3).allowance(people).mask for share in (0.1, 0.4, 0.9)]
    assert [mask.sum() for mask in masks] == [10, 40, 90]
    assert (masks[0] <= masks[1]).all()
    assert (masks[1] <= masks[2]).all()


def test_a_seed_that_would_do_nothing_is_refused():
    with pytest.raises(oar.errors.OptionError, match="seed: is only used to draw a random share"):
        oar.Perturb(1.0, seed=3)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ([1.0], "query features: must have 2 features like the population, got 1"),
        ([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]], "query features: must have 2 features like the population, got 3"),
        ([1.0, np.nan], "query features: must be finite"),
        (["a", "b"], "query features: must be numbers"),
        (pd.DataFrame([[1.0, 2.0]] * 2)[:0], "query features: must be at least one person, got none"),
    ],
)
def test_bad_queries(query, message):
    with pytest.raises(oar.errors.DataError, match=message):
        problem(query=query)


def test_a_goal_that_is_no_class():
    with pytest.raises(oar.errors.DataError, match=r"goal: must be one of the classes 'no', 'yes', got 'Yes'"):
        problem(goal="Yes")
    with pytest.raises(oar.errors.DataError, match="goal: must be one of the classes"):
        problem(goal=["yes"])


@pytest.mark.parametrize("query", [[[1.0, 2.0]], np.array([1, 2]), (1, 2)])
def test_ways_to_give_one_query(query):
    np.testing.assert_array_equal(problem(query=query).query_features, [1.0, 2.0])


def test_wrong_kinds_are_named():
    query, action = oar.Query([0.0, 0.0], "yes"), oar.Perturb(1.0)
    with pytest.raises(oar.errors.DataError, match="people: must be an oar.Population"):
        oar.Problem([[1.0]], oar.NearestCentroid(), query, action)
    with pytest.raises(
        oar.errors.DataError, match=r"model: must be oar.NearestCentroid\(\), one of oar.models or a scikit-learn"
    ):
        oar.Problem(PEOPLE, "nearest", query, action)
    with pytest.raises(oar.errors.DataError, match="query: must be an oar.Query"):
        oar.Problem(PEOPLE, oar.NearestCentroid(), [0.0, 0.0], action)
    with pytest.raises(oar.errors.DataError, match="action: must be an oar.Perturb"):
        oar.Problem(PEOPLE, oar.NearestCentroid(), query, 1.0)
    with pytest.raises(oar.errors.OptionError, match="Perturb: must be one of 'budget', .*got 'radius'"):
        oar.Perturb(1.0, radius=3)


def test_the_querys_budget_must_be_known_where_budgets_differ():
    mixed = problem(budget=[1.0, 2.0, 1.0, 2.0])
    oar.collective(mixed)
    with pytest.raises(oar.errors.DataError, match="Query budget: must be given"):
        oar.individual(mixed)
    own = oar.Problem(PEOPLE, oar.NearestCentroid(), oar.Query([1.0, 2.0], "yes", budget=0.1), mixed.action)
    assert np.linalg.norm(oar.individual(own).plan.query_move) == pytest.approx(0.1)


def test_zero_budget_returns_the_unmoved_answer():
    for ask in (oar.individual, oar.collective, oar.joint):
        result = ask(problem(budget=0))
        assert result.loss == result.loss_before
        assert not result.plan.moves().any()
        assert not result.plan.query_move.any()


def test_importing_is_light_and_silent():
    import subprocess
    import sys

    code = (
        "import sys, oar; print([m for m in ('jax', 'sklearn', 'matplotlib', 'pandas', 'typer') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"
    assert ran.stderr == ""

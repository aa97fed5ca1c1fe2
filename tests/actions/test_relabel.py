"""Relabel and Withhold: what may be asked for, and every way to ask wrongly."""

import numpy as np
import pandas as pd
import pytest

import oar
from oar.models import LinearSVM, PrototypeNetwork, Ridge

FEATURES = np.array([[0.0, 0.0], [1.0, 1.0], [4.0, 4.0], [5.0, 6.0]])
PEOPLE = oar.Population(FEATURES, ["no", "no", "yes", "yes"])
VALUES = oar.Population(FEATURES, [1.0, 2.0, 3.0, 4.0])


def problem(action, model=None, people=PEOPLE, **query):
    return oar.Problem(
        people, model or oar.NearestCentroid(), oar.Query([1.0, 2.0], **({"goal": "yes"} | query)), action
    )


@pytest.mark.parametrize("action", [oar.Relabel, oar.Withhold])
@pytest.mark.parametrize("most", [-1, 1.0, "3", True, np.nan, [1]])
def test_bad_numbers(action, most):
    with pytest.raises(oar.errors.DataError, match="most: must be a whole number ≥ 0, got .*share="):
        action(most=most)


@pytest.mark.parametrize("action", [oar.Relabel, oar.Withhold])
@pytest.mark.parametrize("share", [-0.1, 1.1, "all", True, np.nan])
def test_bad_shares(action, share):
    with pytest.raises(oar.errors.DataError, match="share: must be a number between 0 and 1, got .*most="):
        action(share=share)


@pytest.mark.parametrize("soft", [-0.1, np.inf, np.nan, "much", True])
def test_bad_softness(soft):
    with pytest.raises(oar.errors.DataError, match="soft: must be a finite number ≥ 0, got"):
        oar.Relabel(soft=soft)


def test_exactly_one_limit():
    with pytest.raises(
        oar.errors.OptionError, match="Relabel: must be given exactly one of most, share, soft, got none"
    ):
        oar.Relabel()
    with pytest.raises(oar.errors.OptionError, match="got most and soft"):
        oar.Relabel(most=1, soft=0.1)
    with pytest.raises(
        oar.errors.OptionError, match="Withhold: must be given exactly one of most, share, got most and share"
    ):
        oar.Withhold(most=1, share=0.1)


@pytest.mark.parametrize("action", [oar.Relabel, oar.Withhold])
def test_bad_participants(action):
    with pytest.raises(oar.errors.DataError, match="participants: a share must be"):
        action(most=1, participants=1.5)
    with pytest.raises(oar.errors.OptionError, match="seed: is only used"):
        action(most=1, seed=3)
    with pytest.raises(oar.errors.DataError, match="participants: must have one entry for each of the 4 people"):
        problem(action(most=1, participants=np.array([True])))


def test_bad_labels_to_give():
    with pytest.raises(oar.errors.DataError, match="to: must be a list of the labels"):
        oar.Relabel(most=1, to="yes")
    with pytest.raises(oar.errors.DataError, match="to: must be a list"):
        oar.Relabel(most=1, to=[])
    with pytest.raises(
        oar.errors.DataError, match="to: must be one of the classes 'no', 'yes', got 'yess'. Did you mean 'yes'"
    ):
        problem(oar.Relabel(most=1, to=["yess"]))


def test_what_does_not_suit_the_model():
    values = {"model": Ridge(), "people": VALUES, "goal": 2.0, "within": 0.1}
    with pytest.raises(
        oar.errors.OptionError, match="Relabel: flips labels between classes, and ridge predicts values"
    ):
        problem(oar.Relabel(most=1), **values)
    with pytest.raises(oar.errors.OptionError, match="to: is for classes"):
        problem(oar.Relabel(soft=1.0, to=[1.0]), **values)
    with pytest.raises(
        oar.errors.OptionError, match=r"soft: nearest centroid knows hard labels alone; .*PrototypeNetwork"
    ):
        problem(oar.Relabel(soft=0.1))
    with pytest.raises(oar.errors.DataError, match="soft: must be at most 1"):
        problem(oar.Relabel(soft=1.5), LinearSVM())
    assert problem(oar.Relabel(soft=0.1), PrototypeNetwork()).levers.relabel.soft == 0.1
    assert problem(oar.Relabel(soft=7), **values).levers.relabel.soft == 7.0


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ([], "action: must name at least one action, got an empty list"),
        ([oar.Perturb(1.0), oar.Perturb(0.5)], "action: must hold each kind at most once, got 2 of Perturb"),
        ([oar.Withhold(most=1), oar.Withhold(most=1)], "got 2 of Withhold"),
        ([oar.Perturb(1.0), "strike"], "action: must be an oar.Perturb.* got an object of type str"),
        (None, "action: must be an oar.Perturb.* got an object of type NoneType"),
    ],
)
def test_bad_combinations(action, message):
    with pytest.raises(oar.errors.DataError, match=message):
        problem(action)


def test_a_list_of_one_is_that_one():
    perturb = oar.Perturb(1.0)
    assert problem([perturb]).action is perturb
    assert not problem([perturb]).levers.given


def test_shares_are_limits_of_those_who_take_part():
    everyone = oar.Population(np.arange(200.0).reshape(100, 2), np.arange(100) % 2)
    mask = np.arange(100) < 50

    def limits(action):
        return problem(action, people=everyone, goal=1).levers

    assert limits(oar.Withhold(share=0.29)).withhold.most == 29  # although 0.29 * 100 < 29
    assert limits(oar.Withhold(share=0.299)).withhold.most == 29
    assert limits(oar.Relabel(share=0.1, participants=mask)).relabel.most == 5
    assert limits(oar.Relabel(most=80, participants=mask)).relabel.most == 50
    drawn = limits(oar.Relabel(share=0.1, participants=0.2, seed=7)).relabel
    assert (drawn.mask.sum(), drawn.most) == (20, 2)
    np.testing.assert_array_equal(drawn.mask, limits(oar.Withhold(most=1, participants=0.2, seed=7)).withhold.mask)


def test_without_moves_nobody_may_move():
    found = problem([oar.Relabel(most=1), oar.Withhold(most=1)])
    assert found.allowance.everyones(4).tolist() == [0.0] * 4
    assert not found.moves
    with pytest.raises(oar.errors.OptionError, match="action: must hold an oar.Perturb"):
        found.with_action(budget=1.0)


def test_settings_of_moves_can_be_changed_beside_levers():
    strike = oar.Withhold(most=1)
    changed = problem([oar.Perturb(1.0), strike]).with_action(budget=0.5)
    assert changed.allowance.budget == 0.5
    assert changed.action[1] is strike


def test_how_they_are_shown():
    assert repr(oar.Relabel(most=3, to=["yes"])) == "Relabel(most=3, to=['yes'])"
    assert repr(oar.Withhold(share=0.1, participants=0.5, seed=2)) == "Withhold(share=0.1, participants=0.5, seed=2)"
    assert "Withhold(most=1)" in repr(problem([oar.Perturb(1.0), oar.Withhold(most=1)]))


@pytest.mark.parametrize(
    "action", [oar.Relabel(most=1), oar.Withhold(most=1), [oar.Perturb(1.0), oar.Withhold(most=1)]]
)
def test_who_only_knows_moves_says_so(action):
    asked = problem(action)
    with pytest.raises(oar.errors.OptionError, match="action: must be an oar.Perturb.* alone for"):
        oar.solvers.shortest_move(asked)


@pytest.mark.parametrize("option", ["solver", "signal"])
def test_options_that_would_do_nothing(option):
    with pytest.raises(oar.errors.OptionError, match=f"{option}: is for moves, and nobody may move here"):
        oar.collective(problem(oar.Relabel(most=1), oar.SoftmaxRegression()), **{option: "implicit"})


def test_people_with_an_index_keep_it():
    frame = pd.DataFrame(FEATURES, columns=["a", "b"], index=["w", "x", "y", "z"])
    labels = pd.Series(["no", "no", "yes", "yes"], index=frame.index)
    people = oar.Population(frame, labels)
    plan = oar.collective(problem([oar.Relabel(most=1), oar.Withhold(most=1)], people=people)).plan
    assert plan.labels().index.equals(frame.index)
    assert plan.leavers().index.equals(frame.index)
    assert plan.leavers().dtype == bool
    assert set(plan.labels()) <= {"no", "yes"}
    assert plan.moves().shape == (4, 2)
    soft = oar.collective(problem(oar.Relabel(soft=0.1), oar.SoftmaxRegression(), people=people)).plan.labels()
    assert list(soft.columns) == ["no", "yes"]
    assert soft.index.equals(frame.index)

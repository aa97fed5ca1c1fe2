"""Numbers, whole numbers and flags are told apart the same way everywhere."""

import decimal
import fractions

import numpy as np
import pytest

import oar
from oar.checks import is_flag, is_number, is_whole, real_numbers, with_near_names
from oar.problem import Problem
from oar.typing import FilePath


@pytest.mark.parametrize("value", [2, np.int32(2), np.uint8(2)])
def test_whole_numbers_are_numbers_and_no_flags(value):
    assert is_whole(value)
    assert is_number(value)
    assert not is_flag(value)


@pytest.mark.parametrize("value", [0.5, np.float32(0.5), float("nan")])
def test_other_numbers_are_not_whole(value):
    assert is_number(value)
    assert not is_whole(value)


@pytest.mark.parametrize("value", [True, np.bool_(False)])
def test_flags_are_no_numbers(value):
    assert is_flag(value)
    assert not is_number(value)
    assert not is_whole(value)


@pytest.mark.parametrize("value", ["2", None, [2], np.array([2.0]), 2j])
def test_everything_else_is_neither(value):
    assert not any(told(value) for told in (is_number, is_whole, is_flag))


def test_exact_fractions_are_no_numbers_here_and_budgets_make_floats_of_them():
    third, tenth = fractions.Fraction(1, 3), decimal.Decimal("0.1")
    for value in (third, tenth):
        assert not is_number(value)
        assert not is_whole(value)
        with pytest.raises(oar.errors.DataError, match=r"l2: must be a number of at least 0, got (Fraction|Decimal)"):
            oar.SoftmaxRegression(l2=value)
        assert oar.Perturb(value).budget == float(value)
    for value in (np.float32(0.5), np.int8(2), np.float64(1.0), 3, 0.5):
        assert is_number(value)


@with_near_names
def called(problem: "Problem", seed: "int | None" = None, path: "FilePath" = "x") -> None:
    """Do nothing.

    Args:
        problem: what is asked.
        seed: of draws.
    """


@pytest.mark.parametrize(
    ("values", "settings", "said"),
    [
        (
            (),
            {},
            r"problem: must be given, got nothing; call called\(problem, .*\), with problem: what is asked",
        ),
        ((None,), {}, r"problem: must be an oar.Problem\(…\), got an object of type NoneType"),
        ((1, 2, "x", 4), {}, r"called: must be called as called\(problem, .*\), got 4 arguments for 3 places"),
        ((1,), {"problem": 2}, r"problem: must be given once, got two values"),
        ((10**400,), {}, r"problem: must not be beyond 1.8e\+308, got a whole number of 1,329 bits"),
        ((1,), {"sed": 2}, r"called: must be one of .*, got 'sed'. Did you mean 'seed'"),
    ],
)
def test_calls_that_do_not_fit_are_refused(values, settings, said):
    with pytest.raises(oar.errors.OARError, match=said):
        called(*values, **settings)


def test_what_is_handed_in_instead_is_said():
    people = oar.Population([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1])
    problem = oar.Problem(people, oar.NearestCentroid(), oar.Query([2.0], 1), oar.Perturb(1.0))
    result = oar.collective(problem)
    for ask, given, instead in (
        (oar.collective, result, r"hand in its problem, result\.problem"),
        (oar.break_even, people, r"state a problem with oar\.Problem"),
        (oar.questions.credit, problem, r"hand in oar\.collective\(problem\)"),
    ):
        with pytest.raises(oar.errors.DataError, match=instead):
            ask(given)
    with pytest.raises(oar.errors.DataError, match=r"seed: must be a single value, got ndarray of shape \(2,\)"):
        called(problem, seed=np.zeros(2))
    with pytest.raises(oar.errors.DataError, match="path: must be the path of a file or folder, got 3"):
        called(problem, path=3)


def test_class_codes_are_no_positions_from_the_end():
    people = oar.Population([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1])
    for model in (oar.NearestCentroid(), oar.SoftmaxRegression(0.1)):
        learned = model.fit(people)
        for code in (-1, 2):
            with pytest.raises(oar.errors.DataError, match=f"the code of a class, from 0 to 1, got {code}"):
                model.goal_loss(learned, [[0.0]], code)
        with pytest.raises(oar.errors.DataError, match="features: must be|parameters, features: must be"):
            model.predict(learned, [[0.0, 1.0]])


def test_masked_numbers_are_refused():
    with pytest.raises(TypeError, match="masked"):
        real_numbers(np.ma.masked_array([1.0, 2.0], [False, True]))

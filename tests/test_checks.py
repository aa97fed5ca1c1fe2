"""Numbers, whole numbers and flags are told apart the same way everywhere."""

import decimal
import fractions

import numpy as np
import pytest

import oar
from oar.checks import is_flag, is_number, is_whole


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

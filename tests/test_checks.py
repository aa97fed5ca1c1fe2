"""Numbers, whole numbers and flags are told apart the same way everywhere."""

import numpy as np
import pytest

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

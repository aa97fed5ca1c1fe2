"""Deeds as contributions: who acts, what if only some do, and how much is done."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from oar.worlds import Deed

CODES = np.array([0, 1, 1, 0])
DEED = Deed(
    moves=np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]),
    codes=np.array([0, 0, 1, 0]),
    leaves=np.array([False, False, True, False]),
    added=(np.ones((3, 2)), np.zeros(3, dtype=np.intp)),
    note={"why": "because"},
)


def test_whoever_moves_is_relabelled_or_leaves_acts():
    assert_array_equal(DEED.acts(CODES), [True, True, True, False])
    assert not Deed().acts(CODES).any()
    assert not Deed(codes=CODES.copy(), leaves=np.zeros(4, dtype=bool)).acts(CODES).any()


@pytest.mark.parametrize("person", range(4))
def test_if_only_one_acts_the_others_hand_in_what_they_have(person):
    only = np.arange(4) == person
    some = DEED.if_only(only, CODES)
    assert_array_equal(some.acts(CODES), only & DEED.acts(CODES))
    assert_array_equal(some.codes[~only], CODES[~only])
    assert some.leaves.dtype == bool
    assert some.codes.dtype == CODES.dtype
    assert some.added is DEED.added
    assert some.note is DEED.note


def test_what_is_left_to_others_stays_so():
    some = Deed(moves=DEED.moves).if_only(np.zeros(4, dtype=bool), CODES)
    assert not some.moves.any()
    assert some.codes is None
    assert some.leaves is None


def test_counts():
    assert DEED.counts(CODES) == {"relabelled": 1, "left": 1, "added": 3}
    assert Deed().counts(CODES) == {"relabelled": 0, "left": 0, "added": 0}

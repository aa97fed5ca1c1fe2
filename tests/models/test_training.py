"""Moves of some columns, or of all, on top of people's features."""

import numpy as np

from oar.models.training import displaced

FEATURES = np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])


def test_where_nobody_moves_features_are_the_same_array():
    assert displaced(FEATURES, None) is FEATURES


def test_moves_are_added_to_a_copy():
    before = FEATURES.copy()
    assert displaced(FEATURES, np.ones((2, 3))).tolist() == (before + 1).tolist()
    assert np.array_equal(FEATURES, before)


def test_moves_of_some_columns_leave_the_others():
    moved = displaced(FEATURES, np.array([[10.0, 20.0], [0.0, 1.0]]), np.array([2, 0]))
    assert moved.tolist() == [[20.0, 1.0, 12.0], [4.0, 4.0, 5.0]]

"""What people hand in: parts that are None are as they were, whatever is asked of them."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import oar
from oar.retraining.contribution import Contribution

PEOPLE = oar.Population([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]], ["a", "b", "a", "b"], [1.0, 2.0, 3.0, 4.0])
BEFORE = Contribution.of(PEOPLE, regresses=False)


def changed():
    """Return a contribution in which the first moves, the second has another label, the third leaves."""
    moves, targets, weights = (part.copy() for part in BEFORE.parts)
    moves[0], targets[1], weights[2] = [1.0, 0.0], [1.0, 0.0], 0.0
    return Contribution(moves, targets, weights)


def test_people_as_they_are_hand_in_everything_and_do_nothing():
    assert_array_equal(BEFORE.targets, [[1, 0], [0, 1], [1, 0], [0, 1]])
    assert_array_equal(BEFORE.weights, PEOPLE.weights)
    assert not BEFORE.acts(BEFORE).any()
    assert not Contribution().acts(BEFORE).any()
    assert Contribution().handed_in(PEOPLE, False) is PEOPLE


def test_whoever_differs_in_any_part_acts():
    assert_array_equal(changed().acts(BEFORE), [True, True, True, False])
    assert_array_equal(Contribution(weights=changed().weights).acts(BEFORE), [False, False, True, False])


@pytest.mark.parametrize("person", range(3))
def test_if_only_one_acts_all_others_hand_in_what_they_did(person):
    acting = np.arange(4) == person
    some = changed().if_only(acting, BEFORE)
    assert_array_equal(some.acts(BEFORE), acting)
    for part, all_of_it in zip(some.parts, changed().parts, strict=True):
        assert_array_equal(part[person], all_of_it[person])


def test_parts_that_are_as_they_were_stay_so():
    moved = Contribution(changed().moves)
    assert moved.only_moves
    assert moved.if_only(np.zeros(4, dtype=bool), BEFORE).only_moves
    assert moved.with_moves(None).parts == (None, None, None)
    whole = Contribution(*moved.over(BEFORE))
    assert whole.targets is BEFORE.targets
    assert whole.beyond(BEFORE).parts == (moved.moves, None, None)


def test_targets_and_weights_are_handed_in():
    people = changed().handed_in(PEOPLE, False)
    assert list(people.labels) == ["a", "a", "a", "b"]
    assert_array_equal(people.weights, [1, 2, 0, 4])
    assert people.classes == PEOPLE.classes
    relabelled = Contribution(targets=changed().targets).handed_in(PEOPLE, False)
    assert_array_equal(relabelled.weights, PEOPLE.weights)


def test_who_hands_in_nothing_does_not_move():
    given = Contribution(np.ones((4, 2)), None, changed().weights).leavers_stay()
    assert_array_equal(given.moves, [[1, 1], [1, 1], [0, 0], [1, 1]])
    assert Contribution(np.ones((4, 2))).leavers_stay().moves.all()
    assert Contribution(weights=changed().weights).leavers_stay().moves is None

"""The short version of the campaign: people who were found out by their cards, and are not any more."""

import pytest

from .privacy import FEW, attacked, bounds, case, published
from .privacy_by_refits import drawn, kept, tried


@pytest.mark.parametrize(
    ("model", "size", "seed"),
    [("scaled naive Bayes", 400, 1), ("plain softmax", 150, 2), ("scaled softmax", 150, 3)],
)
def test_two_cards_do_not_tell_who_made_the_difference(model, size, seed):
    found = case(model, size, seed)
    assert found is not None
    assert not found.warned
    results = attacked(found)
    assert results
    assert not [each for each in results if each.out]


@pytest.mark.parametrize(("size", "seed"), [(100, 1), (400, 2)])
def test_whoever_moves_a_bound_is_one_of_several_and_not_next_to_it(size, seed):
    found = list(bounds(seed, size))
    assert found
    assert min(len(movers) for *_, movers in found) >= FEW
    near = [each <= 0.05 for *_, movers in found for each in movers]
    assert sum(near) <= 0.3 * len(near)


def test_published_files_hold_neither_rare_names_nor_digests(tmp_path):
    results = published(tmp_path, seed=0)
    assert len(results) == 8
    assert not [what for held, what in results if not held]


@pytest.mark.parametrize(("model", "seed"), [("softmax", 1), ("naive-bayes", 2)])
def test_an_income_is_not_found_by_refits_that_agree_with_all_published_numbers(model, seed):
    views = tried(drawn(200, model, seed), offsets=(0.04,))
    assert len(views) == 3
    assert len(kept({each: view.files for each, view in views.items()})) > 1

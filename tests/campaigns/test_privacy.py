"""The short version of the campaign: people who were found out by their cards, and are not any more."""

import pytest

from .privacy import attacked, case, published
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


def test_published_files_hold_neither_rare_names_nor_digests(tmp_path):
    results = published(tmp_path, seed=0)
    assert len(results) == 8
    assert not [what for held, what in results if not held]


@pytest.mark.parametrize(("model", "seed"), [("softmax", 1), ("naive-bayes", 2)])
def test_an_income_is_not_found_by_refits_that_agree_with_all_published_numbers(model, seed):
    views = tried(drawn(200, model, seed), offsets=(0.04,))
    assert len(views) == 3
    assert len(kept({each: view.files for each, view in views.items()})) > 1

"""A few problems of the campaign against proofs; `python -m tests.campaigns.proofs` tries ten thousand."""

from __future__ import annotations

import numpy as np
import pytest

from .proofs import attacked
from .proofs_of_advice import drawn


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", [0, 10, 20])
def test_nothing_is_better_than_what_is_proved(first):
    for seed in range(first, first + 10):
        refuted, _ = attacked(seed)
        assert not refuted, f"seed {seed}: {refuted}"


@pytest.mark.filterwarnings("ignore")
def test_advice_is_not_refused_for_a_change_below_the_last_digit_of_a_value():
    """A column at 4e11 is moved by 8e-6, which no row holds: what the solver counts for it is rounding."""
    assert not attacked(91_001_478)[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [890, 2143])
def test_whole_steps_that_miss_a_margin_by_rounding_are_no_way(seed):
    """HiGHS takes such a step for enough, by "l2", and no other is found: that is said, and proves nothing."""
    _, _, advice = drawn(np.random.default_rng(seed)).asked()
    assert advice.success or (not advice.proved and advice.bound < advice.cost)

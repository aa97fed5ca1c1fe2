"""A few problems of the campaign against proofs; `python -m tests.campaigns.proofs` tries ten thousand."""

from __future__ import annotations

import pytest

from .proofs import attacked


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", [0, 10, 20])
def test_nothing_is_better_than_what_is_proved(first):
    for seed in range(first, first + 10):
        refuted, _ = attacked(seed)
        assert not refuted, f"seed {seed}: {refuted}"

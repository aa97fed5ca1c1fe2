"""Answers to golden problems are as they were recorded, or better; and the comparison can fail."""

import dataclasses

import jax
import pytest

from .problems import PROBLEMS
from .records import HERE, Record, answer, compare


@pytest.fixture(scope="module", autouse=True)
def compiled_as_for_users():
    """Have what JAX compiles optimised, as where answers were recorded; `make test` leaves that out elsewhere."""
    name = "jax_disable_most_optimizations"
    before = jax.config.read(name)
    jax.config.update(name, False)
    jax.clear_caches()  # of what other tests have compiled
    yield
    jax.config.update(name, before)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_answer_is_no_worse_than_the_recorded_one(name):
    compared = compare(name, Record.load(name), answer(name))
    assert compared.verdict in ("identical", "same", "better"), "\n".join(compared.differences)


def test_every_record_belongs_to_a_problem():
    assert sorted(path.stem for path in HERE.glob("*.json")) == sorted(PROBLEMS)
    assert sorted(path.stem for path in HERE.glob("*.npz")) == sorted(PROBLEMS)


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, "identical"),
        ({"loss": 0.5 * (1 + 1e-10)}, "same"),
        ({"loss": 0.5 * (1 + 1e-8)}, "worse"),
        ({"loss": 0.4}, "better"),
        ({"status": "IMPROVED"}, "worse"),
        ({"exact": False}, "worse"),
        ({"violations": ["member 3 moves too far"]}, "worse"),
        ({"passes": 111}, "worse"),
        ({"passes": 104}, "same"),
        ({"loss": "nan"}, "worse"),
        ({"arithmetic": "of another processor", "loss": 0.5 * (1 + 1e-8), "passes": 120}, "same"),
        ({"arithmetic": "of another processor", "loss": 0.5 * (1 + 1e-6)}, "worse"),
        ({"arithmetic": "of another processor", "status": "IMPROVED"}, "worse"),
    ],
)
def test_a_comparison_tells_better_from_worse(change, verdict):
    old = Record.load(min(PROBLEMS))
    old = dataclasses.replace(old, facts=old.facts | {"loss": 0.5, "exact": True, "passes": 100, "status": "ACHIEVED"})
    assert compare("x", old, dataclasses.replace(old, facts=old.facts | change)).verdict == verdict

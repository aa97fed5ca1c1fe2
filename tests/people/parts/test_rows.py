"""Rows in parts against arrays: what NumPy says of the one it says of the other."""

import numpy as np
import pytest

import oar
from oar.errors import OptionError
from oar.people.parts.rows import everyones_features, everyones_targets, products

RNG = np.random.default_rng(0)
FEATURES, LABELS = RNG.standard_normal((50, 3)), RNG.integers(0, 2, 50)


@pytest.fixture
def rows(tmp_path):
    """Return the rows of 50 people in four parts."""
    import pandas

    table = pandas.DataFrame(FEATURES, columns=list("abc")).assign(y=LABELS)
    for number in range(4):
        table[number * 13 : (number + 1) * 13].to_parquet(tmp_path / f"{number}.parquet")
    return everyones_features(oar.Population.from_parquet(tmp_path, target="y"))


MASK = RNG.random((50, 1)) < 0.5
FORMULAS = [
    lambda x: x,
    lambda x: 2 * x + 1,
    lambda x: x * MASK,
    lambda x: MASK * x - x,
    lambda x: np.where(MASK, x, 0.0),
    lambda x: np.abs(x) ** 2 / np.array([1.0, 2.0, 3.0]),
    lambda x: x @ np.ones((3, 2)),
    lambda x: x[:, [2, 0]],
    lambda x: x[:, 1:],
    lambda x: np.maximum(x, np.zeros_like(x)),
]


@pytest.mark.parametrize("formula", FORMULAS)
def test_formulas(rows, formula):
    found, expected = formula(rows), formula(FEATURES)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found[np.arange(50)], expected, rtol=1e-15)


REDUCTIONS = [
    lambda x: x.sum(),
    lambda x: x.sum(axis=0),
    lambda x: x.sum(axis=1),
    lambda x: x.max(),
    lambda x: x.min(axis=0),
    lambda x: (x > 0).any(axis=1),
    lambda x: (x > 3).any(),
    lambda x: x.mean(axis=1),
    lambda x: x.argmax(axis=1),
    lambda x: x.std(axis=0),
    lambda x: np.einsum("nd,nd->n", x, 2 * x),
    lambda x: np.arange(50.0) @ x,
    lambda x: x[[3, 40, 3]],
    lambda x: x[7],
    lambda x: x[:, 1],
    lambda x: x[MASK[:, 0]],
    lambda x: x[np.zeros(50, dtype=bool)],
]


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_reductions(rows, reduction):
    np.testing.assert_allclose(reduction(rows), reduction(FEATURES), rtol=1e-12)


def test_targets_and_products(rows):
    targets = everyones_targets(rows.people, regresses=False)
    np.testing.assert_allclose(targets[np.arange(50)], np.eye(2)[LABELS])
    np.testing.assert_allclose(products(rows, targets), np.eye(2)[LABELS].T @ FEATURES)


def test_nothing_is_read_for_formulas(rows):
    before = rows.people.passes
    _ = np.where(MASK, 2 * rows + 1, rows @ np.eye(3))
    assert rows.people.passes == before


def test_no_array_is_made_of_everyone_by_mistake(rows):
    with pytest.raises(OptionError, match="needs everybody in memory"):
        np.asarray(rows)


def test_rows_are_not_written_to(rows):
    with pytest.raises(OptionError, match="needs everybody in memory"):
        rows[3] = 0.0

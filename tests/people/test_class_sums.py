"""Sums by class, of rows and of columns, against one bincount a feature."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oar.people.class_sums import BLOCKS, IN_CACHE, of_columns, of_rows
from oar.people.population import added


def counted(features, codes, weights, classes, stride):
    """The same by NumPy's own counting, one feature at a time."""
    terms = np.ones(len(codes)) if weights is None else weights
    sums = np.array([np.bincount(codes, terms * column, classes) for column in np.asarray(features, dtype=float).T]).T
    largest = np.abs(np.asarray(features, dtype=float)[::stride]).max(axis=1)
    some = codes[::stride]
    return (
        sums,
        np.bincount(codes, terms, classes),
        np.bincount(some, terms[::stride] * largest, classes),
        np.bincount(some, terms[::stride], classes),
    )


def same(found, known):
    for one, other in zip(found, known, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-11)


def people(size, width, classes, seed=0, kind=np.float32):
    rng = np.random.default_rng(seed)
    features = (10 * rng.standard_normal((size, width))).astype(kind)
    return features, rng.integers(0, classes, size), rng.uniform(0, 2, size)


@given(
    size=st.integers(1, 300) | st.sampled_from([IN_CACHE, IN_CACHE + 1, BLOCKS * IN_CACHE - 1, BLOCKS * IN_CACHE + 5]),
    width=st.integers(1, 5),
    classes=st.integers(1, 16),
    stride=st.sampled_from([1, 3, 64]),
    weighted=st.booleans(),
    kind=st.sampled_from([np.float16, np.float32, np.float64, np.int8, np.int64, np.uint8, np.bool_]),
    codes_kind=st.sampled_from([np.int8, np.int32, np.int64]),
    seed=st.integers(0, 1000),
)
def test_columns_and_rows_give_what_counting_gives(size, width, classes, stride, weighted, kind, codes_kind, seed):
    features, codes, weights = people(size, width, classes, seed, kind)
    how = codes, weights if weighted else None, classes, stride
    known = counted(features, *how)
    same(of_columns(tuple(features.T), codes.astype(codes_kind), *how[1:]), known)
    same(of_rows(features.astype(np.float64), codes.astype(np.int32), *how[1:]), known)


def test_halves_add_up_to_the_whole():
    features, codes, weights = people(10_000, 4, 6)
    halves = [
        of_columns(tuple(features[some].T), codes[some], weights[some], 6, 1)
        for some in (slice(4_000), slice(4_000, None))
    ]
    same(added(halves), counted(features, codes, weights, 6, 1))


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_not_finite_is_seen_and_forgotten(wrong):
    """Arrays are used again: a sum that is not finite must not spoil the next one, which is shorter."""
    features, codes, _ = people(3_000, 3, 4)
    spoilt = features.copy()
    spoilt[2_999, 1] = wrong
    assert not np.isfinite(of_columns(tuple(spoilt.T), codes, None, 4, 1)[0]).all()
    same(
        of_columns(tuple(features[:2_500].T), codes[:2_500], None, 4, 1),
        counted(features[:2_500], codes[:2_500], None, 4, 1),
    )


def test_sums_of_small_numbers_beside_large_ones_are_as_good_as_float64():
    features = np.full((100_000, 1), 0.1, dtype=np.float32)
    features[::2] = 1e7
    codes = np.arange(100_000) % 2
    found = of_columns(tuple(features.T), codes, None, 2, 64)[0]
    np.testing.assert_allclose(found[1], 50_000 * np.float64(np.float32(0.1)), rtol=1e-13)


def test_threads_do_not_share_arrays():
    found, known = {}, {}

    def work(number):
        features, codes, _ = people(20_000, 5, 7, seed=number)
        known[number] = counted(features, codes, None, 7, 1)
        for _ in range(20):
            found[number] = of_columns(tuple(features.T), codes, None, 7, 1)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    for number, one in found.items():
        same(one, known[number])
    assert len(found) == 4

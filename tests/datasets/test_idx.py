"""The idx reader: what it reads is what was written, and each kind of damage has its own message."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from oar.datasets.idx import idx_content, idx_sha256, parse_idx, read_content
from oar.errors import StorageError

# Written by hand from the format's description, so that reader and writer cannot share a mistake.
TWO_BY_THREE = bytes.fromhex("00000802 00000002 00000003 010203 0405ff")


def test_reads_a_file_spelt_out_by_hand():
    assert parse_idx(TWO_BY_THREE, 2, "hand").tolist() == [[1, 2, 3], [4, 5, 255]]


def test_writes_the_same_bytes():
    assert idx_content(np.array([[1, 2, 3], [4, 5, 255]], dtype=np.uint8)) == TWO_BY_THREE


@given(
    values=st.integers(1, 4).flatmap(
        lambda n: hnp.arrays(np.uint8, hnp.array_shapes(min_dims=n, max_dims=n, min_side=0, max_side=6))
    ),
    zipped=st.booleans(),
)
def test_round_trip(tmp_path_factory, values, zipped):
    path = tmp_path_factory.mktemp("idx") / "values"
    path.write_bytes(gzip.compress(idx_content(values), mtime=0) if zipped else idx_content(values))
    back = parse_idx(read_content(path), values.ndim, str(path))
    assert back.dtype == np.uint8
    assert back.shape == values.shape
    np.testing.assert_array_equal(back, values)
    assert back.flags.writeable


@given(cut=st.integers(0, len(TWO_BY_THREE) - 1))
def test_every_truncation_is_refused(cut):
    with pytest.raises(StorageError, match="hand (is truncated|is not an idx file)"):
        parse_idx(TWO_BY_THREE[:cut], 2, "hand")


@given(extra=st.binary(min_size=1, max_size=20))
def test_trailing_bytes_are_refused(extra):
    with pytest.raises(StorageError, match=r"hand has trailing bytes.*2 × 3 = 6 values, got \d+"):
        parse_idx(TWO_BY_THREE + extra, 2, "hand")


@pytest.mark.parametrize(
    ("content", "dimensions", "message"),
    [
        (b"PK\x03\x04 something else", 2, "not an idx file.*got 50 4b 03 04"),
        (b"", 2, "not an idx file.*got nothing"),
        (bytes.fromhex("00000d02") + TWO_BY_THREE[4:], 2, r"unsigned bytes.*got float32 \(0x0d\)"),
        (bytes.fromhex("00000702") + TWO_BY_THREE[4:], 2, "got an unknown type"),
        (TWO_BY_THREE, 3, "must have 3 dimensions, got 2.*swapped"),
        (TWO_BY_THREE, 1, "must have 1 dimension, got 2"),
        (bytes.fromhex("00000801 ffffffff 01"), 1, "promises 4294967295 = 4294967295 values, got 1"),
    ],
)
def test_damage_is_named(content, dimensions, message):
    with pytest.raises(StorageError, match=message):
        parse_idx(content, dimensions, "hand")


def _flip(content: bytes, position: int) -> bytes:
    return content[:position] + bytes([content[position] ^ 0xFF]) + content[position + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        lambda zipped: zipped[:-9],
        lambda zipped: zipped[:12],
        lambda zipped: _flip(zipped, 14),
        lambda zipped: _flip(zipped, len(zipped) - 6),
        lambda zipped: zipped + b"rubbish",
    ],
    ids=["end cut off", "only a header", "flipped inside", "flipped checksum", "rubbish behind"],
)
def test_damaged_gzip_is_named(tmp_path, damage):
    path = tmp_path / "train-labels-idx1-ubyte.gz"
    content = idx_content(np.random.default_rng(0).integers(0, 10, 500, dtype=np.uint8))
    path.write_bytes(damage(gzip.compress(content, mtime=0)))
    with pytest.raises(StorageError, match="train-labels-idx1-ubyte.gz is a damaged gzip file"):
        read_content(path)


def test_zipped_content_is_known_by_its_bytes_not_its_name(tmp_path):
    (tmp_path / "plain.gz").write_bytes(TWO_BY_THREE)
    (tmp_path / "zipped").write_bytes(gzip.compress(TWO_BY_THREE))
    assert read_content(tmp_path / "plain.gz") == TWO_BY_THREE
    assert read_content(tmp_path / "zipped") == TWO_BY_THREE


def test_missing_file_and_folder_are_named(tmp_path):
    with pytest.raises(StorageError, match="nothing-here does not exist"):
        read_content(tmp_path / "nothing-here")
    with pytest.raises(StorageError, match="cannot be read"):
        read_content(tmp_path)


def test_digest_is_that_of_the_unzipped_file():
    # sha256 of TWO_BY_THREE, from the command sha256sum.
    expected = "4a458d8d9d265f97b5961d75fa67666b79fe6766e5136efa2589f7f2dc77053b"
    assert idx_sha256(np.array([[1, 2, 3], [4, 5, 255]], dtype=np.uint8)) == expected

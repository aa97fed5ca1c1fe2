"""One person without a frame: the same coordinates, values and errors as with one."""

from __future__ import annotations

import dataclasses
import decimal
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oar
from oar.people import Column, Schema
from oar.people.tables.encoding import Encoding

COLUMNS = (
    Column("income", "number"),
    Column("age", "integer"),
    Column("owner", "boolean"),
    Column("grade", "ordinal", ("low", "middle", "high")),
    Column("purpose", "category", ("car", "home", "school")),
    Column("rooms", "ordinal", (1, 2, 3)),
    Column("size", "category", (0.5, 1.0, 2.5)),
    Column("asked", "category", (True, False)),
    Column("mixed", "category", ("a", 1, 2.5)),
)
DTYPES = ("float64", "int64", "bool", "str", "object", "int64", "float64", "bool", "object")
ENCODING = Encoding(Schema(COLUMNS), tuple(pd.Series([], dtype=dtype).dtype for dtype in DTYPES))
GOOD = {
    "income": 31.5,
    "age": 40,
    "owner": True,
    "grade": "low",
    "purpose": "home",
    "rooms": 2,
    "size": 2.5,
    "asked": False,
    "mixed": "a",
}
ODD = [
    *(None, np.nan, pd.NA, pd.NaT, decimal.Decimal("nan"), float("inf"), -np.inf, 1e101, 10**100, 10**400, 2**53),
    *(2**53 - 1, -(2**53), 1, 0, -0.0, 1.0, 1.5, 2, 2.5, 3, True, False, "", "low", "hom", "home", "1", b"home", 1j),
    *(np.int64(2), np.int8(1), np.uint64(2**63), np.float64(1.0), np.float32(0.1), np.float16(2.5), np.longdouble(1)),
    *(np.bool_(True), np.str_("home"), np.float64("nan"), np.complex128(1), np.datetime64("2020-01-01")),
    *(pd.Timestamp("2020-01-01"), decimal.Decimal("1.5"), [1, 2], [1], (1,), {"a": 1}, {1}, np.array([1.0]), object),
]
VALUES = st.sampled_from(ODD) | st.floats() | st.integers() | st.text(max_size=3)


def by_frame(row):
    frame = pd.DataFrame({name: pd.Series([value], dtype=object) for name, value in row.items()})
    return ENCODING.encode(frame, "row")[0]


def outcome(encode, row):
    """Return coordinates to the last bit, or the error in full."""
    try:
        return encode(row).tobytes()
    except Exception as error:
        return type(error), str(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(GOOD))
@pytest.mark.parametrize("value", ODD, ids=repr)
def test_an_odd_value_is_read_or_refused_as_in_a_frame(name, value):
    row = GOOD | {name: value}
    assert outcome(lambda each: ENCODING.encode_row(each, "row"), row) == outcome(by_frame, row)


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=150, deadline=None)
@given(
    changes=st.dictionaries(st.sampled_from([*GOOD, "incom", "more"]), VALUES, max_size=3),
    dropped=st.sets(st.sampled_from(list(GOOD)), max_size=1),
    series=st.booleans(),
)
def test_a_row_is_read_or_refused_as_in_a_frame(changes, dropped, series):
    row = {name: value for name, value in (GOOD | changes).items() if name not in dropped}
    handed = pd.Series(list(row.values()), index=list(row), dtype=object) if series else row
    assert outcome(lambda each: ENCODING.encode_row(each, "row"), handed) == outcome(by_frame, row)


def test_usual_rows_need_no_frame(monkeypatch):
    monkeypatch.setattr(Encoding, "encode", lambda *_: pytest.fail("a frame was made"))
    for row in (GOOD, pd.Series(GOOD), GOOD | {"age": np.int64(3), "owner": np.bool_(False), "income": np.float32(2)}):
        ENCODING.encode_row(row, "row")


@settings(max_examples=100, deadline=None)
@given(
    numbers=st.tuples(
        st.floats(-1e6, 1e6), st.floats(0, 100), st.floats(0, 1), st.floats(-0.4, 2.4), st.floats(0.6, 2.4)
    ),
    codes=st.tuples(*(st.integers(0, 2) for _ in range(2)), st.integers(0, 1), st.integers(0, 2)),
    dtypes=st.tuples(
        st.sampled_from(["float64", "float32", "int64", "Int64", "Float64", "object"]),
        st.sampled_from(["int64", "int8", "uint8", "float64", "Int64", "object", "float32"]),
        st.sampled_from(["bool", "int64", "boolean", "float64", "object"]),
        st.sampled_from(["str", "object", pd.CategoricalDtype(("low", "middle", "high"), ordered=True)]),
        st.sampled_from(["str", "object", "category", pd.CategoricalDtype(("school", "car", "home", "boat"))]),
        st.sampled_from(["int64", "int8", "float64", "Int64", "object", pd.CategoricalDtype((1, 2, 3), ordered=True)]),
        st.sampled_from(["float64", "object", "category"]),
        st.sampled_from(["bool", "boolean", "object", "category"]),
        st.sampled_from(["object", "category"]),
    ),
    index=st.sampled_from([None, ["p7"], [3]]),
)
def test_a_person_is_given_back_as_in_a_frame(numbers, codes, dtypes, index):
    encoding = Encoding(ENCODING.schema, tuple(pd.Series([], dtype=dtype).dtype for dtype in dtypes))
    encoding = dataclasses.replace(
        encoding,
        dtypes=tuple(
            pd.CategoricalDtype(column.levels) if dtype == "category" else known
            for column, dtype, known in zip(COLUMNS, dtypes, encoding.dtypes, strict=True)
        ),
    )
    point = np.zeros(encoding.dimensions)
    for name, number in zip(("income", "age", "owner", "grade", "rooms"), numbers, strict=True):
        point[encoding.places[name]] = number - (name == "rooms")
    for name, code in zip(("purpose", "size", "asked", "mixed"), codes, strict=True):
        point[encoding.places[name].start + code] = 1.0
    index = None if index is None else pd.Index(index)
    frame, row = encoding.decode(point[None], index), encoding.decode_row(point, index)
    pd.testing.assert_frame_equal(row.frame, frame)
    for name in frame.columns:
        assert type(row.values[name]) is type(frame[name].iloc[0])
        assert row.values[name] == frame[name].iloc[0]


def test_a_level_that_the_dtype_cannot_hold_matters_only_to_who_has_it():
    encoding = Encoding(Schema((Column("rooms", "ordinal", (1, 2, "many")),)), (np.dtype("int64"),))
    for _ in range(2):
        assert encoding.decode_row(np.array([1.0])).values == {"rooms": 2}
    with pytest.raises(ValueError, match="many"):
        encoding.decode_row(np.array([2.0]))


def test_advice_can_be_stored_and_changed():
    frame = pd.DataFrame({"hours": [1, 2, 3, 6, 7, 9], "passed": ["no", "no", "no", "yes", "yes", "yes"]})
    people = oar.Population.from_frame(frame, target="passed")
    advice = oar.cheapest(people, oar.NearestCentroid(), oar.Query(frame[["hours"]].iloc[1], goal="yes"))
    stored = pickle.loads(pickle.dumps(advice))  # before anybody has asked for frames
    noted = dataclasses.replace(advice, note="by hand")
    assert advice.row is advice.row
    assert list(advice.row.index) == [1]
    for other in (stored, noted, pickle.loads(pickle.dumps(advice))):
        pd.testing.assert_frame_equal(other.row, advice.row)
        pd.testing.assert_frame_equal(other.changes, advice.changes)
        assert (other.cost, other.status) == (advice.cost, advice.status)
    assert noted.note == "by hand"

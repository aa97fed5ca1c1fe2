"""JSON that every reader accepts, or an error that says where it would not be."""

import dataclasses
import json
import math

import numpy as np
import pytest

from oar.errors import DataError, Status
from oar.report.files.text_formats import as_plain, json_text, markdown_table
from oar_paper.figures.curves import spread


@dataclasses.dataclass
class Inner:
    values: np.ndarray
    name: str


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def test_everything_survives_the_way_through_json():
    value = {
        "inner": Inner(np.array([[1.5, -2.0], [0.1, 1e-300]]), "ε → δ"),
        "flags": np.array([True, False]),
        3: (np.int64(7), np.float64(0.1), None, Status.ACHIEVED),
        "empty": {},
        "none": [],
    }
    read = json.loads(json_text(value), parse_constant=refuse)
    assert read == {
        "inner": {"values": [[1.5, -2.0], [0.1, 1e-300]], "name": "ε → δ"},
        "flags": [True, False],
        "3": [7, 0.1, None, "achieved"],
        "empty": {},
        "none": [],
    }


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_what_json_cannot_say_is_refused_with_its_place(bad):
    with pytest.raises(DataError, match=r"results\.rows\[1\]\.values\[0\].*finite"):
        as_plain({"rows": [1, {"values": np.array([bad])}]})


def test_strange_objects_are_refused():
    with pytest.raises(DataError, match=r"results\.model.*object"):
        as_plain({"model": object()})


def test_spread_is_quantiles_over_cases():
    values = np.arange(5.0)[:, None] * np.array([1.0, 10.0])
    band = spread(values[::-1])
    np.testing.assert_allclose(
        [band.low, band.lower, band.median, band.upper, band.high], [[0, 0], [1, 10], [2, 20], [3, 30], [4, 40]]
    )


def test_bars_in_cells_do_not_break_tables():
    assert markdown_table(["a"], [["|x|"]]).splitlines()[2] == "| \\|x\\| |"

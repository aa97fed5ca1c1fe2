"""What the lowest versions are, without installing them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from .lowest import EXTRAS, FIRST, ROOT, lowest


def test_the_lowest_versions_are_those_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = dict(pin.split("==") for pin in lowest(project))
    assert {"numpy", "scipy", "pandas", "jax", "pyarrow", "dask"} <= pins.keys()
    assert pins["pandas"] == "2.2.2"  # the first that goes with NumPy 2
    assert pins["scikit-learn"] == "1.8"  # newton-cholesky, the audit's, converges there without a warning
    assert pins["jax"] == "0.9"  # jax.enable_x64 came with 0.8, and with 0.9 an optimum at infinity is noticed
    assert not any("[" in name for name in pins)
    assert all((ROOT / path).exists() for path in FIRST)


def test_a_range_that_cannot_be_tested_is_named():
    with pytest.raises(ValueError, match="numpy~=2"):
        lowest({"dependencies": ["numpy~=2"], "optional-dependencies": {extra: [] for extra in EXTRAS}})
    assert Path(ROOT / "Makefile").read_text().count("tests.campaigns.lowest") == 1

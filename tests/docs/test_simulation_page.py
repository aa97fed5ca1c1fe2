"""The page on worlds runs as it stands, and its tables are complete."""

import pytest
from support.pages import page, run

from oar.worlds.people.labels import POLICIES
from oar.worlds.records.table import COLUMNS

PAGE = page("simulation")


def test_the_examples_run_and_say_what_they_are_about() -> None:
    pytest.importorskip("jax")
    names = run(PAGE)
    assert list(names["table"].columns) == list(COLUMNS)
    assert [f"{share:.2f}" for share in names["kept"]] == ["1.00", "0.76", "0.00"]
    assert f"{names['true']:.2f}" == "1.00"
    assert len(names["mine"]) == 2
    assert len(names["advice"]) == 1 + 2 + 3


def test_every_column_and_label_policy_is_described() -> None:
    for name in COLUMNS:
        assert f"`{name}`" in PAGE
    for name in POLICIES:
        assert f'| `"{name}"` |' in PAGE

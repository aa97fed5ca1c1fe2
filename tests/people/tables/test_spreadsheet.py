"""moves.csv: no text in it is a formula, and every text can be had back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oar.people.tables.spreadsheet import neutral, restored

SIGNS = "=+-@＝＋－＠"


@given(st.text() | st.text(alphabet=f"'{SIGNS} \t\n\u00a0\u3000a"))
def test_every_text_comes_back(text):
    assert restored(neutral(text)) == text


@given(st.text(alphabet=" \t\u00a0\u3000", max_size=3), st.sampled_from(SIGNS), st.text())
def test_no_text_is_a_formula(before, sign, after):
    assert neutral(before + sign + after).startswith("'")


@pytest.mark.parametrize("text", ["'=1", "''tis", "'tis", "a=b", "", "3 - 2"])
def test_apostrophes_are_counted(text):
    assert restored(neutral(text)) == text
    assert neutral("a=b") == "a=b"

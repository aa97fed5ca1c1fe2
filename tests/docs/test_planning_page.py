"""The page on time: the Python of its section on planning runs as it stands, from top to bottom."""

import pytest
from support.pages import run, section

SECTION = section("online", "Planning over time")


def test_the_examples_say_what_they_are_about():
    names = run(SECTION)
    result, again, once = (names[name] for name in ("result", "again", "once"))
    assert result.success
    assert result.exact
    assert result.rounds["effort"].idxmax() == result.rounds["leverage"].idxmax() == 4
    assert again.loss < once.loss - 0.01
    assert [sum(followed.rounds["success"]) for followed in (again, once)] == [4, 2]
    assert not again.rounds["success"].iloc[-1]
    assert again.loss == pytest.approx(again.audit.loss)

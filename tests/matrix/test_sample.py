"""A sample of the matrix on every run: cells that take little time, of all kinds of answers."""

import pytest

import oar
from matrix.kinds import KINDS
from matrix.page import page
from matrix.running import ANSWERED, LATE, REFUSED, outcomes
from matrix.verbs import ORDER, VERBS

SAMPLE = {
    "nearest centroid": ("collective", "minimal_budget", "minimal_coalition", "break_even", "power", "card", "respond"),
    "ridge regression": ("collective", "leverage", "collateral", "plot", "notebook view"),
    "Parquet, centroids": ("collective", "individual"),
    "rounds, centroids": ("collective", "follow"),
}


@pytest.mark.parametrize("kind", SAMPLE)
def test_a_sample_of_cells_answers(kind):
    found = list(outcomes(kind, SAMPLE[kind], limit=60))
    assert [(one.verb, one.said) for one in found if one.word != ANSWERED] == []


def test_every_verb_has_its_column():
    assert set(ORDER) == set(VERBS)
    assert len(KINDS) == 26


def test_what_is_not_answered_says_why(monkeypatch):
    monkeypatch.setitem(VERBS, "follow", lambda cell: oar.follow(cell.problem.people, None))
    (found,) = outcomes("nearest centroid", ["follow"], limit=60)
    assert found.word == REFUSED
    assert "must be an oar.Problem" in found.said


def test_the_page_has_a_mark_for_each_cell_and_every_reason():
    rows = [
        ("relabel", "credit", ANSWERED, 1.0, "Credit(…)"),
        ("relabel", "follow", REFUSED, 0.1, "problem: must be `one` over rounds."),
        ("withhold", "follow", REFUSED, 0.1, "problem: must be `one` over rounds."),
        ("withhold", "credit", LATE, 45.0, "no answer in 45 s"),
    ]
    text = page(rows, 45.0)
    lines = text.splitlines()
    assert "1 of 4 cells are answered" in text
    assert "|  | `credit` | `follow` |" in lines
    assert "| relabel | ✓ | – |" in lines
    assert "| withhold | … | – |" in lines
    assert lines.count("* **follow** of relabel, withhold: problem: must be \\`one\\` over rounds.") == 1
    assert "✗" not in text

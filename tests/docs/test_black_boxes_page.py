"""The page on black boxes: its Python runs as it stands, from top to bottom, and its tables name every setting."""

import dataclasses

import pytest
from support.pages import page, run

import oar

PAGE = page("black_boxes")


@pytest.fixture(scope="module")
def names():
    return run(PAGE)


def test_the_examples_say_what_they_are_about(names):
    result, guessed, relabelled = (names[name] for name in ("result", "guessed", "relabelled"))
    assert result.success
    assert result.audit.rate.refits == 10
    assert result.proposal.calls.fits <= 40
    assert guessed.proposal.calls.fits == 0
    assert guessed.loss < guessed.loss_before
    assert not relabelled.audit.violations
    assert relabelled.proposal.calls.fits <= 30
    assert len(names["table"]) == 2 * 2 * 3
    assert len(names["figure"].axes) == 2


def test_every_setting_is_in_a_table():
    for settings in (oar.solvers.Surrogate, oar.solvers.DirectSearch):
        for field in dataclasses.fields(settings):
            assert f"| `{field.name}` |" in PAGE

"""Progress is for terminals, and does not change answers."""

import re
import time

import numpy as np
import pytest

import oar
from oar import progress
from oar.cli.terminal import stages
from oar.models import SoftmaxRegression
from oar.progress import know, step_line, telling


def problem():
    rng = np.random.default_rng(0)
    labels = np.arange(20) % 2
    features = rng.normal(size=(20, 2)) + labels[:, None]
    return oar.Problem(
        oar.Population(features, labels), SoftmaxRegression(), oar.Query([0.0, 0.0], 1), oar.Perturb(0.2)
    )


def test_silent_where_there_is_no_terminal(capsys):
    silent = oar.collective(problem())
    assert capsys.readouterr() == ("", "")
    shown = oar.collective(problem(), progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "collective: step 1, goal loss" in err
    np.testing.assert_array_equal(shown.plan.moves(), silent.plan.moves())
    oar.joint(problem(), progress=True)
    assert "joint: step" in capsys.readouterr().err


def test_short_work_shows_nothing_even_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with step_line("work", None) as on_step:
        on_step(1, 0.5, 0.1)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("oar.progress.QUIET", 0.0)
    with step_line("work", None) as on_step:
        on_step(1, 0.5, 0.1)
    assert "work: step 1, goal loss 0.5, gap 1.0e-01" in capsys.readouterr().err


def test_what_progress_must_be():
    with pytest.raises(oar.errors.DataError, match="progress: must be True, False, None"):
        oar.collective(problem(), progress="bar")


@pytest.mark.parametrize("verb", [oar.collective, oar.joint, oar.minimal_budget, oar.minimal_coalition])
def test_a_listener_of_ones_own_hears_every_step(verb, capsys):
    heard = []
    verb(problem(), progress=lambda number, loss, gap: heard.append((number, loss, gap)))
    assert len(heard) > 2
    assert all(np.isfinite(loss) and gap >= 0 for _, loss, gap in heard)
    assert capsys.readouterr() == ("", "")


def test_a_long_command_says_on_stderr_what_it_does_where_that_is_no_terminal(monkeypatch, capsys):
    monkeypatch.setattr("oar.cli.terminal.EVERY", 0.05)
    with stages() as stage:
        stage("how many?")
        time.sleep(0.3)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert 1 <= len(lines) <= 6
    assert all(re.fullmatch(r"how many\? … \(\d+ s\)", line) for line in lines)
    monkeypatch.setattr("oar.cli.terminal.EVERY", 60.0)
    with stages() as stage:
        stage("reading")
    assert capsys.readouterr() == ("", "")


def test_what_is_being_tried_is_said_in_words(capsys):
    oar.minimal_budget(problem(), progress=True)
    shown = re.findall(r"minimal budget: trying a budget of ([\d.]+) for 20 members; step", capsys.readouterr().err)
    assert len(set(shown)) > 1
    assert progress.being_tried() == []
    with progress.trying("one"):
        with progress.trying("another"):
            assert progress.being_tried() == ["trying another"]
        assert progress.being_tried() == ["trying one"]


def test_what_one_search_knows_is_not_said_of_the_next(capsys):
    know("at most 34 members")  # nobody listens
    with telling("first"):
        know("at most 3 members")
        with step_line("first", True) as on_step:
            on_step(1, 0.5, 0.1)
    with step_line("second", True) as on_step:
        on_step(1, 0.5, 0.1)
    said = capsys.readouterr().err
    assert "first: at most 3 members so far; step 1" in said
    assert "second: step 1" in said
    assert "34" not in said

"""Alterations of a plan's folder are named by its audit."""

from .tampering import main


def test_alterations_are_named(capsys):
    assert main(["--seed", "7", "--number", "60"]) == 0
    assert "tampering: tried 60, failed 0" in capsys.readouterr().out

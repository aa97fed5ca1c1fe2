"""Alterations of a plan's folder are named by its audit."""

from .tampering import main


def test_alterations_are_named(capsys):
    assert main(["--seed", "7", "--number", "14"]) == 0
    assert "tampering: tried 14, failed 0" in capsys.readouterr().out

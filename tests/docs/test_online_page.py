"""The page on time: the Python of its section on update rules runs as it stands, and prints what it says."""

import re

from support.pages import run, section

import oar
from oar import online

SECTION = section("online", "Update rules")


def test_the_examples_run_and_print_what_they_say(capsys):
    names = run(SECTION)
    printed = capsys.readouterr().out
    assert "Stream(3 rounds, 90 people × 2, 30 before)" in printed
    assert "decaying steps: all 13 checks passed." in printed
    assert names["back"].gradient.shape == (120, 2)
    assert isinstance(names["problem"].model, oar.SoftmaxRegression)


def test_every_rule_is_there():
    table = re.findall(r"^\| `(\w+)\(", SECTION, flags=re.MULTILINE)
    rules = [name for name in online.__all__ if hasattr(getattr(online, name), "pull_back") and name != "Rule"]
    assert sorted(table) == sorted(rules)

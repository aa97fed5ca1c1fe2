"""The page on tables: its Python runs as it stands, and prints what it says it prints."""

import re

import pytest
from support.pages import blocks, page

import oar

PAGE = page("tables")


def run(fence, names, capsys):
    """Run the blocks of one fence in order; what comments beside or below a print promise must be printed."""
    for block in blocks(PAGE, fence):
        exec(block, names)
        printed = capsys.readouterr().out
        for promised in re.findall(r"print\(\w+\) +# (.+)", block):
            assert promised in printed
        for lines in re.findall(r"^print\(.*\)\n((?:# .*\n)+)", block, flags=re.MULTILINE):
            assert re.sub("^# ", "", lines, flags=re.MULTILINE) in printed
    return names


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_examples_run_and_print_what_they_say(workplace, capsys):
    names = run("python", {}, capsys)
    assert names["back"].to_dict("records") == [names["someone"]]
    assert names["loans"].population.size == 1000
    assert "grade" in (workplace / "schema.toml").read_text()


def test_the_example_of_the_census_runs(adult_data, monkeypatch, capsys):
    monkeypatch.chdir(adult_data.parent)
    names = run("py", {"oar": oar}, capsys)
    assert names["weighted"].population.size == 48_842
    assert names["weighted"].population.weights.max() == 1_490_400


def test_every_kind_and_every_choice_is_on_the_page():
    from oar.people.tables.missing import CHOICES
    from oar.people.tables.schema import KINDS

    for kind in KINDS:
        assert f"| `{kind}` |" in PAGE
    for choice in CHOICES:
        assert f'| `"{choice}"`' in PAGE

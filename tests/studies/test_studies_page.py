"""The page on studies: its Python runs as it stands, from top to bottom, and its TOML can be read."""

import inspect
import re

import pytest
from command_worlds import people
from study_worlds import ROOT

import oar
from oar.cli.study_file import OPTIONS, read_study

PAGE = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    found: dict = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("page"))
        for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
            exec(block, found)
    return found


def test_the_examples_say_what_they_are_about(names):
    assert len(names["table"]) == 300
    assert (names["table"]["status"] == "done").all()
    assert 0 < names["table"]["success"].mean() < 1
    assert names["few"].table()["query"].tolist() == ["50%", "75%"]


def test_every_axis_is_in_the_table():
    for name in ("budgets", "participation", "queries", "models", "seeds"):
        assert name in inspect.signature(oar.study).parameters
        assert f"| `{name}` |" in PAGE


def test_the_toml_can_be_read(tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    (tmp_path / "study.toml").write_text(text)
    (tmp_path / "limits.toml").write_text("[columns.age]\nimmutable = true\n")
    frame = people(60).drop(columns="town")
    frame.to_csv(tmp_path / "people.csv", index=False)
    frame.drop(columns="approved").iloc[[0]].to_csv(tmp_path / "asker.csv", index=False)
    said = read_study(tmp_path / "study.toml")
    assert said.problem.goal_label == "yes"
    assert list(said.arguments["queries"]) == ["17", "23", "asker.csv"]
    assert list(said.arguments["models"]) == ["softmax", "naive-bayes"]


def test_a_study_can_say_whatever_a_plan_can():
    from oar.cli.options import about_people
    from oar.cli.study_file import CALLED

    assert {CALLED.get(name, name) for name in OPTIONS} == set(inspect.signature(about_people).parameters)

"""The page on studies: its Python runs as it stands, from top to bottom, and so does its TOML."""

import inspect
import re

import pytest
from support.commands import people
from support.pages import blocks, page, run

import oar
from oar.cli.inputs.study_file import OPTIONS, read_study
from oar.studies.rows import FACTS

PAGE = page("studies")


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("page"))
        return run(PAGE)


def test_the_examples_say_what_they_are_about(names):
    assert len(names["table"]) == 300
    assert (names["table"]["status"] == "done").all()
    assert 0 < names["table"]["success"].mean() < 1
    assert names["few"].table()["query"].tolist() == ["50%", "75%"]


def test_every_axis_is_in_the_table():
    for name in ("budgets", "participation", "queries", "models", "seeds"):
        assert name in inspect.signature(oar.study).parameters
        assert f"| `{name}` |" in PAGE


def test_the_toml_can_be_run_as_it_stands(tmp_path):
    (text,) = blocks(PAGE, "toml")
    (tmp_path / "study.toml").write_text(text)
    said = read_study(tmp_path / "study.toml")
    assert said.problem.goal_label == "good"
    assert list(said.arguments["queries"]) == ["1", "4"]
    assert list(said.arguments["models"]) == ["softmax", "naive-bayes"]
    fewer = {"budgets": said.axes["budgets"][:1], "participation": said.axes["participation"][-2:-1]}
    found = oar.study(said.problem, **(said.arguments | fewer), store=tmp_path / "study.db", workers=1)
    assert found.counts == {"pending": 0, "running": 0, "done": 8, "failed": 0}


def test_the_toml_may_name_files_of_ones_own(tmp_path):
    own = re.search(r'your own: (data = "people.csv"), (target = "approved"), (limits = "limits.toml")', PAGE)
    (tmp_path / "study.toml").write_text("\n".join([*own.groups(), 'goal = "yes"\n[axes]\nbudgets = [0.5]\n']))
    with pytest.raises(
        oar.errors.StorageError, match="limits: must be a TOML file, got 'limits.toml', which is not there"
    ):
        read_study(tmp_path / "study.toml")
    (tmp_path / "limits.toml").write_text("[columns.age]\nimmutable = true\n")
    with (tmp_path / "study.toml").open("a") as file:
        file.write('queries = [17, 23, "asker.csv"]\n')
    frame = people(60).drop(columns="town")
    frame.to_csv(tmp_path / "people.csv", index=False)
    frame.drop(columns="approved").iloc[[0]].to_csv(tmp_path / "asker.csv", index=False)
    said = read_study(tmp_path / "study.toml")
    assert said.problem.goal_label == "yes"
    assert list(said.arguments["queries"]) == ["17", "23", "asker.csv"]


def test_every_column_is_explained():
    for name in ("converged", "residual", "tie", "gap"):
        assert name in FACTS
        assert re.search(rf"^\| .*`{name}`", PAGE, flags=re.MULTILINE)


def test_a_study_can_say_whatever_a_plan_can():
    from oar.cli.inputs.study_file import CALLED, FILE_OPTIONS
    from oar.cli.options import about_people

    known = set(inspect.signature(about_people).parameters) - {"written"} | set(FILE_OPTIONS)
    assert {CALLED.get(name, name) for name in OPTIONS} == known

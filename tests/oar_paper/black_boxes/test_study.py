"""The study of models seen from outside: every plan is audited alike, and the files say what was found."""

import dataclasses
import json

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("jax")

from support.figure_looks import assert_no_text_covers_another, assert_nothing_is_cut_off

from oar.cli import app
from oar.report.files.text_formats import json_text
from oar_paper.black_boxes.cases import german_case, mnist_case
from oar_paper.black_boxes.drawing import draw_outside
from oar_paper.black_boxes.files import study_outside
from oar_paper.black_boxes.study import WAYS, Attempt, Cell, Outside, find_outside, outside_settings, outside_stages
from oar_paper.black_boxes.summary import kept_table, outside_summary, outside_table

TINY = dataclasses.replace(outside_settings(quick=True), size=60, refits=4, audits=4, models=("logistic", "knn"))


@pytest.fixture(scope="module")
def found():
    heard = []
    whole = find_outside(TINY, heard.append)
    assert heard == list(range(len(outside_stages(TINY))))
    return whole


def test_every_way_is_tried_and_audited_from_the_same_start(found):
    for cell in found.cells:
        expected = set(WAYS) - ({"white box"} if (cell.model, cell.data) == ("knn", "german-credit") else set())
        assert set(cell.attempts) == expected
        tried = [one for way in cell.attempts.values() for one in way]
        assert not any(one.failure for one in tried)
        assert np.ptp([one.before for one in tried]) < 1e-9
        assert all(0 <= one.trainings <= TINY.refits for one in tried)
        assert all(one.trainings == 0 for one in tried if "surrogates" in one.way or one.way == "white box")


def test_whoever_knows_the_model_does_best_where_that_is_exact_or_convex(found):
    for cell in found.cells:
        if "white box" in cell.attempts:
            assert all(cell.fall("white box") >= cell.fall(way) - 1e-3 for way in WAYS[1:])


def test_who_asks_is_refused_and_not_among_the_people():
    case = german_case(80, 3, seed=1)
    assert len(case.queries) == 3
    asked = {query.features.name for query in case.queries}
    assert not asked & (set(case.people.index) | set(case.public.index))
    assert not set(case.people.index) & set(case.public.index)
    assert [query.goal for query in mnist_case(50, 2, 0).queries] == [1, 7]


def test_what_is_left_is_a_share_of_the_white_boxs_fall():
    def one(way, after, success=False):
        return Attempt("d", "m", way, 0, before=2.0, after=after, success=success)

    ways = {"white box": (one("white box", 0.0, True),), "search": (one("search", 1.5),)}
    cell = Cell("d", "m", ways | {"both": (Attempt("d", "m", "both", 0, failure="no reason"),)})
    assert (cell.kept("search"), cell.successes("white box"), cell.already) == (0.25, 1, 0)
    assert np.isnan(cell.fall("both"))
    assert np.isnan(cell.fall("surrogates"))
    whole = Outside(TINY, {"d": "Data", "m": "Model"}, [cell])
    assert "| Data | Model | 2.00 (0) | 0.00 (1) | – | – | 1.50 (0) | no plan |" in outside_table(whole)
    assert "25 %" in kept_table(whole)
    assert "Without a plan: no reason" in outside_summary(whole)


def test_the_picture_shows_all_of_it(found):
    figure = draw_outside(found)
    assert_nothing_is_cut_off(figure)
    assert_no_text_covers_another(figure)


def test_files_are_whole_and_the_same_again(found, tmp_path):
    study_outside(tmp_path / "out", dataclasses.replace(TINY, models=("logistic",)))
    names = {file.name for file in (tmp_path / "out").iterdir()}
    assert names == {"outside.png", "outside.svg", "outside.pdf", "summary.md", "table.csv", "results.json"}
    told = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    again = json.loads(json_text([one for one in found.attempts if one.model == "logistic"]))
    assert told["attempts"] == again  # what was found before, in the same process with the same seed
    assert {one["way"] for one in told["attempts"]} == set(WAYS)
    assert "QUICK RUN" in (tmp_path / "out" / "summary.md").read_text(encoding="utf-8")


def test_the_command_says_what_it_does_and_refuses_what_cannot_be(tmp_path):
    shown = CliRunner().invoke(app, ["outside", "--help"])
    assert "Example: oar outside --out outside" in " ".join(shown.output.split())
    (tmp_path / "file").write_text("here", encoding="utf-8")
    refused = CliRunner().invoke(app, ["outside", "--quick", "--out", str(tmp_path / "file")])
    assert refused.exit_code != 0

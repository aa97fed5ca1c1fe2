"""What a study shows: tables, exports, the phase diagram, and how far it has come."""

import importlib
import io

import numpy as np
import pandas as pd
import pytest
from support.study_problems import QUERIES, QUICK, problem, run_small

import oar
from oar.studies.phase_diagram import HALF
from oar.studies.store.database import Store


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return oar.study(
        problem(),
        budgets=[0.2, 0.5, 0.8, 1.1],
        participation=[0.25, 0.5, 1.0],
        queries=QUERIES,
        seeds=[0, 1, 2],
        models={"centroid": oar.NearestCentroid(), "again": oar.NearestCentroid()},
        store=tmp_path_factory.mktemp("study") / "study.db",
    )


def test_the_table_is_tidy(study):
    table = study.table()
    assert len(table) == 4 * 3 * 2 * 3 * 2
    assert not table.duplicated(["model", "query", "budget", "participation", "seed"]).any()
    assert (table["goal"] == "'yes'").all()
    assert table["success"].dtype == "boolean"
    assert table["loss"].dtype == np.float64
    assert "seconds" not in table
    assert (study.table(timing=True)["seconds"] > 0).all()


def test_it_is_written_whole_and_read_back_to_the_last_bit(study, tmp_path):
    study.to_parquet(tmp_path / "cells.parquet")
    study.to_csv(tmp_path / "cells.csv")
    table = study.table()
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "cells.parquet"), table, check_dtype=False)
    exactly = {"float_precision": "round_trip"} if pd.__version__ < "3" else {}
    read = pd.read_csv(tmp_path / "cells.csv", **exactly)
    for name in ("loss", "before", "bound", "margin"):
        assert (read[name].to_numpy() == table[name].to_numpy()).all()
    assert (read["success"].to_numpy() == table["success"].to_numpy(bool)).all()
    with pytest.raises(oar.errors.StorageError):
        study.to_csv(tmp_path / "cells.csv" / "nowhere.csv")


def test_it_is_opened_without_its_problem(study):
    again = oar.results.Study.open(str(study.path))
    assert again.table().equals(study.table())
    assert repr(again) == "Study(study.db: 144 done)"
    assert "144 done" in again._repr_html_()


def test_rates_are_shares_over_queries_and_seeds(study):
    rates, table = study.success_rate(), study.table()
    for row in rates.itertuples():
        same = (table["model"] == row.model) & (table["participation"] == row.participation)
        successes = table.loc[same & (table["budget"] == row.budget), "success"]
        assert row.cells == len(successes) == 6
        assert row.rate == successes.sum() / 6
    assert set(rates["rate"]) >= {0.0, 1.0}


def test_the_phase_diagram_shows_every_rate(study, tmp_path):
    figure = study.plot()
    first, second = [axes for axes in figure.axes if axes.get_title()]
    assert [first.get_title(), second.get_title()] == ["centroid", "again"]
    shown = first.images[0].get_array()
    rates = study.success_rate()
    rates = rates[rates["model"] == "centroid"].pivot(index="participation", columns="budget", values="rate")
    assert np.array_equal(shown, rates.to_numpy())
    assert [tick.get_text() for tick in first.get_xticklabels()] == ["0.2", "0.5", "0.8", "1.1"]
    assert [tick.get_text() for tick in first.get_yticklabels()] == ["25 %", "50 %", "100 %"]
    high = rates.to_numpy() >= HALF
    assert len(first.lines) == (high[1:] != high[:-1]).sum() + (high[:, 1:] != high[:, :-1]).sum()
    assert "2 queries and 3 draws" in figure.get_suptitle()
    for name in ("phase.png", "phase.svg", "phase.pdf"):
        study.figure(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 5_000
    with pytest.raises(oar.errors.OptionError, match="must be one of '.png'"):
        study.figure(tmp_path / "phase.gif")


def test_what_is_not_done_is_hatched_and_told(tmp_path):
    run_small(tmp_path / "study.db", workers=1)
    with Store(tmp_path / "study.db") as store:
        store._connection.execute("UPDATE cells SET status = 'pending' WHERE budget = 0.1")
        store._connection.execute("UPDATE cells SET status = 'failed', error = 'x' WHERE budget = 0.2 AND seed = 1")
    half = oar.results.Study.open(tmp_path / "study.db")
    figure = half.plot()
    assert np.ma.count_masked(figure.axes[0].images[0].get_array()) == 2
    assert figure.axes[0].patches
    told = " ".join(figure.get_supxlabel().split())
    assert "hatched: not asked for, failed or not done; 2 cells failed and are left out" in told
    assert "4 of 16 cells are not done yet" in told


def test_squares_with_cells_to_come_are_hatched_over_their_colour(tmp_path):
    run_small(tmp_path / "study.db", workers=1)
    whole = oar.results.Study.open(tmp_path / "study.db").plot().axes[0]
    assert not whole.patches
    with Store(tmp_path / "study.db") as store:
        store._connection.execute("UPDATE cells SET status = 'pending' WHERE budget = 0.2 AND seed = 1")
    half = oar.results.Study.open(tmp_path / "study.db").plot().axes[0]
    assert not np.ma.count_masked(half.images[0].get_array())
    column = [tick.get_text() for tick in half.get_xticklabels()].index("0.2")
    assert len(half.patches) == len(half.get_yticklabels())
    assert {patch.get_xy()[:, 0].mean().round() for patch in half.patches} == {column}


def test_one_without_answers_cannot_be_drawn(tmp_path):
    run_small(tmp_path / "study.db", workers=1)
    with Store(tmp_path / "study.db") as store:
        store._connection.execute("UPDATE cells SET status = 'pending'")
    with pytest.raises(oar.errors.DataError, match="run it first"):
        oar.results.Study.open(tmp_path / "study.db").plot()


def test_cells_without_budget_or_share_are_drawn_too(tmp_path):
    people = problem().people
    action = oar.Withhold(most=2, participants=np.arange(60) < 40)
    asked = oar.Problem(people, oar.NearestCentroid(), QUERIES["near"], action)
    found = oar.study(asked, store=tmp_path / "study.db")
    assert found.table()[["budget", "participation"]].isna().all(axis=None)
    assert [tick.get_text() for tick in found.plot().axes[0].get_yticklabels()] == ["as given"]


def test_progress_counts_cells_and_tells_what_is_known(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.import_module("oar.studies.study"), "BETWEEN", 0.0)
    said = io.StringIO()
    monkeypatch.setattr("sys.stderr", said)
    models = {"one": oar.SoftmaxRegression(), "two": oar.SoftmaxRegression(l2=0.1)}
    axes = {"budgets": [0.1, 0.2], "models": models}
    oar.study(problem(), **axes, solver=QUICK, store=tmp_path / "study.db", progress=True, workers=1)
    lines = said.getvalue().splitlines()
    assert lines[0].startswith("study: 0 of 4 cells; time left not known so far; trying ")
    assert all(f"budget 0.{place}" in "".join(lines) for place in (1, 2))
    lines = [line for line in lines if "trying" not in line]
    assert len(lines) == 4
    assert lines[0].startswith("study: 1 of 4 cells;")
    assert "so far, 2 cells not known" in lines[0]
    assert lines[2].startswith("study: 3 of 4 cells; about ")
    said.truncate(0)
    oar.study(problem(), **axes, solver=QUICK, store=tmp_path / "study.db", progress=False)
    assert said.getvalue() == ""


def test_other_processes_join_once_that_pays(tmp_path, monkeypatch):
    from oar.studies.executors import executors, running

    started = []

    class Spied(executors.LocalExecutor):
        def __init__(self, work, number):
            super().__init__(work)
            started.append(number)

    monkeypatch.setattr(running, "ProcessExecutor", Spied)
    monkeypatch.setattr(running, "cores", lambda: 3)
    run_small(tmp_path / "short.db")
    assert started == []
    monkeypatch.setattr(running, "ALONE", 0.0)
    monkeypatch.setattr(running, "WORTH", 0.0)
    run_small(tmp_path / "long.db")
    assert started == [3]


def test_a_csv_file_holds_no_formulas(tmp_path):
    query = '=HYPERLINK("http://example.org","open me")'
    values = oar.Population([[0.0], [1.0], [2.0]], [-3.0, -2.0, -1.5])
    asked = oar.Problem(values, oar.models.Ridge(), oar.Query([1.0], goal=oar.Between(-9.0, -2.5)), oar.Perturb(0.1))
    study = oar.study(asked, queries={query: asked.query}, store=tmp_path / "values.db", workers=1)
    study.to_csv(tmp_path / "values.csv")
    read = pd.read_csv(tmp_path / "values.csv")
    assert read["query"].tolist() == [f"'{query}"]
    assert read["prediction"].tolist() == [float(study.table()["prediction"].iloc[0])]  # a number is no formula
    assert read["prediction"].iloc[0] < 0

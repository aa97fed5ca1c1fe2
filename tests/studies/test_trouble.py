"""What a study does where something goes wrong that is no cell's own fault: it ends, and the next run goes on."""

import os

import numpy as np
import pandas as pd
import pytest
from support.study_problems import QUICK, people, problem, run_small

import oar
from oar.errors import EngineError
from oar.studies import centroids, work
from oar.studies.centroids import Classes


def written(path, shift=0.0):
    everyone = people()
    frame = pd.DataFrame(everyone.features + shift, columns=["x", "y"]).assign(kind=everyone.labels)
    frame.to_parquet(path)
    return path


def test_a_solver_that_is_none_leaves_no_store(tmp_path):
    with pytest.raises(oar.errors.OptionError, match="solver: must be one of 'auto'.*got 'sgd'"):
        oar.study(problem(), budgets=[0.1], solver="sgd", store=tmp_path / "study.db")
    assert not list(tmp_path.iterdir())


def test_a_store_without_any_answer_is_free_for_another_problem(tmp_path):
    with pytest.raises(oar.errors.OptionError, match="solver: 'exact' does not apply here"):
        oar.study(problem(oar.SoftmaxRegression()), budgets=[0.1, 0.2], solver="exact", store=tmp_path / "study.db")
    found = oar.study(problem(oar.SoftmaxRegression()), budgets=[0.1], solver=QUICK, store=tmp_path / "study.db")
    assert found.counts == {"pending": 0, "running": 0, "done": 1, "failed": 0}
    with pytest.raises(oar.errors.StorageError, match="differs in solver"):
        oar.study(problem(oar.SoftmaxRegression()), budgets=[0.1], store=tmp_path / "study.db")


def test_a_lost_engine_ends_the_study_and_fails_no_cell(tmp_path, monkeypatch):
    answer, asked = work.collective, []

    def lost(question, **options):
        asked.append(question)
        if len(asked) == 3:
            raise EngineError("engine: the scheduler is gone")
        return answer(question, **options)

    with monkeypatch.context() as patch:
        patch.setattr(work, "collective", lost)
        with pytest.raises(EngineError, match="the scheduler is gone"):
            run_small(tmp_path / "study.db", workers=1)
    kept = oar.results.Study.open(tmp_path / "study.db").counts
    assert kept["failed"] == kept["running"] == 0
    assert 0 < kept["done"] < 16
    whole = run_small(tmp_path / "whole.db", workers=1)
    assert run_small(tmp_path / "study.db", workers=1).table().equals(whole.table())


@pytest.mark.parametrize("other", [0.5, None])
def test_files_that_change_under_way_end_the_study_and_fail_no_cell(tmp_path, monkeypatch, other):
    path, answer, seen = written(tmp_path / "people.parquet"), work.collective, []
    if other is not None:
        written(tmp_path / "other.parquet", other)

    def meddled(question, **options):
        seen.append(question)
        if len(seen) == 2 and other is not None:
            os.replace(tmp_path / "other.parquet", path)
        elif len(seen) == 2:
            path.rename(tmp_path / "away.parquet")
        return answer(question, **options)

    monkeypatch.setattr(work, "collective", meddled)
    asked = problem(oar.SoftmaxRegression(), people=oar.Population.from_parquet(path, "kind"))
    budgets = [0.1, 0.2, 0.3, 0.4]
    with pytest.raises(oar.errors.StorageError, match="must stay as they are while a study runs"):
        oar.study(asked, budgets=budgets, solver=QUICK, store=tmp_path / "study.db", workers=1)
    assert oar.results.Study.open(tmp_path / "study.db").counts == {"pending": 3, "running": 0, "done": 1, "failed": 0}
    if other is None:
        (tmp_path / "away.parquet").rename(path)
        asked = problem(oar.SoftmaxRegression(), people=oar.Population.from_parquet(path, "kind"))
        found = oar.study(asked, budgets=budgets, solver=QUICK, store=tmp_path / "study.db", workers=1)
        assert found.counts["done"] == 4


def test_people_in_memory_and_in_files_are_not_mixed(tmp_path):
    path = written(tmp_path / "people.parquet")
    frame = pd.read_parquet(path)
    whole = problem(people=oar.Population(frame[["x", "y"]], frame["kind"]))
    oar.study(whole, budgets=[0.1], store=tmp_path / "study.db")
    parts = problem(people=oar.Population.from_parquet(path, "kind"))
    with pytest.raises(oar.errors.StorageError, match="differs in people"):
        oar.study(parts, budgets=[0.1, 0.2], store=tmp_path / "study.db")


def test_seeds_are_for_draws_where_a_model_has_no_use_for_them(tmp_path):
    found = oar.study(
        problem(oar.models.PrototypeNetwork(), people=people(weights=np.linspace(0.5, 2.0, 60))),
        participation=[0.5],
        seeds=[0, 1],
        solver=QUICK,
        store=tmp_path / "study.db",
    )
    assert found.counts["done"] == 2
    assert found.table()["loss"].nunique() == 2


def test_seeds_are_drawn_a_roomful_at_a_time(monkeypatch):
    everyone = people(weights=np.linspace(0, 2, 60))
    draws = [(share, seed) for share in (0.3, 0.7, 1.0) for seed in range(5)]
    once = Classes(everyone, draws)
    walks, chunks = [], type(everyone).chunks
    monkeypatch.setattr(type(everyone), "chunks", lambda self, *rows: walks.append(1) or chunks(self, *rows))
    monkeypatch.setattr(centroids, "ROOM", 150)  # two seeds
    again = Classes(everyone, draws)
    assert again._ranks.cache_info().currsize == 2
    assert np.array_equal(once._counts, again._counts)
    assert np.array_equal(once._weights, again._weights)
    assert np.array_equal(once._sums, again._sums)
    assert len(walks) >= 3


def test_factors_are_called_so(tmp_path):
    own = oar.study(problem(budget=np.linspace(0.1, 1, 60)), budgets=[0.5, 1.0], store=tmp_path / "own.db")
    common = oar.study(problem(), budgets=[0.5, 1.0], store=tmp_path / "common.db")
    assert [study.plot().axes[0].get_xlabel() for study in (own, common)] == ["factor on everyone's budget", "budget"]


def test_a_table_keeps_to_its_ending(tmp_path):
    study = oar.study(problem(), budgets=[0.5], store=tmp_path / "study.db")
    with pytest.raises(oar.errors.OptionError, match="to_parquet.*cells.csv"):
        study.to_parquet(tmp_path / "cells.csv")
    with pytest.raises(oar.errors.OptionError, match="to_csv.*cells.parquet"):
        study.to_csv(tmp_path / "cells.parquet")

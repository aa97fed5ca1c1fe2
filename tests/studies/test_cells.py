"""Cells: grids and lists, what is left out, and what cannot be."""

import json

import numpy as np
import pytest
from support.study_problems import QUERIES, QUICK, people, problem

import oar
from oar.studies.cells import AXES, Cell


def keys(study):
    return [tuple(row) for row in study.table()[list(AXES)].itertuples(index=False)]


def test_a_key_is_canonical_json():
    one = Cell("m", "q", 0.1, 1.0, 3)
    assert json.loads(one.key) == {"model": "m", "query": "q", "budget": 0.1, "participation": 1.0, "seed": 3}
    assert one.key == Cell("m", "q", float(np.float64(0.1)), 1.0, 3).key


def test_a_grid_is_every_combination_in_a_stable_order(tmp_path):
    found = oar.study(
        problem(),
        budgets=[0.6, 0.2],
        participation=np.array([1.0, 0.5]),
        queries=QUERIES,
        seeds=range(2),
        store=tmp_path / "study.db",
    )
    expected = [
        ("nearest-centroid", query, budget, share, seed)
        for query in QUERIES
        for share in (0.5, 1.0)
        for budget in (0.2, 0.6)
        for seed in (0, 1)
    ]
    assert keys(found) == expected


def test_axes_that_are_left_out_have_the_problems_own_values(tmp_path):
    asked = problem(budget=0.7, participants=0.25, seed=9)
    found = oar.study(asked, store=tmp_path / "study.db").table()
    assert len(found) == 1
    row = found.iloc[0]
    assert (row.model, row.query, row.budget, row.participation) == ("nearest-centroid", "0", 0.7, 0.25)
    assert found["seed"].isna().all()
    assert row.loss == pytest.approx(oar.collective(asked).loss, rel=1e-12)


def test_a_list_of_cells_stands_in_place_of_a_grid(tmp_path):
    cells = [{"budget": 0.2, "query": "far"}, {"query": "near", "participation": 0.5, "seed": 4}]
    found = oar.study(problem(), queries=QUERIES, cells=cells, store=tmp_path / "study.db")
    assert [row[1:4] for row in keys(found)] == [("near", 0.5, 0.5), ("far", 0.2, 1.0)]


def test_people_with_their_own_budgets_have_factors(tmp_path):
    own = np.linspace(0.1, 1.0, 60)
    found = oar.study(problem(budget=own), budgets=[0.5, 2.0], store=tmp_path / "study.db").table()
    for factor, loss in zip(found["budget"], found["loss"], strict=True):
        assert loss == oar.collective(problem(budget=factor * own)).loss


def test_seeds_draw_members_and_seed_models(tmp_path):
    draws = oar.study(
        problem(oar.SoftmaxRegression()), participation=[0.3], seeds=[5, 6], solver=QUICK, store=tmp_path / "draws.db"
    ).table()
    for seed, loss in zip(draws["seed"], draws["loss"], strict=True):
        asked = problem(oar.SoftmaxRegression(), participants=0.3, seed=int(seed))
        assert loss == oar.collective(asked, solver=QUICK).loss
    work = oar.studies.work.Work(
        problem(), {"net": oar.models.Scaled(oar.models.MLP((3,)))}, {"0": QUERIES["near"]}, "auto"
    )
    seeded = work.problem_of(Cell("net", "0", 0.5, 1.0, 8)).model
    assert seeded.model.seed == 8
    assert work.problem_of(Cell("net", "0", 0.5, 1.0, 8)).model is seeded
    assert work.problem_of(Cell("net", "0", 0.5, 1.0, None)).model.model.seed == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budgets": 0.5}, "budgets: must be a list"),
        ({"budgets": []}, "budgets: must be at least one"),
        ({"budgets": [-1]}, "budgets: must be finite and ≥ 0"),
        ({"participation": [1.5]}, "participation: must be shares between 0 and 1, got 1.5"),
        ({"seeds": [0.5]}, "seeds: must be whole numbers"),
        ({"seeds": [0, 1]}, "seeds: would do nothing"),
        ({"models": "softmax"}, "models: must be a list"),
        ({"models": [oar.NearestCentroid(), oar.NearestCentroid()]}, "models: must differ"),
        ({"queries": [1]}, r"queries\[0\]: must be an oar.Query"),
        ({"queries": {}}, "queries: must be at least one"),
        ({"cells": [{"bugdet": 1}]}, "Did you mean 'budget'"),
        ({"cells": [{"model": "x"}]}, "must be one of 'nearest-centroid'"),
        ({"cells": [{"budget": 1}], "budgets": [1]}, "budgets: is an axis of a grid"),
        ({"workers": 0}, "workers: must be a whole number"),
        ({"client": 3}, "client: must be a dask.distributed.Client"),
        ({"client": 3, "workers": 2}, "leave one out"),
        ({"progress": "yes"}, "progress: must be True"),
        ({"solver": "one-shot"}, "solver: 'one-shot' does not apply here"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, settings, message):
    with pytest.raises(oar.errors.OARError, match=message):
        oar.study(problem(), store=tmp_path / "study.db", **settings)


def test_what_does_not_go_together_is_refused(tmp_path):
    named = problem(participants=np.arange(60) < 9)
    with pytest.raises(oar.errors.OptionError, match="who takes part"):
        oar.study(named, participation=[0.5], store=tmp_path / "a.db")
    strike = oar.Problem(people(), oar.NearestCentroid(), QUERIES["near"], oar.Withhold(most=2))
    with pytest.raises(oar.errors.OptionError, match="lets nobody move"):
        oar.study(strike, budgets=[0.5], store=tmp_path / "b.db")
    with pytest.raises(oar.errors.DataError, match="goal"):
        oar.study(problem(), queries=[oar.Query([0, 0], goal="perhaps")], store=tmp_path / "c.db")
    with pytest.raises(oar.errors.DataError, match="oar.Problem"):
        oar.study(people())
    assert not list(tmp_path.iterdir())

"""Work that cells share is done once, and answers are the same whether it is shared or not."""

import pickle

import numpy as np
import pytest
from support.study_problems import QUICK, people, problem, run_small

import oar
from oar.recourse import audited
from oar.referee.witnesses import refits as unmoved
from oar.solvers.descent import lanes as side_by_side
from oar.studies import work as works


def test_unmoved_people_are_refitted_once_for_all_cells(monkeypatch, tmp_path):
    features = problem().people.features
    refits = []
    refit = unmoved.refit

    def spied(model, people, rows):
        refits.append(bool((rows == features).all()))
        return refit(model, people, rows)

    monkeypatch.setattr(unmoved, "refit", spied)
    assert run_small(tmp_path / "study.db", workers=1).counts["done"] == 16
    assert sum(refits) == 1
    asked = problem(oar.SoftmaxRegression())
    oar.collective(asked, solver=QUICK)
    oar.collective(asked, solver=QUICK)
    assert sum(refits) == 3  # nothing is kept outside a study


def test_seeds_that_decide_nothing_are_solved_once(monkeypatch, tmp_path):
    solved = []
    collective = works.collective
    monkeypatch.setattr(works, "collective", lambda asked, **given: solved.append(asked) or collective(asked, **given))
    found = run_small(tmp_path / "study.db", workers=1).table()
    assert len(found) == 16
    assert len(solved) == 8 + 4  # everyone takes part in the other four, whatever the seed
    alike = found[found["participation"] == 1.0].groupby("budget")["loss"].nunique()
    assert (alike == 1).all()


def test_answers_are_those_of_cells_alone(tmp_path):
    found = run_small(tmp_path / "study.db", workers=1).table()
    for row in found.itertuples():
        shared = {} if row.participation == 1.0 else {"participants": row.participation, "seed": int(row.seed)}
        alone = oar.collective(problem(oar.SoftmaxRegression(), budget=row.budget, **shared), solver=QUICK)
        assert (row.loss, row.before, row.gap) == (alone.loss, alone.loss_before, alone.gap)
        assert (row.success, row.movers, row.outcome) == (alone.success, alone.audit.movers, str(alone.status))


def test_answers_do_not_depend_on_what_else_there_is(tmp_path):
    axes = {"participation": [0.3, 0.7, 1.0], "seeds": [0, 1]}
    asked = problem(people=people(weights=0.1 * (np.arange(60) % 7 + 1)))
    oar.study(asked, cells=[{"budget": 0.4, "participation": 0.7, "seed": 1}], store=tmp_path / "a.db")
    grown = oar.study(asked, budgets=[0.4, 0.2], **axes, store=tmp_path / "a.db")
    whole = oar.study(asked, budgets=[0.2, 0.4], **axes, store=tmp_path / "b.db")
    assert grown.table().equals(whole.table())


def test_small_tables_begin_side_by_side_whatever_else_there_is(tmp_path):
    asked = problem(oar.SoftmaxRegression())
    one = [{"budget": 0.4, "participation": 0.5, "seed": 1}]
    oar.study(asked, cells=one, store=tmp_path / "a.db", workers=1)
    axes = {"budgets": [0.2, 0.4], "participation": [0.5, 1.0], "seeds": [1]}
    grown = oar.study(asked, **axes, store=tmp_path / "a.db", workers=1).table()
    assert grown.equals(oar.study(asked, **axes, store=tmp_path / "b.db", workers=1).table())
    for row in grown.itertuples():
        shared = {} if row.participation == 1.0 else {"participants": row.participation, "seed": 1}
        cell = problem(oar.SoftmaxRegression(), budget=row.budget, **shared)
        assert row.loss == audited(side_by_side.propose(cell)).loss
        assert row.loss == pytest.approx(oar.collective(cell).loss, rel=1e-6)
    named = oar.study(asked, cells=one, store=tmp_path / "c.db", workers=1, solver="projected-gradient").table()
    cell = problem(oar.SoftmaxRegression(), budget=0.4, participants=0.5, seed=1)
    assert named["loss"].item() == oar.collective(cell).loss  # a solver that is named is the one of `oar.collective`


def test_the_effort_is_every_workers_and_part_of_what_a_study_is_known_by(tmp_path):
    asked = problem(oar.SoftmaxRegression(), budget=0.3)
    with oar.solvers.default_effort("normal"):
        usual = oar.study(asked, store=tmp_path / "usual.db", workers=1).table()
        several = oar.study(asked, store=tmp_path / "usual.db", workers=1).table()
        assert several.equals(usual)
        with (
            oar.solvers.default_effort("quick"),
            pytest.raises(oar.errors.StorageError, match=r"solver \(auto then, auto with effort quick now\)"),
        ):
            oar.study(asked, store=tmp_path / "usual.db", workers=1)
    with oar.solvers.default_effort("quick"):
        here = oar.study(asked, store=tmp_path / "here.db", workers=1).table()
        elsewhere = oar.study(asked, store=tmp_path / "elsewhere.db", workers=2).table()
    drop = ["seconds"] if "seconds" in here else []
    assert elsewhere.drop(columns=drop).equals(here.drop(columns=drop))


def test_work_takes_its_effort_along():
    with oar.solvers.default_effort("quick"):
        sent = pickle.loads(pickle.dumps(works.Work(problem(), {}, {}, "auto")))
    efforts = []
    sent.answers = lambda unit: efforts.append(oar.solvers.registry.current_effort().name) or []
    with oar.solvers.default_effort("normal"):
        works.answered(sent, works.WorkUnit((), False))
    assert efforts == ["quick"]

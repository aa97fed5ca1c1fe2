"""Nearest-centroid cells from class sums say what `oar.collective` and its audit say, one by one."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from support.study_problems import QUERIES, problem

import oar
from oar.people import Population
from oar.studies import centroids
from oar.studies.cells import Cell
from oar.studies.rows import FACTS, NUMBERS, row_of
from oar.studies.work import Work, WorkUnit


def compared(work, cells):
    """Answer cells from class sums, and each by its own solve and audit."""
    work.drawing(cells)
    assert all(work.is_quick(cell) for cell in cells)
    for cell, quick in zip(cells, work.answers(WorkUnit(tuple(cells), True)), strict=True):
        slow = row_of(oar.collective(work.problem_of(cell)))
        for name in FACTS:
            if name in NUMBERS:
                assert quick[name] == pytest.approx(slow[name], rel=1e-9, abs=1e-11), (cell, name)
            elif name != "witness":
                assert quick[name] == slow[name], (cell, name)


@given(st.integers(0, 10_000), st.sampled_from([1, 2, np.inf]), st.booleans(), st.booleans())
@settings(max_examples=25)
def test_they_equal_the_audit(seed, norm, weighted, asks_herself):
    rng = np.random.default_rng(seed)
    size, dimensions, classes = int(rng.integers(6, 40)), int(rng.integers(1, 4)), int(rng.integers(2, 4))
    labels = np.append(np.arange(classes), rng.integers(0, classes, size - classes))
    weights = np.where(rng.random(size) < 0.2, 0.0, rng.random(size)) if weighted else None
    if weights is not None:
        weights[:classes] = 0.5
    people = oar.Population(rng.normal(0, 2, (size, dimensions)) + labels[:, None], labels, weights)
    who = oar.Members([0], stay=True) if asks_herself else rng.normal(0, 2, dimensions)
    asked = oar.Problem(people, oar.NearestCentroid(), oar.Query(who, goal=1), oar.Perturb(0.3, norm=norm))
    work = Work(asked, {"m": asked.model}, {"q": asked.query}, "auto")
    shares, budgets = (0.0, float(rng.random()), 1.0), (0.0, float(rng.random()), 2.0)
    compared(work, [Cell("m", "q", budget, share, draw) for share in shares for budget in budgets for draw in (0, 7)])


def test_all_cells_take_two_passes(monkeypatch, tmp_path):
    passes = []
    chunks = Population.chunks
    monkeypatch.setattr(Population, "chunks", lambda self, *rows: passes.append(self) or chunks(self, *rows))
    found = oar.study(
        problem(),
        budgets=np.linspace(0, 1, 11),
        participation=[0.2, 0.6, 1.0],
        queries=QUERIES,
        seeds=range(5),
        store=tmp_path / "study.db",
    )
    assert found.counts["done"] == 11 * 3 * 2 * 5
    assert len(passes) == 2 + 1  # and one for the fingerprint


def test_a_verdict_on_the_edge_is_left_to_a_full_audit(monkeypatch, tmp_path):
    least = oar.minimal_budget(problem()).value
    audits = []
    whole = oar.recourse.judged
    monkeypatch.setattr(oar.recourse, "judged", lambda *asked: audits.append(asked) or whole(*asked))
    budgets = [0.9 * least, least, np.nextafter(least, 9), 1.1 * least]
    found = oar.study(problem(), budgets=budgets, store=tmp_path / "study.db").table()
    assert len(audits) == 2
    assert found["success"].tolist() == [oar.collective(problem(budget=each)).success for each in budgets]


def test_moves_beyond_their_limit_are_no_success(monkeypatch):
    directions = centroids.Reach.directions
    monkeypatch.setattr(centroids.Reach, "directions", lambda self: 3.0 * directions(self))
    work = Work(problem(), {"m": oar.NearestCentroid()}, QUERIES, "auto")
    cell = Cell("m", "near", 0.5, 1.0, None)
    (row,) = work.drawing([cell]).answers(WorkUnit((cell,), True))
    assert not row["success"]
    assert row["status"] == "refused"
    assert "limit 0.5" in row["violations"]


@pytest.mark.parametrize(
    "other",
    [
        {"query": oar.Query([0.7, 0.8], goal="yes", probability=0.6)},
        {"query": oar.Query([[0.7, 0.8], [0.1, 0.2]], goal="yes")},
        {"action": oar.Perturb(np.full(60, 0.3))},
        {"action": [oar.Perturb(0.3), oar.Withhold(most=1)]},
        {"action": oar.Perturb(0.3, participants=oar.Best(3))},
        {"model": oar.SoftmaxRegression()},
        {"keep": oar.Keep(changed=0.5)},
    ],
)
def test_other_questions_are_not_answered_from_sums(other):
    from dataclasses import replace

    assert centroids.has_quick_cells(problem(), "exact")
    assert not centroids.has_quick_cells(problem(), "paper")
    assert not centroids.has_quick_cells(replace(problem(), **other), "auto")

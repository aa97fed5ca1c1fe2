"""The power curve: every cell against the audit of the same moves, and against full solves."""

import numpy as np
import pytest
from hypothesis import given, settings
from support.centroid_problems import random_world, seeds
from support.question_problems import QUICK, as_centroids, small_table, two_groups

import oar
from oar.solvers.descent.one_response import OneResponse

MODELS = [
    oar.NearestCentroid(),
    oar.SoftmaxRegression(0.05),
    oar.models.Scaled(oar.SoftmaxRegression(0.05)),
    oar.models.LinearSVM(0.05),
]


def agrees_with_the_audit(curve):
    for row, budget in enumerate(curve.budgets):
        for column, share in enumerate(curve.shares):
            audit = oar.audit(curve.plan(budget, share))
            assert not audit.violations
            assert audit.loss == pytest.approx(curve.losses[row, column], rel=1e-6, abs=1e-8)
            assert audit.success == curve.success[row, column]


@pytest.mark.parametrize("model", MODELS)
def test_cells_are_what_the_audit_says(model):
    solver = "auto" if isinstance(model, oar.NearestCentroid) else QUICK
    result = oar.collective(two_groups(2, model, budget=0.7), solver=solver)
    curve = oar.questions.power(result, shares=(0.5, 1.0), budgets=(0.2, 0.7))
    agrees_with_the_audit(curve)
    assert curve.losses[-1, -1] == pytest.approx(result.loss)
    assert curve.success[-1, -1] == result.success


@pytest.mark.parametrize("model", [oar.SoftmaxRegression(0.1), oar.NearestCentroid()])
def test_cells_of_a_table_are_what_the_audit_says(model):
    agrees_with_the_audit(
        oar.questions.power(oar.collective(small_table(model=model)), shares=(0.4, 1.0), budgets=(0.3, 1.0))
    )


def test_cells_of_a_joint_plan_are_too():
    for model in MODELS[:2]:
        result = oar.joint(two_groups(2, model, budget=0.4))
        agrees_with_the_audit(oar.questions.power(result, shares=(0.5, 1.0), budgets=(0.2, 0.4)))


@pytest.mark.parametrize("model", MODELS[1:])
def test_a_cell_is_no_better_than_a_plan_of_its_own_finds(model):
    problem = two_groups(5, model, budget=0.8)
    curve = oar.questions.power(oar.collective(problem, solver=QUICK), shares=(0.5, 1.0), budgets=(0.4,))
    for column, share in enumerate(curve.shares):
        own = oar.collective(curve.plan(0.4, share).problem, solver=QUICK)
        assert own.loss <= curve.losses[0, column] * (1 + 1e-6) + 1e-9
        gained = (own.loss_before - curve.losses[0, column]) / (own.loss_before - own.loss)
        assert gained > 0.3  # and a good part of what can be done is seen


@given(seeds)
@settings(max_examples=30)
def test_for_nearest_centroid_cells_are_exact_optima(seed):
    world = random_world(seed)
    result = oar.collective(world.problem())
    if not result.audit.movers:
        return
    curve = oar.questions.power(result, seed=1)
    for row, column in ((0, 0), (2, 1), (1, 3)):
        plan = curve.plan(curve.budgets[row], curve.shares[column])
        best = oar.collective(plan.problem)
        assert curve.losses[row, column] == pytest.approx(best.loss, rel=1e-9)
        assert curve.success[row, column] == best.success
    assert (np.diff(curve.losses, axis=0) <= 1e-12).all()
    assert (np.diff(curve.losses, axis=1) <= 1e-12).all()


def test_what_suffices_is_found_between_the_cells():
    problem = two_groups(2, oar.NearestCentroid(), size=200, budget=1.0)
    exact = oar.minimal_budget(problem).value
    curve = oar.questions.power(oar.collective(problem), budgets=np.linspace(0, 1, 11))
    assert exact < curve.at_most_budget <= exact + 0.1
    found = oar.questions.power(oar.collective(two_groups(2, size=200, budget=1.0)), budgets=np.linspace(0, 1, 11))
    assert exact * (1 - 1e-9) < found.at_most_budget <= exact + 0.1
    assert 0 < found.at_most_share < 1
    short = oar.questions.power(oar.collective(two_groups(2, size=20, budget=0.01)))
    assert short.at_most_budget is short.at_most_share is None


def test_it_takes_few_refits(monkeypatch):
    count, refit = [0], OneResponse.refit

    def counted(self, *asked):
        count[0] += 1
        return refit(self, *asked)

    monkeypatch.setattr(OneResponse, "refit", counted)
    curve = oar.questions.power(oar.collective(two_groups(2, oar.SoftmaxRegression(0.05), size=40, budget=0.7)))
    assert curve.losses.shape == (4, 4)
    assert count[0] <= 28  # two of them at the start
    assert "may do better" in curve.note


def test_what_has_no_power_curve_is_refused():
    result = oar.collective(two_groups())
    for options in ({"shares": (0.5, 1.5)}, {"shares": ()}, {"budgets": (-1,)}, {"budgets": 3}):
        with pytest.raises(oar.errors.DataError, match=next(iter(options))):
            oar.questions.power(result, **options)
    with pytest.raises(oar.errors.DataError, match="seed: must be a whole number of at least 0, got -1"):
        oar.questions.power(result, seed=-1)
    with pytest.raises(oar.errors.DataError, match="members move"):
        oar.questions.power(oar.individual(as_centroids(two_groups())))
    with pytest.raises(oar.errors.DataError, match="result"):
        oar.questions.power(result.plan)

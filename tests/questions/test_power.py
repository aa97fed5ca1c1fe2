"""The power curve: every cell against the audit of the same moves, and against full solves."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier
from support.centroid_problems import random_world, seeds
from support.question_problems import QUICK, as_centroids, small_table, two_groups

import oar
from oar.plans.refits import Refits
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


LEVERS = [oar.Relabel(most=6), oar.Withhold(most=6), [oar.Perturb(0.4), oar.Relabel(most=3), oar.Withhold(most=2)]]


@pytest.mark.parametrize("action", LEVERS, ids=["labels", "strike", "all"])
@pytest.mark.parametrize("model", [oar.NearestCentroid(), oar.SoftmaxRegression(0.05)], ids=lambda model: model.name)
def test_labels_and_strikes_have_power_by_the_number_of_those_who_act(model, action):
    problem = replace(two_groups(2, model, size=40), action=action)
    result = oar.collective(problem)
    curve = oar.questions.power(result, shares=(0.0, 0.4, 1.0))
    agrees_with_the_audit(curve)
    assert curve.losses[-1, 0] == pytest.approx(result.loss_before)
    assert curve.losses[-1, -1] == pytest.approx(result.loss)
    acts = Refits(result.plan).actors
    assert curve.acting.tolist() == [0, round(0.4 * acts.sum()), acts.sum()]
    few = Refits(curve.plan(curve.budgets[-1], 0.4)).actors
    assert few.sum() == curve.acting[1]
    assert not (few & ~acts).any()
    if not problem.moves:
        assert curve.budgets.tolist() == [1.0]
        with pytest.raises(oar.errors.OptionError, match="budgets: are for members who move"):
            oar.questions.power(result, budgets=(0.5,))


def boxed(estimator, size=40, **settings):
    return replace(two_groups(2, size=size, budget=1.0), model=oar.BlackBox(estimator, **settings))


def test_of_a_black_box_cells_are_trainings():
    problem = boxed(DecisionTreeClassifier(max_depth=2, random_state=0), randomised=False)
    result = oar.collective(problem, effort="quick")
    before = problem.model.calls.fits
    curve = oar.questions.power(result, shares=(0.5, 1.0), budgets=(0.5, 1.0))
    assert problem.model.calls.fits - before <= 4 + 3
    assert "1 true training" in curve.note
    assert np.isnan(curve.intervals).all()
    agrees_with_the_audit(curve)


def test_of_random_training_cells_have_intervals_and_success_is_the_audits():
    model = RandomForestClassifier(n_estimators=3, max_depth=2)
    problem = boxed(model, refits=6)
    result = oar.collective(problem, effort="quick")
    before = problem.model.calls.fits
    curve = oar.questions.power(result, shares=(0.5, 1.0), budgets=(0.5, 1.0), trainings=8 * 5)
    assert problem.model.calls.fits - before <= 40
    low, high = np.moveaxis(curve.intervals, -1, 0)
    assert ((low >= 0) & (low <= high) & (high <= 1)).all()
    np.testing.assert_array_equal(curve.success, low >= problem.model.at_least)
    full = oar.questions.power(result, shares=(0.5, 1.0), budgets=(0.5, 1.0), trainings=1_000)
    agrees_with_the_audit(full)  # as many trainings as an audit, with its seeds
    few = oar.questions.power(result, shares=(0.5,), budgets=(0.5,), trainings=1)
    assert "too few to tell a success" in few.note
    assert not few.success.any()
    with pytest.raises(oar.errors.OptionError, match="trainings: is for an oar.BlackBox"):
        oar.questions.power(oar.collective(two_groups(size=20)), trainings=3)


@pytest.mark.parametrize("model", [oar.NearestCentroid(), oar.SoftmaxRegression(0.05)], ids=lambda model: model.name)
def test_people_in_parts_have_the_power_of_their_walk(tmp_path, model):
    memory = two_groups(2, model, size=60, budget=0.7)
    frame = pd.DataFrame(memory.people.features, columns=["a", "b"]).assign(y=memory.people.labels)
    for part in range(2):
        frame.iloc[part * 30 : (part + 1) * 30].to_parquet(tmp_path / f"{part}.parquet")
    problem = replace(memory, people=oar.Population.from_parquet(tmp_path, target="y"))
    solver = "auto" if model.plain_means else QUICK
    result = oar.collective(problem, solver=solver)
    curve = oar.questions.power(result, shares=(0.5, 1.0), budgets=(0.2, 0.7))
    agrees_with_the_audit(curve)
    assert curve.losses[-1, -1] == pytest.approx(result.loss)
    assert (np.diff(curve.losses, axis=0) < 0).all()
    assert (np.diff(curve.losses, axis=1) < 0).all()
    everyone = oar.questions.power(oar.collective(memory, solver=solver), shares=(1.0,), budgets=(0.2, 0.7))
    assert curve.losses[:, -1] == pytest.approx(everyone.losses[:, -1], rel=0.05)


@pytest.mark.parametrize("model", MODELS[:2])
def test_after_the_time_cells_say_nothing(model):
    result = oar.collective(two_groups(2, model, budget=0.7))
    curve = oar.questions.power(result, time_limit=0)
    assert curve.losses[-1, -1] == pytest.approx(result.loss)  # which was known
    assert np.isnan(curve.losses).sum() == curve.losses.size - 1
    assert curve.success.sum() == result.success
    assert "before 15 of 16 cells were looked at" in curve.note
    with pytest.raises(oar.errors.DataError, match="time_limit"):
        oar.questions.power(result, time_limit=-1)


def test_of_people_in_parts_the_query_may_move_and_several_may_ask(tmp_path):
    memory = two_groups(2, size=60, budget=0.7)
    frame = pd.DataFrame(memory.people.features, columns=["a", "b"]).assign(y=memory.people.labels)
    frame.to_parquet(tmp_path / "0.parquet")
    people, model = oar.Population.from_parquet(tmp_path, target="y"), oar.SoftmaxRegression(0.05)
    joint = oar.joint(oar.Problem(people, model, memory.query, memory.action), effort="quick")
    assert joint.plan.query_move.any()
    several = oar.Problem(people, model, oar.Query([[0.7, 0.6], [0.6, 0.8]], "yes"), memory.action)
    for result in (joint, oar.collective(several, effort="quick")):
        agrees_with_the_audit(oar.questions.power(result, shares=(0.5, 1.0), budgets=(0.2,)))

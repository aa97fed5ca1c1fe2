"""Linear models behind a scaler, people in parts against the same people in memory: refits, signals, plans, audits."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import oar
from oar.models import Ridge, Scaled, SoftmaxRegression
from oar.referee import audit
from oar.solvers import ProjectedGradient

MODELS = [Scaled(SoftmaxRegression(l2=1e-1)), Scaled(SoftmaxRegression(l2=1e-1), frozen=True), Scaled(Ridge(l2=1e-1))]


@pytest.fixture(params=MODELS, ids=lambda model: model.name)
def both(request, tmp_path):
    """Return a problem of 60 weighted people in two files, and the same in memory."""
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat([0, 1, 2], 20))
    features = (rng.standard_normal((60, 3)) + np.eye(3)[labels]) * [1.0, 30.0, 0.2] + [5.0, 0.0, -1.0]
    target = features @ [1.0, -0.03, 5.0] if request.param.regresses else labels
    frame = pd.DataFrame(features, columns=list("abc")).assign(y=target, w=rng.uniform(0.5, 2, 60))
    for number, some in enumerate((frame[:23], frame[23:])):
        some.to_parquet(tmp_path / f"{number}.parquet")
    people = oar.Population.from_parquet(tmp_path, target="y", weights="w")
    goal = {"goal": 3.0, "within": 0.2} if request.param.regresses else {"goal": 2}
    query = oar.Query(features[labels == 2].mean(axis=0) - [0.0, 0.0, 0.2], **goal)
    problem = oar.Problem(people, request.param, query, oar.Perturb(0.3))
    return problem, dataclasses.replace(problem, people=people.loaded())


def test_refits_and_signals_are_as_in_memory(both):
    there, here = (problem.training() for problem in both)
    moves = 0.3 * np.random.default_rng(1).standard_normal((60, 3))
    right = np.random.default_rng(2).standard_normal(there.parameter_count)
    for given in (None, moves):
        one, other = there.moved(given), here.moved(given)
        fit, expected = (each.fit(rows, each.start(), 1e-10) for each, rows in ((there, one), (here, other)))
        np.testing.assert_allclose(fit.parameters, expected.parameters, atol=1e-8)
        signal, along = there.solve(fit, right, None, 1e-11), here.solve(expected, right, None, 1e-11)
        np.testing.assert_allclose(signal, along, atol=1e-6)
        slopes = there.score_gradients(fit.parameters, one, signal)[np.arange(60)]
        np.testing.assert_allclose(slopes, here.score_gradients(expected.parameters, other, along), atol=1e-5)
        np.testing.assert_allclose(there.matrix(fit.parameters), here.matrix(expected.parameters), atol=1e-7)


def test_a_plan_is_as_good_as_in_memory_and_its_audit_agrees(both):
    problem, memory = both
    short = ProjectedGradient(tolerance=1e-6, restarts=0)
    there, here = oar.collective(problem, solver=short), oar.collective(memory, solver=short)
    assert there.loss == pytest.approx(here.loss, rel=1e-3)
    assert there.loss == pytest.approx(there.proposal.claimed_loss, abs=1e-8)
    everyones = audit(memory, moves=there.plan.contribution().moves[np.arange(60)])
    assert there.loss == pytest.approx(everyones.loss, abs=1e-7)
    assert there.loss_before == pytest.approx(everyones.loss_before, abs=1e-7)
    assert there.success == everyones.success


@pytest.mark.parametrize("scaled", [True, False])
def test_a_recognised_pipeline_is_planned_for_and_audited_as_in_memory(tmp_path, scaled):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat([0, 1, 2], 20))
    features = (rng.standard_normal((60, 3)) + np.eye(3)[labels]) * [1.0, 3.0, 0.5]
    pd.DataFrame(features, columns=list("abc")).assign(y=labels).to_parquet(tmp_path / "all.parquet")
    people = oar.Population.from_parquet(tmp_path, target="y")
    model = (
        make_pipeline(StandardScaler(), LogisticRegression(C=0.2, tol=1e-10))
        if scaled
        else LogisticRegression(C=0.2, tol=1e-10)
    )
    query = oar.Query([0.3, 0.0, 0.3], 2)
    problem = oar.Problem(people, model, query, oar.Perturb(0.3))
    memory = oar.Problem(people.loaded(), model, query, oar.Perturb(0.3))
    found = oar.collective(problem)
    expected = audit(memory, moves=found.plan.contribution().moves[np.arange(60)])  # by scikit-learn's own fit
    assert found.loss == pytest.approx(expected.loss, abs=1e-7)
    assert found.loss_before == pytest.approx(expected.loss_before, abs=1e-7)
    assert found.loss < found.loss_before


def test_other_pipelines_are_refused_with_advice(tmp_path):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler

    pd.DataFrame({"a": [0.0, 1.0, 2.0], "y": [0, 1, 1]}).to_parquet(tmp_path / "all.parquet")
    people = oar.Population.from_parquet(tmp_path, target="y")
    with pytest.raises(oar.errors.OptionError, match="StandardScaler"):
        oar.Problem(people, make_pipeline(MinMaxScaler(), LogisticRegression()), oar.Query([0.5], 1), oar.Perturb(0.3))

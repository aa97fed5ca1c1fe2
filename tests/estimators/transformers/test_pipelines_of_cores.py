"""Every known estimator behind a pipeline: the same predictions, and slopes of the pipeline's own refits."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from support.estimators import loss_of_the_original, own_fit, own_refit, slopes

import oar
from oar.estimators.recognise import recognised
from oar.solvers import ProjectedGradient

IRIS = oar.datasets.iris()
NAMES = np.array(["setosa", "aster", "iris"])[IRIS.labels]  # not in the order of the numbers
PEOPLE = oar.Population(IRIS.features, NAMES)
VALUES = oar.Population(IRIS.features[:, :3], IRIS.features[:, 3])
CLASSIFIERS = {
    "naive Bayes": make_pipeline(StandardScaler(), GaussianNB(var_smoothing=1e-2)),
    "centroids": make_pipeline(PCA(3), make_pipeline(StandardScaler(), NearestCentroid())),
    "ridge": make_pipeline(PCA(3), RidgeClassifier(class_weight="balanced")),
    "machines": make_pipeline(StandardScaler(), LinearSVC(dual=False, tol=1e-10, max_iter=100_000)),
}
REGRESSORS = {
    "ridge": make_pipeline(StandardScaler(), Ridge(2.0, solver="svd")),
    "squares": make_pipeline(StandardScaler(), PCA(2), LinearRegression()),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classes_are_those_of_the_pipeline(name):
    twin = recognised(CLASSIFIERS[name])
    original, rows = own_fit(CLASSIFIERS[name], twin, PEOPLE)
    training, fit = own_refit(twin, PEOPLE, 1e-10)
    for parameters in (twin.fit(PEOPLE), twin.own_parameters(training, fit.parameters)):
        predicted = np.array(PEOPLE.classes)[twin.predict(parameters, rows)]
        assert (predicted == original.predict(rows)).all()
        told = twin.original(PEOPLE, IRIS.features).outputs(IRIS.features)
        np.testing.assert_allclose(twin._all_outputs(parameters, rows), told, atol=1e-6)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_slopes_are_those_of_the_pipelines_own_refits(name):
    twin, query = recognised(CLASSIFIERS[name]), IRIS.features[83] + 0.01
    target = np.asarray(twin.target_rows(np.eye(3)[[1]]))[0]
    _, gradient, own = slopes(twin, PEOPLE, query, target)
    rng = np.random.default_rng(0)
    along, ahead = rng.normal(size=IRIS.features.shape), rng.normal(size=4)
    there, back = (
        loss_of_the_original(twin, PEOPLE, IRIS.features + step * along, query + step * ahead, target)
        for step in (1e-5, -1e-5)
    )
    assert (gradient * along).sum() + own @ ahead == pytest.approx((there - back) / 2e-5, rel=1e-3)


@pytest.mark.parametrize("name", REGRESSORS)
def test_values_are_those_of_the_pipeline(name):
    twin = recognised(REGRESSORS[name])
    original, rows = own_fit(REGRESSORS[name], twin, VALUES)
    training, fit = own_refit(twin, VALUES, 1e-11)
    for parameters in (twin.fit(VALUES), twin.own_parameters(training, fit.parameters)):
        np.testing.assert_allclose(twin.predict(parameters, rows)[:, 0], original.predict(rows), atol=1e-6)


@pytest.mark.parametrize("name", ["naive Bayes", "centroids"])
def test_plans_are_audited_by_the_pipeline(name):
    query = oar.Query(IRIS.features[83], goal="aster")
    problem = oar.Problem(PEOPLE, CLASSIFIERS[name], query, oar.Perturb(0.3))
    found = oar.collective(problem, solver=ProjectedGradient(restarts=0))
    assert found.loss < found.loss_before
    assert found.loss == pytest.approx(found.proposal.claimed_loss, rel=1e-6)
    moved = own_fit(CLASSIFIERS[name], problem.model, PEOPLE, IRIS.features + found.plan.moves())[0]
    assert moved.predict(IRIS.features[83][None])[0] == found.prediction


def test_centroids_behind_a_pipeline_know_no_weights_either():
    weighed = oar.Population(IRIS.features, NAMES, np.linspace(1, 2, 150))
    with pytest.raises(oar.errors.OptionError, match="weights: NearestCentroid cannot be trained with weights"):
        oar.Problem(weighed, CLASSIFIERS["centroids"], oar.Query(IRIS.features[83], "aster"), oar.Perturb(0.3))

"""What has no twin is refused with the reason and what to use instead; so is what a twin cannot be asked."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.svm import LinearSVC
from support.estimators import crowd, logistic, machines

import oar
from oar.estimators.recognise import KNOWN
from oar.problem import as_model
from oar.worlds import Operator

# Every constructor parameter of the estimators: those that change the minimum are honoured or refused, and the others
# only steer the search for it. A new scikit-learn may have new ones, which somebody must look at.
READ = {"C", "penalty", "l1_ratio", "fit_intercept", "intercept_scaling", "class_weight", "alpha", "positive", "loss"}
READ |= {"multi_class", "priors", "var_smoothing", "metric", "shrink_threshold"}
STEERING = {"tol", "max_iter", "solver", "random_state", "n_jobs", "warm_start", "verbose", "dual", "copy_X"}
L1_RATIOS = [1.0, 0.3] if LogisticRegression().penalty != "l2" else []  # idle beside that, until scikit-learn 1.8


@pytest.mark.parametrize(
    "kind", [LogisticRegression, RidgeClassifier, Ridge, LinearRegression, LinearSVC, GaussianNB, NearestCentroid]
)
def test_every_setting_is_known(kind):
    assert set(kind().get_params()) <= READ | STEERING
    assert kind.__name__ in KNOWN or kind is NearestCentroid


@pytest.mark.filterwarnings("ignore:.*penalty.*:FutureWarning")
@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        *((LogisticRegression(l1_ratio=ratio, solver="saga"), "an l1 penalty") for ratio in L1_RATIOS),
        (LogisticRegression(penalty="l1", solver="liblinear"), "an l1 penalty"),
        (LogisticRegression(penalty="elasticnet", l1_ratio=0.5, solver="saga"), "an l1 penalty"),
        (LinearSVC(loss="hinge"), "loss='hinge'"),
        (LinearSVC(multi_class="crammer_singer"), "multi_class='crammer_singer'"),
        (LinearSVC(penalty="l1", dual=False), "penalty='l1'"),
        (Ridge(positive=True), "positive=True"),
        (RidgeClassifier(positive=True), "positive=True"),
        (LinearRegression(positive=True), "positive=True"),
        (Ridge(alpha=np.array([1.0, 2.0])), "an alpha for each target"),
        (NearestCentroid(metric="manhattan"), "metric='manhattan'"),
        (NearestCentroid(shrink_threshold=0.1), "shrink_threshold"),
        (NearestCentroid(priors="empirical"), "priors"),
        (NearestCentroid(priors=[0.5, 0.5]), "priors"),
    ],
    ids=str,
)
def test_settings_without_a_gradient(estimator, words):
    with pytest.raises(oar.errors.OptionError, match=f"has no twin with {words}") as told:
        as_model(estimator)
    assert f"oar.BlackBox({type(estimator).__name__}(…))" in str(told.value)


def test_estimators_that_are_not_known():
    with pytest.raises(oar.errors.OptionError, match=r"got RandomForestClassifier; use oar.BlackBox\(RandomForest"):
        as_model(RandomForestClassifier())

    class LogisticRegression(Ridge):  # of the same name, and something else
        pass

    with pytest.raises(oar.errors.OptionError, match="got LogisticRegression; use oar.BlackBox"):
        as_model(LogisticRegression())
    with pytest.raises(oar.errors.DataError, match="got the class Ridge; call it"):
        as_model(Ridge)


def test_settings_that_no_fit_would_take():
    with pytest.raises(oar.errors.OptionError, match="'C' parameter of LogisticRegression must be"):
        as_model(LogisticRegression(C=-1.0))
    with pytest.raises(oar.errors.OptionError, match="'alpha' parameter of Ridge must be"):
        as_model(Ridge(alpha=-1.0))


def test_people_that_an_estimator_cannot_be_fitted_to():
    query, action = oar.Query([1.0, 2.0, 0.5], goal="ant"), oar.Perturb(0.1)
    with pytest.raises(oar.errors.OptionError, match="weights: NearestCentroid cannot be trained with weights"):
        oar.Problem(crowd(weighted=True), NearestCentroid(), query, action)
    with pytest.raises(oar.errors.DataError, match="solver='liblinear' tells two classes apart, got 3"):
        oar.Problem(crowd(classes=3), logistic(solver="liblinear"), query, action)
    with pytest.raises(oar.errors.DataError, match="class_weight: must be of the people's classes"):
        oar.Problem(crowd(), logistic(class_weight={"cow": 2.0}), query, action)
    with pytest.raises(oar.errors.DataError, match="priors: must be 2 shares"):
        oar.Problem(crowd(), GaussianNB(priors=[0.2, 0.3, 0.5]), query, action)
    soft = np.tile([0.3, 0.7], (60, 1))
    with pytest.raises(oar.errors.DataError, match="labels: an estimator is trained on one label a person"):
        oar.Problem(oar.Population(crowd().features, soft), logistic(), oar.Query([1.0, 2.0, 0.5], goal=1), action)
    with pytest.raises(oar.errors.OptionError, match="soft: LogisticRegression is trained on one label a person"):
        oar.Problem(crowd(), logistic(), query, oar.Relabel(soft=0.1))


def test_fits_that_are_not_there():
    people = crowd(31, size=12)
    twice = oar.Population(np.column_stack([people.features, people.features[:, 0]]), people.labels)
    query = oar.Query([1.0, 2.0, 0.5, 1.0], goal="ant")
    with pytest.raises(
        oar.errors.NumericsError, match="LogisticRegression with l2 = 0 has no unique fit .* use a finite C"
    ):
        oar.collective(oar.Problem(twice, logistic(C=np.inf), query, oar.Perturb(0.1)))
    apart = oar.Population([[-2.0], [-1.0], [1.0], [2.0]], ["no", "no", "yes", "yes"])
    for estimator in (logistic(C=np.inf), logistic(C=np.inf, fit_intercept=False)):
        with pytest.raises(
            oar.errors.NumericsError, match=r"LogisticRegression without a regulariser .*use a finite C"
        ):
            oar.collective(oar.Problem(apart, estimator, oar.Query([-0.5], goal="yes"), oar.Perturb(0.1)))


@pytest.mark.parametrize(
    "estimator", [logistic(), machines(), NearestCentroid(), GaussianNB(), RandomForestClassifier()]
)
def test_over_time_there_are_models_of_ours(estimator):
    people = crowd()
    stream = oar.online.Stream.of_batches([people, people])
    query = oar.Query([1.0, 2.0, 0.5], goal="ant")
    name = type(estimator).__name__
    for model in [estimator] + ([] if name == "RandomForestClassifier" else [as_model(estimator)]):
        with pytest.raises(oar.errors.OptionError, match=f"over time, got the estimator {name}; use (oar|one of)"):
            oar.OnlineProblem(stream, model, oar.online.FullRefit(), query, oar.Perturb(0.1))
        with pytest.raises(oar.errors.OptionError, match=f"over time, got the estimator {name}"):
            Operator(model)

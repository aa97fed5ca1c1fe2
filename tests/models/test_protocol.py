"""What every model answers, whoever wrote it: nearest centroid, differentiable models, estimators and black boxes."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Ridge as RidgeEstimator
from sklearn.neighbors import NearestCentroid as CentroidEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import oar
from oar.errors import OptionError
from oar.estimators.recognise import recognised
from oar.models.protocol import Capabilities

CLASSIFIERS = {
    "nearest centroid": oar.NearestCentroid(),
    "softmax": oar.SoftmaxRegression(l2=0.1),
    "scaled": oar.models.Scaled(oar.SoftmaxRegression(l2=0.1)),
    "network": oar.models.PrototypeNetwork(),
    "estimator": recognised(LogisticRegression()),
    "pipeline": recognised(make_pipeline(StandardScaler(), LogisticRegression())),
    "centroid estimator": recognised(CentroidEstimator()),
    "black box": oar.BlackBox(DecisionTreeClassifier(max_depth=3, min_samples_leaf=10, random_state=0)),
}
REGRESSORS = {
    "ridge": oar.models.Ridge(l2=0.1),
    "estimator": recognised(RidgeEstimator()),
    "black box": oar.BlackBox(DecisionTreeRegressor(max_depth=3, random_state=0)),
}


@pytest.fixture(scope="module")
def flowers():
    iris = oar.datasets.iris()
    return oar.Population(iris.features, iris.labels), iris.features


@pytest.mark.parametrize("model", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_models_of_classes_are_fitted_and_asked_alike(model, flowers):
    people, features = flowers
    assert isinstance(model, Capabilities)
    assert isinstance(model.name, str)
    model.check(people)
    learned = model.fit(people)
    codes, shares = model.predict(learned, features), model.probabilities(learned, features)
    assert codes.shape == (len(features),)
    assert shares.shape == (len(features), 3)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-5)
    assert (codes == people.codes(0, people.size)).mean() > 0.85
    assert (codes == shares.argmax(axis=1)).all()
    np.testing.assert_allclose(model.goal_loss(learned, features, 2), -np.log(shares[:, 2]), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("model", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_one_person_is_asked_about_like_many(model, flowers):
    people, features = flowers
    learned = model.fit(people)
    assert model.predict(learned, features[77]).shape == ()
    assert model.predict(learned, features[77]) == model.predict(learned, features)[77]
    np.testing.assert_allclose(model.probabilities(learned, features[77]), model.probabilities(learned, features)[77])
    assert np.shape(model.goal_loss(learned, features[77], 0)) == ()


@pytest.mark.parametrize("model", REGRESSORS.values(), ids=REGRESSORS)
def test_models_of_values_are_fitted_and_asked_alike(model, flowers):
    features = flowers[1]
    people = oar.Population(features[:, :3], features[:, 3])
    model.check(people)
    learned = model.fit(people)
    values = model.predict(learned, features[:, :3])
    assert values.shape == (len(features), 1)
    assert ((values[:, 0] - features[:, 3]) ** 2).mean() < 0.1
    losses = model.goal_loss(learned, features[:, :3], 1.0)
    np.testing.assert_allclose(losses, 0.5 * (values[:, 0] - 1.0) ** 2, rtol=1e-6, atol=1e-12)
    with pytest.raises(OptionError, match="predict"):
        model.probabilities(learned, features[:, :3])


def test_a_black_box_is_trained_once_a_fit_and_has_nothing_to_differentiate(flowers):
    people, features = flowers
    box = oar.BlackBox(DecisionTreeClassifier(max_depth=2, random_state=0))
    box.predict(box.fit(people), features)
    assert (box.calls.fits, box.calls.rows) == (1, len(features))
    with pytest.raises(OptionError, match="can only be trained and asked"):
        box.training(people)

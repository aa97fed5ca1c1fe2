"""Cards of plans that were made with an estimator's twin, and advice on a table by one."""

import numpy as np
import pandas
import pytest
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from support.estimators import crowd, logistic, machines

import oar


def planned(estimator, labels="words"):
    people = crowd(41, size=80, labels=labels)
    goal, within = (5.0, 0.5) if labels == "values" else ("ant", None)
    query = oar.Query(people.features.mean(axis=0) - 0.5, goal=goal, within=within)
    return oar.collective(oar.Problem(people, estimator, query, oar.Perturb(0.2)))


@pytest.mark.parametrize(
    ("estimator", "labels", "name"),
    [
        (logistic(), "words", "softmax-regression"),
        (machines(C=0.1), "words", "linear-svm"),
        (Ridge(), "values", "ridge"),
        (NearestCentroid(), "words", "nearest-centroid"),
    ],
    ids=str,
)
def test_what_is_one_of_our_models_is_published_as_such(estimator, labels, name, tmp_path):
    result = planned(estimator, labels)
    card = result.plan.card()
    assert card.model == name
    followed = oar.audit(result.plan.followed(card))
    gain = result.loss_before - result.loss
    assert result.loss_before - followed.loss >= 0.9 * gain
    card.save(tmp_path / "card.json")
    assert oar.results.Card.load(tmp_path / "card.json").model == name


@pytest.mark.parametrize("estimator", [logistic(class_weight="balanced"), RidgeClassifier(), GaussianNB()], ids=str)
def test_what_is_more_is_answered_by_the_signal_of_a_plain_model(estimator, tmp_path):
    result = planned(estimator)
    card = result.plan.card()
    assert card.model == result.problem.model.name
    followed = oar.audit(result.plan.followed(card))  # by the estimator itself
    assert result.loss_before - followed.loss >= 0.89 * (result.loss_before - result.loss)
    card.save(tmp_path / "card.json")
    again = oar.results.Card.load(tmp_path / "card.json")
    assert (result.plan.followed(again).each == result.plan.followed(card).each).all()
    with pytest.raises(oar.errors.DataError, match="settings of the model that is retrained"):
        again.audited_model()


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler()], ids=str)
def test_a_scaler_before_it_is_written_down(scaler, tmp_path):
    result = planned(make_pipeline(scaler, logistic()))
    card = result.plan.card()
    standard = isinstance(scaler, StandardScaler)
    assert card.model == ("scaled softmax-regression" if standard else result.problem.model.name)
    assert isinstance(card.audited_model(), oar.models.Scaled) if standard else True
    followed = oar.audit(result.plan.followed(card))
    assert result.loss_before - followed.loss >= 0.89 * (result.loss_before - result.loss)
    card.save(tmp_path / "card.json")
    again, people = oar.results.Card.load(tmp_path / "card.json"), result.problem.people
    moves = result.plan.followed(again).each
    for person in range(0, people.size, 9):
        mine = again.respond(people.features[person], people.labels[person])
        assert abs(mine - moves[person]).max() < 1e-7
    # Round centres and powers of ten, and not what the scaler has learned
    centres, scales = card.broadcast.seen.centres, card.broadcast.seen.scales
    assert abs(centres - people.features.mean(axis=0)).min() > 1e-9
    assert set(scales) <= {10.0**power for power in range(-3, 4)}


def test_the_cheapest_change_of_a_row():
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"income": rng.normal(3.0, 1.0, 80), "years": rng.integers(0, 9, 80)})
    frame["loan"] = np.where(frame.income + 0.3 * frame.years + rng.normal(0, 0.5, 80) > 4.2, "yes", "no")
    people = oar.Population.from_frame(frame, target="loan")
    query = oar.Query({"income": 2.0, "years": 1}, goal="yes")
    estimator = logistic(class_weight="balanced")
    advice = oar.cheapest(people, estimator, query)
    assert advice.status is oar.results.Status.ACHIEVED
    owner = LogisticRegression(**estimator.get_params() | {"penalty": "deprecated"}).fit(people.features, people.labels)
    assert owner.predict(people.vector(advice.row, "row")[None])[0] == "yes"
    assert oar.cheapest(people, NearestCentroid(), query).status is oar.results.Status.ACHIEVED
    with pytest.raises(oar.errors.OptionError, match="model: must be linear in the table's columns"):
        oar.cheapest(people, GaussianNB(), query)

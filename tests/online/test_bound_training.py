"""Models bound to a round: θ means the same in every round, and everything agrees with automatic differentiation."""

import numpy as np
import pytest
import scipy.optimize
from support.online_problems import batch

import oar
from oar import online
from oar.models.autodiff.training import AutodiffTraining
from oar.models.training import Fit
from oar.online.bound_training import bind, flat_form

PEOPLE = oar.Population(100 * batch(3).features + [500.0, -2.0], batch(3).labels, batch(3).weights)


def pair(model):
    """Return our training and the one by automatic differentiation, of the same people."""
    target_model = oar.models.PrototypeNetwork() if isinstance(model, oar.NearestCentroid) else model
    weights = PEOPLE.weights / PEOPLE.weights.sum()
    return bind(model, PEOPLE), AutodiffTraining(target_model, PEOPLE.features, target_model.targets(PEOPLE), weights)


@pytest.mark.parametrize("model", [oar.NearestCentroid(), oar.SoftmaxRegression(0.1)])
def test_all_answers_are_those_of_automatic_differentiation_in_the_units_as_given(model):
    ours, theirs = pair(model)
    rng = np.random.default_rng(0)
    theta, along = 1e-3 * rng.normal(size=(2, theirs.parameter_count))
    if not isinstance(model, oar.NearestCentroid):  # logits with a common constant are told apart by the gauge alone
        theta, along = ((row.reshape(3, 3) - row.reshape(3, 3).mean(axis=0)).ravel() for row in (theta, along))
    moves, query, target = 10 * rng.normal(size=PEOPLE.features.shape), PEOPLE.features[0] + 20.0, np.eye(3)[1]
    assert ours.parameter_count == theirs.parameter_count
    mine, other = ours.moved(moves), theirs.moved(moves)
    for left, right in zip(ours.risk_gradient(theta, mine), theirs.risk_gradient(theta, other), strict=True):
        assert np.allclose(left, right, rtol=1e-9)
    assert np.allclose(ours.product(theta, mine, along), theirs.product(theta, other, along), rtol=1e-8)
    assert np.allclose(ours.score_gradients(theta, mine, along), theirs.score_gradients(theta, other, along), rtol=1e-8)
    for left, right in zip(ours.goal(theta, query, target), theirs.goal(theta, query, target), strict=True):
        assert np.allclose(left, right, rtol=1e-8, atol=1e-12)
    assert np.allclose(ours.outputs(theta, query), theirs.outputs(theta, query))
    shares = np.eye(3)[rng.integers(0, 3, PEOPLE.size)]
    assert np.allclose(ours.scores(theta, mine, along, shares), theirs.scores(theta, other, along, shares), rtol=1e-8)
    again = ours.contributing(shares, ours.weights).risk_gradient(theta, mine)
    assert again[0] == pytest.approx(theirs.contributing(shares, theirs.weights).risk_gradient(theta, other)[0])


@pytest.mark.parametrize("model", [oar.NearestCentroid(), oar.SoftmaxRegression(0.1)])
def test_fits_end_where_the_gradient_does_and_solves_solve(model):
    training = bind(model, PEOPLE)
    features = training.moved(None)
    fit = training.fit(features, training.start(), 1e-11)
    assert fit.converged
    right = np.random.default_rng(1).normal(size=training.parameter_count)
    solved = training.solve(Fit(fit.parameters, features, 0.0, True), right, None, 1e-12)
    assert np.allclose(training.product(fit.parameters, features, solved), right, rtol=1e-5)
    own = model.fit(PEOPLE)
    assert np.allclose(flat_form(training, own, "start"), fit.parameters, rtol=1e-6, atol=1e-9)
    rows = PEOPLE.features[:4]
    assert np.allclose(
        model.probabilities(training.parameters(fit.parameters), rows), model.probabilities(own, rows), atol=1e-7
    )


def test_nearest_centroid_knows_ties_as_the_model_does():
    training = bind(oar.NearestCentroid(), PEOPLE)
    found = training.parameters(oar.NearestCentroid().fit(PEOPLE).positions.ravel())
    assert (found.sizes >= np.abs(found.positions).max(axis=1)).all()
    loss, pull, slope = training.goal(found.positions.ravel(), found.positions[0], np.eye(3)[0])  # the query is there
    assert np.isfinite([loss, *pull, *slope]).all()


def test_a_class_that_nobody_has_keeps_its_centroid():
    rows = np.flatnonzero(PEOPLE.labels != 1)
    training = bind(oar.NearestCentroid(), PEOPLE.some(rows))
    start = np.arange(6.0)
    found = training.fit(training.moved(None), start, 1e-9)
    assert found.parameters.reshape(3, 2)[1].tolist() == [2.0, 3.0]
    with pytest.raises(oar.errors.NumericsError, match="a class that nobody has"):
        training.solve(found, np.ones(6), None, 1e-9)


def test_people_of_no_weight_are_added_to_share_shapes_and_are_not_seen():
    network = oar.models.MLP((2,), l2=0.1)
    weights = PEOPLE.weights / PEOPLE.weights.sum()
    plain = AutodiffTraining(network, PEOPLE.features, network.targets(PEOPLE), weights)
    ours = bind(network, PEOPLE)
    assert (ours.size, len(ours.weights), len(ours.targets)) == (9, 9, 9)
    rng = np.random.default_rng(0)
    theta, signal = rng.normal(size=(2, plain.parameter_count))
    moves, shares = rng.normal(size=PEOPLE.features.shape), np.eye(3)[rng.integers(0, 3, 9)]
    mine, other = ours.moved(moves), plain.moved(moves)
    assert np.asarray(mine).shape == (1, 12, 2)
    assert np.allclose(ours.risk_gradient(theta, mine)[1], plain.risk_gradient(theta, other)[1])
    assert np.allclose(ours.score_gradients(theta, mine, signal), plain.score_gradients(theta, other, signal))
    even = np.full(9, 1 / 9)
    assert ours.contributing(shares, even).risk_gradient(theta, mine)[0] == pytest.approx(
        plain.contributing(shares, even).risk_gradient(theta, other)[0]
    )


def test_a_penalty_that_is_next_to_nothing_still_ends_the_fit_of_classes_that_are_apart():
    """All gradients are below 1e-10 long before the minimum, which scikit-learn and a root of the gradient agree on."""
    places = np.array([[-1e6], [1e6], [-1.2e6], [1.1e6]])
    people = oar.Population(places, [0, 1, 0, 1])
    problem = online.OnlineProblem(
        online.Stream.of_batches([people]), oar.SoftmaxRegression(0.05), online.FullRefit(),
        oar.Query([2e5], 0), oar.Perturb(1e5),
    )  # fmt: skip
    x, side = places.ravel() / 1e6, np.array([-1.0, 1.0, -1.0, 1.0])

    def slopes(theta):
        pulls = -side / (1 + np.exp(side * (theta[0] * x + theta[1]))) / 4
        return 1e12 * np.array([pulls @ x + 0.05e-12 * theta[0], pulls.sum()])

    found = scipy.optimize.root(slopes, [26.0, 0.0], tol=1e-14).x
    truth = np.log1p(np.exp(found @ [0.2, 1.0]))
    assert online.Rollout(problem).forward().losses[0] == pytest.approx(truth, rel=1e-3)
    assert oar.audit(oar.online.OnlinePlan(problem, np.zeros((4, 1)))).loss == pytest.approx(truth, rel=1e-3)

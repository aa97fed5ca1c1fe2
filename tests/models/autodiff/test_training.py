import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.differentiation import assert_differentiates_training, goal_of, query_of, small_people

from oar.errors import DataError, NumericsError
from oar.models.autodiff.custom import Custom
from oar.models.autodiff.training import AutodiffTraining
from oar.models.fit import curvature
from oar.models.linear.losses import SoftmaxRegression
from oar.models.linear.training import LinearTraining
from oar.models.training import Fit

FEATURES, TARGETS, WEIGHTS, _ = small_people()


def cross_entropy(parameters, x, y):
    logits = parameters["w"] @ x + parameters["b"]
    return jax.nn.logsumexp(logits) - y @ logits


def softmax_model(**changes):
    settings = {
        "loss": cross_entropy,
        "init": lambda dimensions, outputs: {"w": np.zeros((outputs, dimensions)), "b": np.zeros(outputs)},
        "outputs": lambda parameters, x: parameters["w"] @ x + parameters["b"],
        "penalty": lambda parameters: 0.005 * (parameters["w"] ** 2).sum(),
        "gauge": lambda parameters: 0.5 * parameters["b"].sum() ** 2,
        "convex": True,
    }
    return Custom(**(settings | changes))


@pytest.fixture(scope="module")
def training():
    return AutodiffTraining(softmax_model(), FEATURES, TARGETS, WEIGHTS)


@pytest.fixture(scope="module")
def fit(training):
    return training.fit(training.moved(None), training.start(), 1e-12)


def test_gradient_and_product_against_differences(training):
    rng = np.random.default_rng(0)
    at, direction = rng.normal(size=(2, training.parameter_count))
    features, step = training.moved(None), 1e-5
    (above, slope_above), (below, slope_below) = (
        training.risk_gradient(at + sign * step * direction, features) for sign in (1, -1)
    )
    slope = training.risk_gradient(at, features)[1] @ direction
    assert slope == pytest.approx((above - below) / (2 * step), rel=1e-8)
    product = training.product(at, features, direction)
    np.testing.assert_allclose(product, (slope_above - slope_below) / (2 * step), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(training.hessian(at, features) @ direction, product, rtol=1e-12, atol=1e-14)


def test_score_gradients_and_goal_against_differences(training, fit):
    rng, step = np.random.default_rng(1), 1e-5
    signal, moves = rng.normal(size=training.parameter_count), rng.normal(size=FEATURES.shape)

    def scores(sign):  # Σ_i w̄_i s_i up to a constant
        return signal @ training.risk_gradient(fit.parameters, training.moved(sign * step * moves))[1]

    rates = training.score_gradients(fit.parameters, fit.features, signal)
    expected = (scores(1) - scores(-1)) / (2 * step)
    assert WEIGHTS @ (rates * moves).sum(axis=1) == pytest.approx(expected, rel=1e-7)

    query, goal = query_of(FEATURES), goal_of(TARGETS)
    _, by_parameters, by_features = training.goal(fit.parameters, query, goal)
    for direction in np.eye(query.size):
        up, down = (training.goal(fit.parameters, query + sign * step * direction, goal)[0] for sign in (1, -1))
        assert by_features @ direction == pytest.approx((up - down) / (2 * step), rel=1e-6, abs=1e-10)
    up, down = (training.goal(fit.parameters + sign * step * signal, query, goal)[0] for sign in (1, -1))
    assert by_parameters @ signal == pytest.approx((up - down) / (2 * step), rel=1e-6)


def test_differentiates_through_training(training):
    assert_differentiates_training(training, query_of(FEATURES), goal_of(TARGETS))


def test_agrees_with_closed_form_passes_over_several_padded_chunks():
    features, targets, weights, _ = small_people(people=2_300)
    model = SoftmaxRegression(l2=0.01)
    ours = AutodiffTraining(model, features, targets, weights)
    plain = np.zeros(features.shape[1]), np.ones(features.shape[1])
    theirs = LinearTraining(model, features, targets, weights, units=plain)
    rng = np.random.default_rng(2)
    at, direction = rng.normal(size=(2, ours.parameter_count))
    moves = 0.1 * rng.normal(size=features.shape)
    mine, other = ours.moved(moves), theirs.moved(moves)
    for name in ("product", "score_gradients"):
        result = getattr(ours, name)(at, mine, direction)
        np.testing.assert_allclose(result, getattr(theirs, name)(at, other, direction), rtol=1e-10, atol=1e-12)
    (risk, slope), (their_risk, their_slope) = ours.risk_gradient(at, mine), theirs.risk_gradient(at, other)
    assert risk == pytest.approx(their_risk, rel=1e-12)
    np.testing.assert_allclose(slope, their_slope, rtol=1e-10, atol=1e-13)
    fitted = ours.fit(mine, ours.start(), 1e-11)
    np.testing.assert_allclose(fitted.parameters, theirs.fit(other, theirs.start(), 1e-11).parameters, atol=1e-8)


def test_padding_repeats_people_so_that_partial_losses_stay_finite(monkeypatch):
    monkeypatch.setattr("oar.models.autodiff.training.CHUNK", 8)
    features = np.exp(FEATURES)
    model = softmax_model(loss=lambda parameters, x, y: cross_entropy(parameters, jnp.log(x), y))
    training = AutodiffTraining(model, features, TARGETS, WEIGHTS)
    assert training.moved(None).shape == (4, 8, 3)
    risk, slope = training.risk_gradient(training.start(), training.moved(None))
    assert risk == pytest.approx(np.log(3))
    assert np.isfinite(slope).all()


def test_refits_from_scratch_give_the_same_bits_whatever_came_before(training):
    first = AutodiffTraining(training.model, FEATURES, TARGETS, WEIGHTS)
    scratch = first.fit(first.moved(None), first.start(), 1e-10)
    moved = first.fit(first.moved(np.full_like(FEATURES, 0.3)), scratch.parameters, 1e-10)
    first.solve(moved, np.ones(first.parameter_count), None, 1e-8)
    again = first.fit(first.moved(None), first.start(), 1e-10)
    np.testing.assert_array_equal(again.parameters, scratch.parameters)


def test_solves_with_a_fresh_and_with_an_old_factor_and_by_products_alone(training, fit, monkeypatch):
    right = np.random.default_rng(4).normal(size=training.parameter_count)
    moved = training.fit(training.moved(np.full_like(FEATURES, 0.2) * TARGETS), fit.parameters, 1e-12)
    for one in (fit, moved, fit):
        expected = np.linalg.solve(training.hessian(one.parameters, one.features), right)
        np.testing.assert_allclose(training.solve(one, right, None, 1e-11), expected, rtol=1e-7, atol=1e-9)
        assert training.damping == 0
    monkeypatch.setattr(curvature, "SMALL", 0)
    large = AutodiffTraining(training.model, FEATURES, TARGETS, WEIGHTS)
    by_products = large.fit(large.moved(None), large.start(), 1e-11)
    assert by_products.converged
    np.testing.assert_allclose(by_products.parameters, fit.parameters, atol=1e-8)
    expected = np.linalg.solve(training.hessian(fit.parameters, fit.features), right)
    for start in (None, expected + 1e-3, 1e6 * right):
        np.testing.assert_allclose(large.solve(fit, right, start, 1e-11), expected, rtol=1e-6, atol=1e-8)
    assert not large.solve(fit, 0 * right, None, 1e-11).any()


def quadratic(curvatures):
    """Return a training whose Hessian is the given diagonal, and a fit at its stationary point."""
    bend = np.asarray(curvatures)
    model = Custom(
        loss=lambda parameters, x, y: 0.5 * (bend * parameters**2).sum() + 0 * x.sum(),
        init=np.ones(bend.size),
        outputs=lambda parameters, x: parameters,
    )
    training = AutodiffTraining(model, [[1.0]], [[1.0]], [1.0])
    return training, Fit(np.zeros(bend.size), training.moved(None), 0.0, True)


@pytest.mark.parametrize("small", [0, 300])
def test_hessians_that_are_not_positive_definite(small, monkeypatch):
    monkeypatch.setattr(curvature, "SMALL", small)
    training, fit = quadratic([4.0, 1.0, 0.0])
    along = training.solve(fit, np.array([4.0, 3.0, 0.0]), None, 1e-10)
    np.testing.assert_allclose(along, [1.0, 3.0, 0.0], atol=1e-7)
    with pytest.raises(NumericsError, match="Hessian: must bend wherever"):
        training.solve(fit, np.ones(3), None, 1e-10)
    training, fit = quadratic([4.0, 1.0, -1.0])
    with pytest.raises(NumericsError, match="got a saddle"):
        training.solve(fit, np.ones(3), None, 1e-10)


def test_a_little_negative_curvature_is_damped_and_reported(monkeypatch):
    tilt = np.array([[1.0, 1.002], [1.002, 1.0]])  # eigenvalues 2.002 and −0.002
    model = Custom(loss=lambda p, x, y: 0.5 * p @ tilt @ p + 0 * x.sum(), init=np.ones(2), outputs=lambda p, x: p)
    for small in (300, 0):
        monkeypatch.setattr(curvature, "SMALL", small)
        training = AutodiffTraining(model, [[1.0]], [[1.0]], [1.0])
        right = np.array([1.0, 0.9])
        fit = Fit(np.zeros(2), training.moved(None), 0.0, True)
        signal = training.solve(fit, right, None, 1e-10)
        assert 0 < training.damping < 0.01
        scale = 1.0 if small else 2.002  # relative to each parameter's own curvature, or to the largest
        np.testing.assert_allclose((tilt + scale * training.damping * np.eye(2)) @ signal, right, rtol=0.05)


def test_training_without_a_minimum_does_not_converge_and_does_not_raise():
    model = Custom(loss=lambda p, x, y: p @ x + 0.0 * y.sum(), init=lambda d, o: np.zeros(d), outputs=lambda p, x: p)
    training = AutodiffTraining(model, FEATURES, TARGETS, WEIGHTS)
    assert not training.fit(training.moved(None), training.start(), 1e-8).converged
    kinked = Custom(
        loss=lambda p, x, y: jnp.abs(p @ x - y[0] - 0.3),
        init=lambda d, o: np.zeros(d),
        outputs=lambda p, x: (p @ x)[None],
    )
    training = AutodiffTraining(kinked, FEATURES, TARGETS, WEIGHTS)
    assert not training.fit(training.moved(None), training.start(), 1e-8).converged


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"init": {"w": np.zeros((3, 3)), "b": np.zeros(3, int)}}, r"float arrays, got int64 at \['b'\]"),
        (
            {"init": {"w": np.full((3, 3), np.nan), "b": np.zeros(3)}},
            "init: must be finite numbers, at least one, got 9 that",
        ),
        ({"init": []}, "init: must be finite numbers, at least one, got none"),
        ({"init": {"w": np.zeros((3, 5)), "b": np.zeros(3)}}, "d = 3, o = 3 stopped with TypeError"),
        ({"loss": lambda p, x, y: float(p["w"].sum())}, "no float()"),
        ({"loss": lambda p, x, y: np.sum(np.asarray(p["w"]))}, "Use jax.numpy throughout"),
        ({"loss": lambda p, x, y: p["w"] @ x}, r"one float for one person .* got float64 of shape \(3,\)"),
        ({"loss": lambda p, x, y: jnp.argmax(p["w"] @ x)}, "one float for one person .* got int"),
        ({"penalty": lambda p: p["w"]}, "penalty: must return one float"),
    ],
)
def test_models_that_cannot_be_trained_are_refused(changes, message):
    with pytest.raises(DataError, match=message):
        AutodiffTraining(softmax_model(**changes), FEATURES, TARGETS, WEIGHTS)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (
            lambda p, x, y: jnp.log(p["w"].sum()) + p["b"].sum(),
            "loss: it and its gradient must be finite where a refit starts, but it is not",
        ),
        (lambda p, x, y: jnp.sqrt((p["w"] ** 2).sum()) + p["b"].sum(), "but its gradient is not"),
        (lambda p, x, y: (jnp.argmax(p["w"] @ x) != jnp.argmax(y)) * 1.0, "hard decisions"),
    ],
)
def test_losses_without_numbers_or_slopes_are_refused(loss, message):
    training = AutodiffTraining(softmax_model(loss=loss, penalty=None, gauge=None), FEATURES, TARGETS, WEIGHTS)
    with pytest.raises(NumericsError, match=message):
        training.fit(training.moved(None), training.start(), 1e-8)


def test_derivatives_that_are_not_finite_are_refused(training, fit):
    norm = softmax_model(loss=lambda p, x, y: cross_entropy(p, x, y) + p["w"].sum() * jnp.sqrt((x**2).sum()))
    features = FEATURES.copy()
    features[4] = 0
    bad = AutodiffTraining(norm, features, TARGETS, WEIGHTS)
    with pytest.raises(NumericsError, match="others for 1 of 30 people .*number 4"):
        bad.score_gradients(bad.start(), bad.moved(None), np.ones(bad.parameter_count))
    with pytest.raises(NumericsError, match="query: its loss and gradients must be finite"):
        bad.goal(bad.start(), np.zeros(3), goal_of(TARGETS))
    with pytest.raises(NumericsError, match="right: must be finite"):
        training.solve(fit, np.full(training.parameter_count, np.nan), None, 1e-8)


@pytest.mark.parametrize(
    ("features", "targets", "weights", "message"),
    [
        (FEATURES[0], TARGETS, WEIGHTS, "features: must be people by features"),
        (FEATURES, TARGETS[:5], WEIGHTS, r"targets: must be people by outputs, \(30, o\)"),
        (FEATURES, TARGETS, WEIGHTS[:5], "weights: must be one for each of the 30"),
        (FEATURES * np.nan, TARGETS, WEIGHTS, "features: must be finite, got 90"),
        (FEATURES, TARGETS, 2 * WEIGHTS, "a sum of 2"),
        (FEATURES, TARGETS, -WEIGHTS, "must not be negative"),
    ],
)
def test_data_that_do_not_fit_are_refused(features, targets, weights, message):
    with pytest.raises(DataError, match=message):
        AutodiffTraining(softmax_model(), features, targets, weights)


def test_compiled_once_for_a_model_and_shape_and_no_setting_is_touched():
    traces = []

    def loss(parameters, x, y):
        traces.append(1)
        return cross_entropy(parameters, x, y)

    model = softmax_model(loss=loss)
    counts = []
    for _ in range(2):
        training = AutodiffTraining(model, FEATURES, TARGETS, WEIGHTS)
        training.fit(training.moved(None), training.start(), 1e-6)
        counts.append(len(traces))
    assert counts[1] == counts[0]
    assert jnp.ones(1).dtype == np.float32


def test_parameters_go_to_their_own_form_and_back(training, fit):
    own = training.parameters(fit.parameters)
    assert set(own) == {"w", "b"}
    assert own["w"].dtype == np.float64
    np.testing.assert_array_equal(training.flat(own), fit.parameters)
    expected = own["w"] @ FEATURES[0] + own["b"]
    np.testing.assert_allclose(training.outputs(fit.parameters, FEATURES[0]), expected, rtol=1e-12)

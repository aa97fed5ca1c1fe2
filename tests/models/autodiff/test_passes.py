"""Scores and their gradients: finite differences, the passes over everyone, and the loss along the signal."""

import numpy as np
import pytest

import oar
from oar.models import MLP, GaussianNaiveBayes, LinearSVM, PrototypeNetwork, Ridge, SoftmaxRegression
from oar.models.autodiff.passes import flattened
from oar.models.serialize import parameter_count

MODELS = [
    SoftmaxRegression(0.02),
    LinearSVM(0.02),
    Ridge(0.1),
    GaussianNaiveBayes(smoothing=0.01),
    PrototypeNetwork(),
    PrototypeNetwork((3, 2)),
    PrototypeNetwork((3, 2), train_embedding=True),
    MLP((4,)),
    MLP((4,), loss="squared"),
]
KINDS = [f"{model.name}-{number}" for number, model in enumerate(MODELS)]


def world(model, classes, seed=0, size=9):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(size, 3))
    targets = rng.normal(size=(size, classes)) if model.regresses else rng.dirichlet(np.ones(classes), size)
    targets = model.target_rows(targets)
    parameters, signal = rng.normal(0, 0.7, (2, parameter_count(model, 3, targets.shape[1])))
    return rows, targets, parameters, signal


@pytest.mark.parametrize("model", MODELS, ids=KINDS)
@pytest.mark.parametrize("classes", [2, 3])
def test_gradients_are_finite_differences_of_scores(model, classes):
    rows, targets, parameters, signal = world(model, classes)
    score, step = model.member_score(parameters, signal), 1e-6
    values, gradients = score(rows, targets)
    assert values.shape == (9,)
    for axis in range(3):
        ahead = step * np.eye(3)[axis]
        slopes = (score(rows + ahead, targets)[0] - score(rows - ahead, targets)[0]) / (2 * step)
        np.testing.assert_allclose(gradients[:, axis], slopes, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("model", MODELS, ids=KINDS)
def test_a_score_is_the_change_of_the_loss_along_the_signal(model):
    """s = vᵀ∇_θ ℓ, by finite differences in θ."""
    import jax

    rows, targets, parameters, signal = world(model, 3)
    values, step = model.member_score(parameters, signal)(rows, targets)[0], 1e-6
    with jax.enable_x64(True):
        unravel = flattened(model, 3, targets.shape[1])[1]
        for row, target, value in zip(rows, targets, values, strict=True):
            up, down = (
                float(model.example_loss(unravel(parameters + sign * step * signal), row, target)) for sign in (1, -1)
            )
            assert value == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("model", MODELS, ids=KINDS)
def test_gradients_are_those_of_the_solvers_passes(model):
    rng = np.random.default_rng(3)
    labels = rng.normal(size=12) if model.regresses else np.arange(12) % 3
    people = oar.Population(rng.normal(size=(12, 3)), labels)
    training = model.training(people)
    parameters, signal = rng.normal(0, 0.5, (2, training.parameter_count))
    given = getattr(training, "in_given_units", lambda vector: vector)
    _, gradients = model.member_score(given(parameters), given(signal))(people.features, model.targets(people))
    expected = training.score_gradients(parameters, training.moved(None), signal)
    np.testing.assert_allclose(gradients, expected, rtol=1e-9, atol=1e-12)


def test_scores_that_are_not_finite_are_refused_by_name():
    model = GaussianNaiveBayes(smoothing=0.0)
    rows, targets, parameters, signal = world(model, 2)
    with pytest.raises(oar.errors.NumericsError, match="score of gaussian-naive-bayes and its gradient must be finite"):
        model.member_score(parameters, signal)(rows * 1e200, targets)

"""The same passes by NumPy for few people and by XLA for many."""

from __future__ import annotations

import numpy as np
import pytest

import oar.models.linear.training as module
from oar.models import LinearSVM, Ridge, SoftmaxRegression
from oar.models.linear.training import LinearTraining

MODELS = [SoftmaxRegression(0.02), LinearSVM(0.02), LinearSVM(0.02, penalise_intercept=True), Ridge(0.02)]


def training_of(model, size, outputs, seed=0):
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(size, 3))
    targets = np.eye(outputs)[generator.integers(outputs, size=size)]
    if model.regresses:
        targets = generator.normal(size=(size, outputs))
    elif outputs == 2:
        targets = targets[:, 1:]
    weights = generator.uniform(0.1, 1.0, size)
    return LinearTraining(model, features, targets, weights / weights.sum())


@pytest.mark.parametrize(("size", "outputs"), [(1, 2), (30, 3), (1_300, 2), (1_300, 3)])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_numpy_and_compiled_passes_agree(model, outputs, size, monkeypatch):
    """Also where few people are more than a compiled chunk holds."""
    few = training_of(model, size, outputs)
    monkeypatch.setattr(module, "FEW", 0)
    many = training_of(model, size, outputs)
    assert few._few
    assert not many._few
    generator = np.random.default_rng(1)
    parameters, direction = generator.normal(size=(2, few.parameter_count))
    moves = 0.3 * generator.normal(size=(size, 3))
    one, other = few.moved(moves), many.moved(moves)
    for left, right in zip(few.risk_gradient(parameters, one), many.risk_gradient(parameters, other), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-13)
    for name, arguments in (("product", (direction,)), ("hessian", ()), ("score_gradients", (direction,))):
        left = getattr(few, name)(parameters, one, *arguments)
        right = getattr(many, name)(parameters, other, *arguments)
        np.testing.assert_allclose(left, right, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(few._run("gram", one)[0], sum(many._run("gram", other)), rtol=1e-12)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_refits_and_signals_agree_whatever_is_kept_of_the_curvature(model, monkeypatch):
    quick = training_of(model, 60, 3)
    monkeypatch.setattr(module, "QUICK", 0)
    slow = training_of(model, 60, 3)
    assert quick._quick
    assert not slow._quick
    moves = 0.3 * np.random.default_rng(2).normal(size=(60, 3))
    one, other = (it.fit(it.moved(moves), it.start(), 1e-11) for it in (quick, slow))
    np.testing.assert_allclose(one.parameters, other.parameters, atol=1e-9)
    pull = np.random.default_rng(3).normal(size=quick.parameter_count)
    solved = quick.solve(one, pull, None, 1e-10)
    np.testing.assert_allclose(solved, slow.solve(other, pull, None, 1e-10), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(quick.product(one.parameters, one.features, solved), pull, atol=1e-8)

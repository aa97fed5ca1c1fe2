"""Training far out: rates that are too high, features beyond all scales. pytest turns every warning into an error."""

import jax.numpy as jnp
import numpy as np
import pytest
from support.differentiation import small_people

from oar.errors import NumericsError
from oar.models.autodiff.custom import Custom
from oar.models.autodiff.mlp import MLP
from oar.models.autodiff.training import AutodiffTraining
from oar.models.centroid.prototypes import PrototypeNetwork
from oar.models.fit.quasi_newton import conjugate_gradients, in_range

FEATURES, TARGETS, WEIGHTS, _ = small_people()


def trained(model, features=FEATURES):
    training = AutodiffTraining(model, features, TARGETS, WEIGHTS)
    return training.fit(training.moved(None), training.start(), 1e-8)


def test_what_can_be_reckoned_with():
    assert in_range(np.array([0.0, -1e150]))
    for wild in (np.nan, np.inf, -np.inf, 1e151):
        assert not in_range(np.array([0.0, wild]))


def test_a_descent_whose_curvature_grows_on_the_way_is_given_up_and_training_goes_on():
    # Up to 1 the curvature is 0.01, and momentum takes steps to match; beyond it is 100, and each step overshoots more.
    def loss(parameters, x, y):
        beyond = jnp.maximum(jnp.abs(parameters) - 1, 0.0)
        return (0.005 * parameters**2 - 10 * parameters + 50 * beyond**2).sum() + 0.0 * x.sum()

    fit = trained(Custom(loss=loss, init=np.zeros(2), outputs=lambda parameters, x: parameters))
    assert fit.converged
    np.testing.assert_allclose(fit.parameters, 110 / 100.01, rtol=1e-10)  # where 0.01 p − 10 + 100 (p − 1) = 0


NETWORKS = [
    (MLP, {"hidden": (4,)}),
    (PrototypeNetwork, {"embedding": (4, 2), "train_embedding": True}),
]


@pytest.mark.parametrize(("kind", "settings"), NETWORKS, ids=["mlp", "prototypes"])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_features_beyond_all_scales(kind, settings, activation, monkeypatch):
    monkeypatch.setattr("oar.models.fit.minimise.MOST_WALKS", 50)
    fit = trained(kind(**settings, activation=activation, l2=1e-9), 1e6 * FEATURES)
    assert np.isfinite(fit.parameters).all()
    assert np.isfinite(fit.residual)


def test_features_that_nothing_can_be_reckoned_with_are_refused():
    model = PrototypeNetwork((4, 2), train_embedding=True, activation="relu")
    with pytest.raises(NumericsError, match="its gradient is not, .* features far out of scale"):
        trained(model, 1e150 * FEATURES)


def test_products_that_are_not_numbers_end_conjugate_gradients():
    for wild in (np.inf, np.nan, 1e200):
        solved = conjugate_gradients(lambda direction, wild=wild: direction * wild, np.ones(3), 1e-9, 10)
        assert np.isnan(solved.residual)
        assert not solved.solution.any()

"""Refits near a minimum: the trust region against brute force, few passes, tight residuals, and the same valley."""

import numpy as np
import pytest
from support.differentiation import small_people
from threadpoolctl import threadpool_info

from oar.errors import NumericsError
from oar.models.autodiff.mlp import MLP
from oar.models.autodiff.training import AutodiffTraining
from oar.models.centroid.prototypes import PrototypeNetwork
from oar.models.fit.curvature import spectrum
from oar.models.fit.one_thread import one_thread

FEATURES, TARGETS, WEIGHTS, _ = small_people()


def hessian_with(values, seed=0):
    """Return a symmetric matrix with these eigenvalues, turned at random."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(len(values),) * 2))[0]
    return turn @ np.diag(values) @ turn.T


@pytest.mark.parametrize("values", [[1.0, 2, 3, 4], [-1.0, 0.5, 2, 4], [0.0, 1, 2, 3], [-3.0, -2, -1, 1]])
@pytest.mark.parametrize("radius", [0.01, 0.5, 100.0])
def test_a_step_within_the_radius_is_the_best_one(values, radius):
    rng = np.random.default_rng(1)
    hessian, gradient = hessian_with(values), rng.normal(size=4)
    found = spectrum(hessian)
    step, fall = found.step_within(gradient, radius)

    def quadratic(at):
        return at @ gradient + 0.5 * np.einsum("...i,ij,...j->...", at, hessian, at)

    assert found.length(step) <= radius * (1 + 1e-9)
    assert fall == pytest.approx(-quadratic(step), rel=1e-9)
    others = rng.normal(size=(20_000, 4))
    others *= radius / np.linalg.norm(others / found.scale, axis=1, keepdims=True)
    others[::2] *= rng.uniform(size=(10_000, 1))
    assert quadratic(step) <= quadratic(others).min() + 2e-3 * fall


def test_a_step_has_the_same_effect_in_other_units():
    rng = np.random.default_rng(2)
    hessian, gradient, units = hessian_with([-1.0, 0.5, 2, 4]), rng.normal(size=4), 10.0 ** np.array([-1, 0, 1, 2])
    step, fall = spectrum(hessian).step_within(gradient, 0.5)
    scaled, same = spectrum(hessian * units[:, None] * units).step_within(gradient * units, 0.5)
    np.testing.assert_allclose(scaled * units, step, rtol=1e-6)
    assert same == pytest.approx(fall, rel=1e-6)


def test_spectra_of_what_is_no_hessian_are_refused():
    with pytest.raises(NumericsError, match="second derivatives must be finite"):
        spectrum(np.full((2, 2), np.nan))
    with pytest.raises(NumericsError, match="diagonal is zero"):
        spectrum(np.zeros((2, 2)))


@pytest.mark.parametrize(
    "model", [MLP((4,), l2=1e-2), PrototypeNetwork((4, 2), train_embedding=True)], ids=["mlp", "prototypes"]
)
def test_warm_refits_take_few_passes_to_a_tight_residual(model):
    training = AutodiffTraining(model, FEATURES, TARGETS, WEIGHTS)
    fit = training.fit(training.moved(None), training.start(), 1e-8)
    moves = np.random.default_rng(0).normal(size=FEATURES.shape)
    for size, most in ((1e-4, 12), (1e-2, 30), (1e-1, 60)):
        before = training.passes
        warm = training.fit(training.moved(size * moves), fit.parameters, 1e-11)
        assert warm.converged
        assert training.passes - before <= most, size
        # and back again, to where it came from
        back = training.fit(training.moved(None), warm.parameters, 1e-11)
        np.testing.assert_allclose(back.parameters, fit.parameters, atol=1e-6)


def test_dead_hidden_units_do_not_stall_a_refit():
    rng, codes = np.random.default_rng(0), np.arange(40) % 3
    rng.normal(size=(12, 3))
    features = rng.normal(size=(40, 3)) + codes[:, None]
    model = PrototypeNetwork((8, 1), train_embedding=True)
    training = AutodiffTraining(model, features, np.eye(3)[codes], np.full(40, 1 / 40))
    fit = training.fit(training.moved(None), training.start(), 1e-9)
    incoming = np.abs(training.parameters(fit.parameters)["network"][0]["weights"]).max(axis=1)
    assert (incoming < 1e-6).any()  # units whose biases nothing depends on
    assert fit.converged


def test_small_matrices_are_held_to_one_thread():
    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = threads()
    with one_thread():
        assert set(threads()) == {1}
    assert threads() == before

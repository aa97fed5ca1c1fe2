"""scikit-learn's naive Bayes and ours are one model: whoever refits, the query gets the same outputs and loss."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from support.differentiation import small_people

import oar
from oar.models import MLP, Custom, Ensemble, GaussianNaiveBayes, LinearSVM, PrototypeNetwork, SoftmaxRegression
from oar.plans import Independence
from oar.referee.witnesses import refits as witnesses
from oar.referee.witnesses.scipy_refits import confirmation

FEATURES, TARGETS, WEIGHTS, CODES = small_people()
MOVES = 0.5 * np.random.default_rng(0).normal(size=FEATURES.shape)
GOAL = np.array([1.0, 0.0, 0.0])


@pytest.mark.parametrize("smoothing", [1e-9, 0.3, 0.0])
@pytest.mark.parametrize("weights", [None, WEIGHTS, 1e-12 * WEIGHTS], ids=["equal", "weighted", "tiny weights"])
@pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])
@pytest.mark.parametrize("units", [(1.0, 0.0), (np.array([1.0, 100.0, 0.01]), np.array([0.0, 1e4, 5.0]))])
def test_naive_bayes_is_scikit_learns(smoothing, weights, soft, units):
    scale, shift = units
    before, after = scale * FEATURES + shift, scale * (FEATURES + MOVES) + shift
    people = oar.Population(before, 0.8 * TARGETS + 0.2 / 3 if soft else CODES, weights)
    query, model = after[:2].mean(axis=0), GaussianNaiveBayes(var_smoothing=smoothing)
    outside, own = (find(model, people, after) for find in (witnesses.refit, witnesses._own_refit))
    assert outside.witness == "scikit-learn GaussianNB"
    np.testing.assert_allclose(*(one.outputs(query[None]) for one in (outside, own)), rtol=1e-9, atol=1e-9)
    assert outside.loss(query, GOAL) == pytest.approx(own.loss(query, GOAL), rel=1e-9, abs=1e-9)


def test_the_audit_of_naive_bayes_is_by_scikit_learn_and_confirms_the_claim():
    people = oar.Population(FEATURES, CODES)
    problem = oar.Problem(people, GaussianNaiveBayes(), oar.Query(FEATURES[1], goal=0), oar.Perturb(0.5))
    result = oar.collective(problem, solver="one-shot")
    assert result.audit.witness == "scikit-learn GaussianNB"
    assert result.loss == pytest.approx(result.proposal.claimed_loss, rel=1e-8)


def test_people_who_are_all_the_same_are_left_to_our_own_training():
    people = oar.Population(np.ones((6, 2)), [0, 1] * 3)
    model = GaussianNaiveBayes(smoothing=1.0)
    told = witnesses.refit(model, people, people.features)
    assert "own training" in told.witness
    assert told.loss(np.zeros(2), np.array([1.0, 0.0])) == pytest.approx(np.log(2))


def test_networks_are_refitted_by_their_own_training_which_another_optimiser_confirms():
    told = witnesses.refit(MLP((2,)), oar.Population(FEATURES, CODES), FEATURES)
    assert told.witness == "mlp's own training, from scratch; SciPy's L-BFGS-B finds nothing lower around it"
    assert told.independence is Independence.OPTIMISER


def test_a_fit_that_is_no_minimum_is_not_confirmed():
    training = MLP((2,)).training(oar.Population(FEATURES, CODES))
    fit = training.fit(training.moved(None), training.start(), 1e-10)
    assert confirmation(training, fit, convex=False)
    elsewhere = replace(fit, parameters=fit.parameters + 0.1)
    assert not confirmation(training, elsewhere, convex=False)
    assert not confirmation(training, elsewhere, convex=True)


def poisson(convex):
    return Custom(
        loss=lambda parameters, x, y: (
            jnp.exp(parameters["w"] @ x + parameters["b"]) - y[0] * (parameters["w"] @ x + parameters["b"])
        ),
        init=lambda d, o: {"w": np.zeros(d), "b": np.zeros(())},
        outputs=lambda parameters, x: jnp.exp(parameters["w"] @ x + parameters["b"])[None],
        penalty=lambda parameters: 0.05 * (parameters["w"] ** 2).sum(),
        regresses=True,
        convex=convex,
    )


def test_a_convex_model_of_the_users_is_confirmed_from_elsewhere():
    people = oar.Population(FEATURES, np.exp(0.3 * FEATURES[:, 0]))
    told = witnesses.refit(poisson(True), people, FEATURES)
    assert told.witness.endswith("SciPy's L-BFGS-B reaches the same minimum from elsewhere")
    assert told.independence is Independence.OPTIMISER


SVM = [LinearSVM(0.01), LinearSVM(1e-4), LinearSVM(0.01, penalise_intercept=True), SoftmaxRegression(0.0)]


@pytest.mark.parametrize("labels", ["two", "three", "soft"])
@pytest.mark.parametrize(
    "model", [*SVM, PrototypeNetwork(), PrototypeNetwork((3, 2)), Ensemble((SVM[0], SVM[3]), (None, 1))]
)
def test_a_witness_that_shares_no_code_agrees_with_the_models_own_training(model, labels):
    scaled = FEATURES * [1.0, 30.0, 0.1] + [0.0, 50.0, 1.0]
    given = {"two": CODES % 2, "three": CODES, "soft": 0.5 * TARGETS + 0.5 / 3}[labels]
    people = oar.Population(scaled, given, WEIGHTS)
    goal, query = model.goal_target(people, people.classes[1]), scaled[0] + 0.1
    told, own = (find(model, people, scaled + MOVES) for find in (witnesses.refit, witnesses._own_refit))
    assert told.independence is Independence.IMPLEMENTATION
    assert "own training" not in told.witness
    assert told.loss(query, goal) == pytest.approx(own.loss(query, goal), rel=1e-7)


def test_what_has_no_minimum_is_refused_by_the_audit_too():
    apart = FEATURES + 100.0 * CODES[:, None]
    with pytest.raises(oar.errors.NumericsError, match="optimum is at infinity"):
        witnesses.refit(SoftmaxRegression(0.0), oar.Population(apart, CODES), apart)


@pytest.mark.parametrize("scales", [(1.0, 1.0), (1.0, 1e6), (1e6, 1e6)])
@pytest.mark.parametrize("seed", range(4))
def test_features_of_unlike_scales_are_still_audited_right(scales, seed):
    """The judge: Newton's method written out here, in units in which both features are of size 1."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(seed)
    codes = np.arange(40) % 3
    plain = rng.normal(0, 0.8, (3, 2))[codes] + rng.normal(size=(40, 2))
    rows, l2, query = np.column_stack([plain, np.ones(40)]), 1e-4, np.append(plain[:3].mean(axis=0), 1.0)
    pressed = l2 / np.append(np.square(scales), np.inf)

    def risk(flat):
        matrix = flat.reshape(3, 3)
        logits = rows @ matrix.T
        shares = np.exp(logits - np.logaddexp.reduce(logits, axis=1)[:, None])
        value = -np.log(shares[np.arange(40), codes]).mean() + 0.5 * (pressed * matrix**2).sum()
        return value, ((shares - np.eye(3)[codes]).T @ rows / 40 + pressed * matrix).ravel()

    found = minimize(risk, np.zeros(9), jac=True, method="BFGS", options={"gtol": 1e-11}).x.reshape(3, 3)
    logits = found @ query
    problem = oar.Problem(
        oar.Population(plain * scales, codes),
        oar.models.SoftmaxRegression(l2),
        oar.Query(query[:2] * scales, 1),
        oar.Perturb(0.0),
    )
    assert oar.collective(problem).loss == pytest.approx(np.logaddexp.reduce(logits) - logits[1], abs=1e-6)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 3_000.0, 1e6])
@pytest.mark.parametrize("l2", [1e-3, 0.1])
def test_machines_are_audited_right_at_every_scale(scale, l2):
    """The judge: trust-region and quasi-Newton steps of SciPy, on variables of size 1."""
    from scipy.optimize import minimize

    model, codes = LinearSVM(l2, penalise_intercept=True), np.arange(40) % 2
    for seed in range(20):
        rng = np.random.default_rng(seed)
        features = (rng.normal(0, 0.8, (2, 3))[codes] + rng.normal(size=(40, 3))) * scale
        sizes = np.append(np.sqrt((features**2).mean(axis=0)), 1.0)
        rows, signs, pressed = np.column_stack([features, np.ones(40)]) / sizes, 2 * codes - 1, l2 / sizes**2

        def risk(at, rows=rows, signs=signs, pressed=pressed):
            short = np.maximum(0, 1 - signs * (rows @ at))
            return (short**2).mean() + 0.5 * (pressed * at**2).sum(), -2 * rows.T @ (signs * short) / 40 + pressed * at

        def hessian(at, rows=rows, signs=signs, pressed=pressed):
            return 2 * (rows * (signs * (rows @ at) < 1)[:, None]).T @ rows / 40 + np.diag(pressed)

        at = np.zeros(4)
        for method, extra in (("trust-exact", {"hess": hessian}), ("BFGS", {})):
            at = minimize(risk, at, jac=True, method=method, options={"gtol": 1e-13}, **extra).x
        query, people = features[:3].mean(axis=0), oar.Population(features, codes)
        expected = at @ (np.append(query, 1.0) / sizes)
        told, own = (find(model, people, features) for find in (witnesses.refit, witnesses._own_refit))
        assert told.converged
        assert own.converged
        assert told.outputs(query[None])[0, 0] == pytest.approx(expected, abs=1e-6)
        assert own.outputs(query[None])[0, 0] == pytest.approx(expected, abs=1e-6)

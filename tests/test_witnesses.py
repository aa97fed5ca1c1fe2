"""scikit-learn's naive Bayes and ours are one model: whoever refits, the query gets the same outputs and loss."""

import numpy as np
import pytest
from differentiation import small_people

import oar
from oar.audit import witnesses
from oar.models import MLP, GaussianNaiveBayes, PrototypeNetwork

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
    outside = witnesses.testify(model, people, after, query, GOAL)
    own = witnesses._own_training(model, people, after, query, GOAL)
    assert outside.witness == "scikit-learn GaussianNB"
    np.testing.assert_allclose(outside.outputs, own.outputs, rtol=1e-9, atol=1e-9)
    assert outside.loss == pytest.approx(own.loss, rel=1e-9, abs=1e-9)


def test_the_audit_of_naive_bayes_is_by_scikit_learn_and_confirms_the_claim():
    people = oar.Population(FEATURES, CODES)
    problem = oar.Problem(people, GaussianNaiveBayes(), oar.Query(FEATURES[1], goal=0), oar.Perturb(0.5))
    result = oar.collective(problem, solver="one-shot")
    assert result.audit.witness == "scikit-learn GaussianNB"
    assert result.loss == pytest.approx(result.proposal.claimed_loss, rel=1e-8)


def test_people_who_are_all_the_same_are_left_to_our_own_training():
    people = oar.Population(np.ones((6, 2)), [0, 1] * 3)
    model = GaussianNaiveBayes(smoothing=1.0)
    told = witnesses.testify(model, people, people.features, np.zeros(2), np.array([1.0, 0.0]))
    assert "own training" in told.witness
    assert told.loss == pytest.approx(np.log(2))


@pytest.mark.parametrize("model", [PrototypeNetwork(), MLP((2,))], ids=["prototypes", "mlp"])
def test_others_are_refitted_by_their_own_training(model):
    told = witnesses.testify(model, oar.Population(FEATURES, CODES), FEATURES, FEATURES[0], GOAL)
    assert told.witness == f"{model.name}'s own training, from scratch"

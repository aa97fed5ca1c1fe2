"""Soft labels: the best answer to a slope by linear programming, and labels that no others beat."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from support.lever_problems import CLASSIFIERS, REGRESSORS, before_of, problem_of

import oar
from oar.actions.relabel import RelabelLimits
from oar.models import SoftmaxRegression
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import OwnTraining
from oar.solvers.discrete.soft_labels import best_labels


@given(seed=st.integers(0, 10_000), soft=st.floats(0, 1), classes=st.integers(2, 4))
def test_the_best_answer_is_that_of_a_linear_programme(seed, soft, classes):
    rng = np.random.default_rng(seed)
    given_label = np.eye(classes)[0] if seed % 2 else rng.dirichlet(np.ones(classes))
    slopes, allowed = rng.normal(size=classes), rng.random(classes) < 0.7
    allowed[rng.integers(classes)] = True
    limits = RelabelLimits(np.array([True]), 0, soft, allowed)
    found = best_labels(given_label[None], slopes[None], limits, False)[0]
    # y = given + up − down, with up only where allowed, Σ up = Σ down ≤ soft, down ≤ given
    answer = linprog(
        np.concatenate([-slopes, slopes]),
        A_eq=[np.concatenate([np.ones(classes), -np.ones(classes)])],
        b_eq=[0.0],
        A_ub=[np.concatenate([np.ones(classes), np.zeros(classes)])],
        b_ub=[soft],
        bounds=[(0, 1 if ok else 0) for ok in allowed] + [(0, share) for share in given_label],
    )
    assert slopes @ (found - given_label) == pytest.approx(
        -answer.fun, abs=1e-7
    )  # as little as linprog lets a constraint be broken
    assert found.sum() == pytest.approx(1.0)
    assert found.min() >= -1e-12
    assert np.abs(found - given_label).sum() / 2 <= soft + 1e-12
    assert (found[~allowed] <= given_label[~allowed] + 1e-12).all()


def test_outsiders_keep_their_labels():
    limits = RelabelLimits(np.array([True, False]), 0, 0.5, np.ones(2, dtype=bool))
    found = best_labels(np.eye(2), np.array([[0.0, 1.0], [1.0, 0.0]]), limits, False)
    np.testing.assert_allclose(found, [[0.5, 0.5], [0.0, 1.0]])


@pytest.mark.parametrize("name", ["softmax", "bayes", "prototypes", "ridge"])
def test_no_random_labels_do_better(name):
    """Small changes are nearly linear, so what is found must beat anything drawn."""
    problem = problem_of(3, (CLASSIFIERS | REGRESSORS)[name], oar.Relabel(soft=0.05), 3, 15)
    result = oar.collective(problem)
    assert result.proposal.finished
    retraining, rows, rng = OwnTraining(problem, 1e-9), before_of(problem).targets, np.random.default_rng(0)
    for _ in range(30):
        slopes = rng.normal(size=rows.shape)
        drawn = best_labels(rows, slopes, problem.levers.relabel, problem.regresses)
        assert retraining.aimed(Contribution(targets=drawn)).loss >= result.loss - 1e-9


def test_the_certificate_closes_and_means_something():
    """A closed gap bounds what another full answer could still gain to first order."""
    result = oar.collective(problem_of(3, SoftmaxRegression(0.05), oar.Relabel(soft=0.1), 3, 30))
    assert result.proposal.finished
    assert 0 <= result.gap <= 1e-5 * result.loss


def test_soft_labels_do_at_least_what_random_flips_in_expectation_would():
    """Everyone's tenth is a richer set than a tenth of everyone, and the loss found is lower."""
    soft = oar.collective(problem_of(3, SoftmaxRegression(0.05), oar.Relabel(soft=0.1), 2, 30))
    rng, losses = np.random.default_rng(0), []
    retraining, rows = OwnTraining(soft.problem, 1e-9), before_of(soft.problem).targets
    for _ in range(20):
        flipped = rows.copy()
        some = rng.choice(30, 3, replace=False)
        flipped[some] = flipped[some][:, ::-1]
        losses.append(retraining.aimed(Contribution(targets=flipped)).loss)
    assert soft.loss < np.mean(losses)

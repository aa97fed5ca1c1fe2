"""Budgets beyond all measure: whoever may move farther may also move as far as helps."""

import numpy as np
import pytest

import oar
from oar import models

RNG = np.random.default_rng(0)
FEATURES, CODES = RNG.normal(size=(30, 2)), RNG.integers(0, 2, 30)
FEATURES[CODES == 1] += 1.0
QUICK = {"solver": oar.solvers.ProjectedGradient(restarts=0, max_steps=50)}


@pytest.mark.parametrize("budget", [1e6, 1e9, 1e12, 1e15])
@pytest.mark.parametrize("model", [models.SoftmaxRegression(0.1), models.LinearSVM(0.1)], ids=lambda model: model.name)
def test_a_budget_of_any_size_is_used(model, budget):
    people, query = oar.Population(FEATURES, CODES), oar.Query([-0.5, 0.2], goal=1)
    problem = oar.Problem(people, model, query, oar.Perturb(budget))
    for result in (oar.individual(problem), oar.collective(problem, **QUICK), oar.joint(problem, **QUICK)):
        assert result.success
        assert result.loss < 1e-3 * result.loss_before
        assert not result.disagreement


@pytest.mark.parametrize("weight", [1e308, 1e150, 1e-320])
def test_weights_whose_sums_would_not_hold_are_refused_with_the_cure(weight):
    with pytest.raises(
        oar.errors.DataError, match="weights: the largest must be between .*divide all of them by the largest"
    ):
        oar.Population(FEATURES, CODES, weights=np.full(30, weight))

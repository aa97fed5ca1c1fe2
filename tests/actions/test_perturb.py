"""Budgets as they are given."""

import pytest

import oar


@pytest.mark.parametrize("budget", [[[1, 2], [3]], [1.0, [2.0]]])
def test_rows_of_different_lengths_are_no_budgets(budget):
    people = oar.Population([[0.0], [1.0]], [0, 1])
    with pytest.raises(oar.errors.DataError, match="budget: must be numbers"):
        oar.Problem(people, oar.NearestCentroid(), oar.Query([0.5], 1), oar.Perturb(budget))
    with pytest.raises(oar.errors.DataError, match="Query budget: must be a number"):
        oar.Problem(people, oar.NearestCentroid(), oar.Query([0.5], 1, budget=budget), oar.Perturb(1.0))

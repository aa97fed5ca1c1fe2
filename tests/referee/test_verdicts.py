"""Goals that are reached at their edge: a probability, a range; what is a tie there is never less than nothing."""

from __future__ import annotations

import numpy as np
import pytest

import oar

rng = np.random.default_rng(0)
X = rng.normal(0, 1, (80, 2))


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_probability_that_is_asked_for_has_no_tie(share):
    people = oar.Population(X, np.where(X[:, 0] > 0, "yes", "no"))
    query = oar.Query([-0.2, 0.0], "yes", probability=share)
    audit = oar.collective(oar.Problem(people, oar.models.SoftmaxRegression(l2=0.1), query, oar.Perturb(0.5))).audit
    assert audit.tie == 0
    assert audit.success == (audit.queries[0].probability >= share)
    assert audit.margin == pytest.approx(audit.queries[0].probability - share)


def test_a_range_that_is_asked_for_has_no_tie():
    people = oar.Population(X, X[:, 0])
    problem = oar.Problem(people, oar.models.Ridge(), oar.Query([0.0, 0.0], oar.Between(0.01, 9.0)), oar.Perturb(0.5))
    audit = oar.collective(problem).audit
    assert audit.tie == 0
    assert audit.success

"""Limits on side effects after the last round: kept, counted once for each person, and measured again by the audit."""

from dataclasses import replace

import numpy as np
import pytest
from support.online_problems import three_rounds

import oar
from oar.online import FullRefit, GradientSteps

SOFTMAX = oar.SoftmaxRegression(0.1)
HALF = np.isin(np.arange(18) % 6, [0, 3, 4])  # persons 0, 3 and 4, in all of their rounds


def shifted(problem, result):
    """Return whose prediction changes (persons, by their last rows) of those who do nothing in any round."""
    walk, people = oar.online.Rollout(problem), problem.people
    before, after = (walk.forward(moves).parameters[-1] for moves in (None, result.plan.each))
    rows = np.arange(12, 18)  # the last round: everybody's last row
    old, new = (walk.outputs(theta, people.features[rows]) for theta in (before, after))
    codes = [(out[:, 0] > 0) if out.shape[1] == 1 else out.argmax(axis=1) for out in (old, new)]
    acts = result.plan.each.any(axis=1).reshape(3, 6).any(axis=0)
    return (codes[0] != codes[1])[~acts]


CASES = {
    "centroids": (oar.NearestCentroid(), FullRefit()),
    "softmax": (SOFTMAX, FullRefit()),
    "softmax, steps": (SOFTMAX, GradientSteps(0.6, 3)),
}


@pytest.mark.parametrize("case", CASES)
def test_what_may_change_for_others_is_kept(case):
    model, rule = CASES[case]
    query, action = oar.Query([1.6, 1.2], "no"), oar.Perturb(2.5, participants=HALF)
    free = replace(three_rounds(model, rule), query=query, action=replace(action, participants=_mask(model, rule)))
    result = oar.collective(free, effort="quick")
    share = shifted(free, result).mean() if rule == FullRefit() else None
    strict = replace(free, keep=oar.Keep(changed=0.0))
    told = oar.audit(strict, result.plan.each).violations
    kept = oar.collective(strict, effort="quick")
    assert kept.audit.violations == ()
    assert kept.loss <= kept.loss_before + 1e-9
    if share is not None:
        assert share > 0
        assert bool(told) == bool(share)
        assert f"predictions of {share:.2%} of the bystanders change" in told[0]
        assert kept.loss > result.loss
        assert not shifted(free, kept).any()


def _mask(model, rule):
    problem = three_rounds(model, rule)
    return np.concatenate([HALF, np.zeros(problem.people.size - 18, dtype=bool)])


def test_a_limit_that_is_not_reached_changes_nothing():
    problem = three_rounds(oar.NearestCentroid(), FullRefit())
    loose = replace(problem, keep=oar.Keep(changed=1.0))
    assert oar.collective(loose).loss == oar.collective(problem).loss
    assert oar.individual(loose).loss == oar.individual(problem).loss

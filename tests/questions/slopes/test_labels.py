"""The leverage of labels and of leaving is the slope of the loss over true refits, in small shares of both."""

from dataclasses import replace

import numpy as np
import pytest

import oar
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import retraining_of

SIZE = 24


def problem_of(model, action, values=False):
    rng = np.random.default_rng(1)
    codes = np.arange(SIZE) % 3
    features = 2 * rng.normal(size=(3, 2))[codes] + rng.normal(size=(SIZE, 2))
    labels = features @ [1.0, -0.5] + 0.2 * rng.normal(size=SIZE) if values else codes
    query = oar.Query(features[0] + 0.2, 1.4, within=0.1) if values else oar.Query(features[0] + 0.2, 2)
    people = oar.Population(features, labels, rng.choice([0.5, 1.0, 2.0], SIZE))
    return oar.Problem(people, model, query, action)


def loss_after(problem, targets=None, weights=None):
    return retraining_of(problem).verdict(Contribution(None, targets, weights)).loss


def before(problem):
    return Contribution.of(problem.people, problem.regresses)


@pytest.mark.parametrize("model", [oar.SoftmaxRegression(l2=0.05), oar.models.GaussianNaiveBayes()])
def test_another_label_is_a_share_of_a_flip(model):
    problem = problem_of(model, oar.Relabel(most=3, participants=np.arange(SIZE) < 20))
    found, step = oar.questions.leverage(problem), 1e-4
    assert (found.labels[20:] == 0).all()
    assert found.acts.sum() == 20
    own = problem.people.labels
    assert (found.labels[np.arange(SIZE), own] == 0).all()
    for member in (0, 7, 13):
        for code in range(3):
            targets = before(problem).targets.copy()
            targets[member, own[member]] -= step
            targets[member, code] += step
            fall = (found.loss - loss_after(problem, targets)) / step
            assert found.labels[member, code] == pytest.approx(fall, rel=5e-3, abs=1e-5)
    assert found.members == pytest.approx(np.maximum(found.labels.max(axis=1), 0))
    assert found.leaving is None


@pytest.mark.parametrize("model", [oar.SoftmaxRegression(l2=0.05), oar.NearestCentroid(), oar.models.LinearSVM(0.05)])
def test_leaving_is_a_share_of_a_weight(model):
    problem = problem_of(model, oar.Withhold(most=3))
    found, step = oar.questions.leverage(problem), 1e-4
    weights = before(problem).weights
    shares = weights / weights.sum()
    for member in (0, 7, 13):
        losses = []
        for sign in (1, -1):
            some = weights.copy()
            some[member] *= 1 - sign * step
            losses.append(loss_after(problem, None, some))
        slope = (losses[1] - losses[0]) / (2 * step)
        assert found.leaving[member] * (1 - shares[member]) == pytest.approx(slope, rel=1e-3, abs=1e-8)
    assert found.labels is None
    assert found.total == pytest.approx(np.maximum(found.leaving, 0).sum())
    assert "by feature" not in str(found)
    assert found.table("label").loc["leaving", "leverage"] == found.leaving.max()
    assert found.plot() is not None


def test_a_soft_label_moves_its_share_from_the_worst_class():
    problem = problem_of(oar.SoftmaxRegression(l2=0.05), oar.Relabel(soft=0.2, to=[2]))
    found, step = oar.questions.leverage(problem), 1e-4
    assert (found.labels[:, :2] == 0).all()
    member = 0
    losses = []
    for sign in (1, -1):
        targets = before(problem).targets.copy()
        targets[member] += sign * step * np.array([-1.0, 0.0, 1.0])
        losses.append(loss_after(problem, targets))
    assert found.labels[member, 2] == pytest.approx((losses[1] - losses[0]) / (2 * step), rel=1e-4)


def test_a_target_that_is_regressed_has_a_slope():
    problem = problem_of(oar.models.Ridge(0.1), oar.Relabel(soft=0.2), values=True)
    found, step = oar.questions.leverage(problem), 1e-4
    targets = before(problem).targets
    way = np.zeros_like(targets)
    way[3] = step
    slope = (loss_after(problem, targets - way) - loss_after(problem, targets + way)) / (2 * step)
    assert found.labels[3, 0] == pytest.approx(slope, rel=1e-4)
    assert found.members[3] == pytest.approx(abs(slope), rel=1e-4)


def test_moves_and_labels_go_side_by_side():
    both = problem_of(oar.SoftmaxRegression(l2=0.05), [oar.Perturb(0.3), oar.Relabel(most=3), oar.Withhold(most=1)])
    found = oar.questions.leverage(both)
    alone = oar.questions.leverage(replace(both, action=oar.Perturb(0.3)))
    labels = oar.questions.leverage(replace(both, action=oar.Relabel(most=3)))
    np.testing.assert_allclose(found.slopes, alone.slopes, atol=1e-10)
    np.testing.assert_allclose(found.labels, labels.labels, atol=1e-10)
    np.testing.assert_allclose(found.members, alone.members, atol=1e-10)
    assert list(found.table("label").index) == [0, 1, 2, "leaving"]
    assert "by label" in str(found)
    with pytest.raises(oar.errors.OptionError, match="by: 'label'"):
        alone.table("label")

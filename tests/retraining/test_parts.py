"""Retraining on people in parts against the same people in memory: refits, restrictions, predictions, effects."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import oar
from oar.models import Ridge, Scaled
from oar.plans.refits import Refits
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import retraining_of

SOFTMAX = oar.SoftmaxRegression(l2=1e-2)


def both(folder, model, action=None, **more):
    """Return a problem of 60 people in two files, and the same in memory, people in the same order."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 20)
    features = rng.standard_normal((60, 3)) + np.eye(3)[labels]
    target = features @ [1.0, -1.0, 0.5] if model.regresses else labels
    order = rng.permutation(60)
    frame = pd.DataFrame(features[order], columns=list("abc")).assign(y=target[order])
    for number, some in enumerate((frame[:23], frame[23:])):
        some.to_parquet(folder / f"{number}.parquet")
    people = oar.Population.from_parquet(folder, target="y")
    goal = {"goal": 1.5, "within": 0.2} if model.regresses else {"goal": 2}
    problem = oar.Problem(people, model, oar.Query([0.6, 0.4, 0.5], **goal), action or oar.Perturb(0.4), **more)
    return problem, dataclasses.replace(problem, people=people.loaded())


@pytest.fixture(
    params=[SOFTMAX, oar.NearestCentroid(), Ridge(1e-1), Scaled(SOFTMAX), Scaled(Ridge(1e-1), frozen=True)],
    ids=lambda model: model.name,
)
def planned(request, tmp_path):
    """Return the refits of a plan in parts, the same retraining in memory, and everybody's moves."""
    there, here = both(tmp_path, request.param)
    refits = Refits(oar.collective(there).plan)
    return refits, retraining_of(here), refits.moves[np.arange(60)]


def test_all_or_some_of_the_actors_are_refitted_as_in_memory(planned):
    refits, here, moves = planned
    assert refits.actors.all()
    few = np.arange(60) % 3 > 0
    for acting in (np.ones(60, dtype=bool), few, ~few):
        there = refits.verdict(refits.if_only(acting))
        expected = here.verdict(Contribution(moves).if_only(acting, here.before))
        assert there.loss == pytest.approx(expected.loss, abs=1e-8)
        assert there.success == expected.success


def test_weights_and_labels_that_are_handed_in_count(planned):
    refits, here, moves = planned
    weights = np.linspace(0, 2, 60)
    targets = np.roll(here.before.targets, 5, axis=0)
    for given in (
        Contribution(0.5 * moves, targets, weights),
        Contribution(None, targets),
        Contribution(None, None, weights),
    ):
        expected = here.verdict(given)
        assert refits.verdict(given).loss == pytest.approx(expected.loss, abs=1e-8)
    lazy = Contribution(0.5 * refits.moves, targets, weights)
    assert refits.verdict(lazy).loss == pytest.approx(
        here.verdict(Contribution(0.5 * moves, targets, weights)).loss, abs=1e-8
    )


def test_everyone_is_predicted_where_they_have_moved_to(planned):
    refits, here, moves = planned
    there, expected = refits.refit(refits.planned), here.refit(Contribution(moves))
    np.testing.assert_allclose(
        there.predict(refits.features + refits.moves), expected.predict(here.features + moves), atol=1e-7
    )
    np.testing.assert_allclose(there.predict(np.eye(3)), expected.predict(np.eye(3)), atol=1e-7)


def test_nobody_is_left_of_a_class(tmp_path):
    there, here = both(tmp_path, SOFTMAX)
    weights = (here.people.labels != 1).astype(float)
    assert retraining_of(there).refit(Contribution(None, None, weights)) is None
    assert retraining_of(here).refit(Contribution(None, None, weights)) is None


def test_slopes_of_the_risk_are_as_in_memory(planned):
    refits, here, moves = planned
    there, here = refits.retraining.training, here.training
    at = here.start() + 0.1
    signal = np.linspace(-1, 1, at.size)
    for streamed, own in ((None, None), (refits.moves, moves)):
        one, other = there.moved(streamed), here.moved(own)
        found, expected = there.risk_gradient(at, one), here.risk_gradient(at, other)
        assert found[0] == pytest.approx(expected[0], abs=1e-9)
        np.testing.assert_allclose(found[1], expected[1], atol=1e-9)
        slopes = there.score_gradients(at, one, signal)
        np.testing.assert_allclose(slopes[np.arange(60)], here.score_gradients(at, other, signal), atol=1e-9)

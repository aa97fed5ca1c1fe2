"""The data of the two-feature picture."""

import numpy as np
import pytest

import oar
from oar_paper.figures.recourse_map import recourse_map

FEATURES = np.array([[0.0, 0.0], [1.0, 0.0], [4.0, 1.0], [5.0, 1.0], [2.0, 6.0]])
LABELS = ["a", "a", "b", "b", "c"]


def solve(features=FEATURES, query=(1.5, 0.5), budget=0.8):
    people = oar.Population(features, LABELS)
    problem = oar.Problem(people, oar.NearestCentroid(), oar.Query(query, "b"), oar.Perturb(budget))
    return oar.individual(problem), oar.collective(problem)


def test_it_shows_what_the_audit_found():
    alone, together = solve()
    data = recourse_map(alone, together)
    assert (data.alone.loss, data.alone.success) == (alone.loss, alone.success)
    assert (data.together.loss, data.together.prediction) == (together.loss, together.prediction)
    assert (data.before.loss, data.before.prediction, data.before.success) == (alone.loss_before, "a", False)
    assert data.budget == 0.8
    np.testing.assert_array_equal(data.query_move, alone.plan.query_move)
    np.testing.assert_allclose(np.linalg.norm(data.moves, axis=1), 0.8)


def test_centroids_after_are_the_means_of_the_moved():
    data = recourse_map(*solve())
    moved = FEATURES + data.moves
    np.testing.assert_allclose(data.centroids_after, [moved[:2].mean(axis=0), moved[2:4].mean(axis=0), moved[4]])
    np.testing.assert_allclose(data.centroids, [FEATURES[:2].mean(axis=0), FEATURES[2:4].mean(axis=0), FEATURES[4]])


def test_three_features_cannot_be_drawn():
    with pytest.raises(oar.errors.DataError, match="2 features"):
        recourse_map(*solve(np.hstack([FEATURES, FEATURES[:, :1]]), (1.5, 0.5, 0.0)))


def test_results_of_two_problems_do_not_belong_together():
    with pytest.raises(oar.errors.DataError, match="same problem"):
        recourse_map(solve()[0], solve()[1])


@pytest.mark.parametrize("action", [oar.Perturb(0.8, norm=1), oar.Perturb(np.full(5, 0.8))])
def test_what_one_circle_cannot_show_is_refused(action):
    people = oar.Population(FEATURES, LABELS)
    problem = oar.Problem(people, oar.NearestCentroid(), oar.Query((1.5, 0.5), "b", budget=0.8), action)
    with pytest.raises(oar.errors.DataError, match="one circle"):
        recourse_map(oar.individual(problem), oar.collective(problem))

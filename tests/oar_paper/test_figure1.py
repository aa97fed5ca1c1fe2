"""Figure 1's claims, recomputed from the numbers alone by brute force."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from support.figure_looks import assert_no_text_covers_another, assert_nothing_is_cut_off

from oar.errors import DataError
from oar.report.files.text_formats import json_text
from oar_paper.figure1 import FEATURES, FLOWERS_OF_CLASS, candidates, figure1
from oar_paper.figures.recourse_map_drawing import draw_map

DRAWS = 40


@pytest.fixture(scope="module")
def flowers():
    data = load_iris()
    return data.data[:, :2], data.target


@pytest.fixture(scope="module")
def chosen():
    return figure1(DRAWS, seed=0)


def goal_loss(centroids, points, goal=0):
    distances = np.linalg.norm(points[..., None, :] - centroids, axis=-1)
    return np.log(np.exp(distances[..., goal, None] - distances).sum(axis=-1))


def disc(radius, rings=120, spokes=480):
    """Every direction at every length, the centre included."""
    angles = np.linspace(0, 2 * np.pi, spokes, endpoint=False)
    lengths = np.linspace(0, radius, rings)
    return (lengths[:, None, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)).reshape(-1, 2)


def test_twenty_real_flowers_and_a_real_query(flowers, chosen):
    features, labels = flowers
    assert len(chosen.members) == 20
    assert tuple(np.bincount(labels[chosen.members])) == FLOWERS_OF_CLASS
    assert chosen.query not in chosen.members
    assert labels[chosen.query] == 1
    picture = chosen.picture
    np.testing.assert_array_equal(picture.features, features[chosen.members])
    np.testing.assert_array_equal(picture.codes, labels[chosen.members])
    np.testing.assert_array_equal(picture.query, features[chosen.query])
    shown = np.vstack([picture.features, picture.query])
    assert len(np.unique(shown, axis=0)) == 21


def test_alone_no_move_within_the_budget_reaches_the_goal(chosen):
    picture = chosen.picture
    reachable = picture.query + disc(picture.budget)
    distances = np.linalg.norm(reachable[:, None] - picture.centroids, axis=2)
    assert (distances.argmin(axis=1) != picture.goal).all()
    assert not picture.alone.success
    # And the move that is drawn is the best of them.
    assert np.linalg.norm(picture.query_move) <= picture.budget * (1 + 1e-9)
    own = goal_loss(picture.centroids, picture.query + picture.query_move)
    assert own == pytest.approx(picture.alone.loss, abs=1e-12)
    assert own <= goal_loss(picture.centroids, reachable).min() + 1e-12


def test_together_the_query_crosses(chosen):
    picture = chosen.picture
    assert (np.linalg.norm(picture.moves, axis=1) <= picture.budget * (1 + 1e-9)).all()
    moved = picture.features + picture.moves
    means = np.array([moved[picture.codes == code].mean(axis=0) for code in range(3)])
    np.testing.assert_allclose(picture.centroids_after, means)
    assert np.linalg.norm(means - picture.query, axis=1).argmin() == picture.goal == 0
    assert picture.together.success
    assert goal_loss(means, picture.query) == pytest.approx(picture.together.loss, abs=1e-12)
    # A class's mean can go to any place of a disc around the old one, and classes do not meet in the loss except
    # through their distances: the best of all places is the best of each.
    places = [centroid + disc(picture.budget) for centroid in picture.centroids]
    distances = [np.linalg.norm(spots - picture.query, axis=1) for spots in places]
    best = np.array([distances[0].min(), distances[1].max(), distances[2].max()])
    brute = np.log(np.exp(best[0] - best).sum())
    assert picture.together.loss == pytest.approx(brute, abs=1e-4)
    assert picture.together.loss <= brute + 1e-12


def test_both_minimal_budgets_by_brute_force(chosen):
    picture = chosen.picture
    low, high = chosen.collective_minimum, chosen.individual_minimum
    assert picture.budget == pytest.approx((low + high) / 2)
    for budget, crosses in ((0.999 * high, False), (1.001 * high, True)):
        spots = picture.query + disc(budget, rings=400, spokes=4_000)[-4_000:]
        nearest = np.linalg.norm(spots[:, None] - picture.centroids, axis=2).argmin(axis=1)
        assert (nearest == 0).any() == crosses
    distances = np.linalg.norm(picture.centroids - picture.query, axis=1)
    for budget, crosses in ((0.999 * low, False), (1.001 * low, True)):
        assert (distances[0] - budget < distances[1:].min() + budget) == crosses


def test_the_choice_is_the_clearest_of_all_and_reported_with_the_rest(flowers, chosen):
    found = candidates(*flowers, DRAWS, seed=0)
    assert len(found) == chosen.candidates > 500
    assert sum(candidate.clear for candidate in found) == chosen.clear < chosen.candidates
    gaps = [candidate.individual_minimum - candidate.collective_minimum for candidate in found if candidate.clear]
    assert max(gaps) == pytest.approx(chosen.individual_minimum - chosen.collective_minimum)
    assert chosen.collective_needs_less == sum(
        candidate.collective_minimum < candidate.individual_minimum - 1e-9 for candidate in found
    )
    assert chosen.ratio_quartiles[1] < chosen.chosen_ratio


def test_seeds_decide(chosen):
    assert json_text(figure1(DRAWS, seed=0)) == json_text(chosen)
    assert json_text(figure1(DRAWS, seed=1)) != json_text(chosen)


def test_too_few_draws_say_so():
    with pytest.raises(DataError, match="draws"):
        figure1(0, seed=0)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_drawing_is_whole_and_readable(seed):
    figure = draw_map(figure1(15, seed).picture, FEATURES, ("setosa", "versicolor", "virginica"))
    assert_nothing_is_cut_off(figure)
    assert_no_text_covers_another(figure)
    left, right = figure.axes
    assert left.get_aspect() == right.get_aspect() == 1.0
    assert left.get_xlim() == right.get_xlim()
    assert "not reached" in left.get_title(loc="right")
    assert "goal reached" in right.get_title(loc="right")

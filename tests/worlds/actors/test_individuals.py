"""Individuals: the shortest way across the boundary, who goes it, and what was promised."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from support.actor_views import CENTROID, NETWORK, SOFTMAX, view_of

import oar
from oar.actions.sets.norms import Norm
from oar.models import Centroids, Scaled, SoftmaxRegression
from oar.worlds import AdvisedIndividuals, StrategicIndividuals
from oar.worlds.actors.individuals import shortest_moves

NORMS = (1, 2, np.inf)
THREE = ("a", "b", "c")


@pytest.mark.parametrize("norm", NORMS)
def test_a_hyperplane_is_crossed_by_its_closed_form(norm: float) -> None:
    # Against one rival the distance is |w·x + b| / ‖w‖_q.
    matrix = np.array([[2.0, -1.0, 0.5]])
    rows = np.array([[-1.0, 0.3], [0.0, 2.0], [-3.0, 1.0]])
    dual = {1: np.inf, 2: 2, np.inf: 1}[norm]
    distances = -(rows @ matrix[0, :2] + 0.5) / np.linalg.norm(matrix[0, :2], dual)
    moves, found = shortest_moves(SOFTMAX, matrix, rows, 1, Norm.of(norm), 10.0, 2)
    assert found.all()
    np.testing.assert_allclose(np.linalg.norm(moves, norm, axis=1), distances, rtol=1e-6)
    _, within = shortest_moves(SOFTMAX, matrix, rows, 1, Norm.of(norm), float(np.sort(distances)[1]) + 1e-6, 2)
    np.testing.assert_array_equal(within, distances <= np.sort(distances)[1])


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), norm=st.sampled_from(NORMS))
def test_the_way_into_a_cell_of_several_centroids_is_the_shortest(seed: int, norm: float) -> None:
    rng = np.random.default_rng(seed)
    positions, row = rng.normal(size=(4, 2)), 2 * rng.normal(size=(1, 2))
    parameters = Centroids(positions, np.ones(4), np.ones(4))
    if CENTROID.predict(parameters, row)[0] == 0:
        return
    moves, found = shortest_moves(CENTROID, parameters, row, 0, Norm.of(norm), 1e3, 4)
    assert found[0]
    # A brute search: points of the cell on a polar grid around the person, at 1 % less than the length that was found.
    angles = np.linspace(0, 2 * np.pi, 721)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    shell = circle / np.linalg.norm(circle, norm, axis=1)[:, None]
    length = np.linalg.norm(moves[0], norm)
    assert not (CENTROID.predict(parameters, row + 0.99 * length * shell) == 0).any()


def test_several_linear_classes_agree_with_a_general_solver() -> None:
    rng = np.random.default_rng(3)
    matrix, rows = rng.normal(size=(4, 4)), 3 * rng.normal(size=(20, 3))
    asked = SOFTMAX.predict(matrix, rows) != 2
    moves, found = shortest_moves(SOFTMAX, matrix, rows[asked], 2, Norm.of(2), 50.0, 4)
    assert found.sum() >= 5
    for row, move, way in zip(rows[asked], moves, found, strict=True):
        ahead = matrix[2] - np.delete(matrix, 2, axis=0)
        limits = {"type": "ineq", "fun": lambda delta, row=row, ahead=ahead: ahead[:, :3] @ (row + delta) + ahead[:, 3]}
        answer = minimize(lambda delta: delta @ delta, np.zeros(3), constraints=limits, options={"ftol": 1e-12})
        if answer.success and way:
            assert np.linalg.norm(move) == pytest.approx(np.sqrt(answer.fun), rel=1e-4)
        assert way or not answer.success or np.sqrt(answer.fun) > 49.0


def test_who_has_no_way_stays() -> None:
    same = Centroids(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]]), np.ones(3), np.ones(3))
    moves, found = shortest_moves(CENTROID, same, np.zeros((1, 2)), 2, Norm.of(2), 10.0, 3)
    assert not found.any()
    assert not moves.any()
    hidden = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, -1.0]])  # the third logit is never the largest
    _, found = shortest_moves(SOFTMAX, hidden, np.ones((1, 1)), 2, Norm.of(2), 10.0, 3)
    assert not found.any()


@pytest.mark.parametrize("model", [CENTROID, SOFTMAX, Scaled(SoftmaxRegression(l2=0.05)), NETWORK], ids=str)
def test_strategic_people_get_their_goal_from_the_deployed_model(model: object) -> None:
    actor = StrategicIndividuals(share=1.0, goal="yes", budget=2.0, norm=2)
    view = view_of(model, actor)
    deed = actor.act(view)
    predicted = model.predict(view.deployed.parameters, view.crowd.features)
    after = model.predict(view.deployed.parameters, view.crowd.features + deed.moves)
    moved = deed.moves.any(axis=1)
    assert moved.sum() >= 3
    assert not moved[predicted == 1].any()
    assert (after[moved] == 1).all()
    assert (np.linalg.norm(deed.moves, axis=1) <= 2.0).all()
    # A shorter straight way does not do.
    shorter = model.predict(view.deployed.parameters, view.crowd.features[moved] + 0.99 * deed.moves[moved])
    assert (shorter == 0).all()


def test_a_network_is_crossed_about_as_near_as_a_brute_search_finds() -> None:
    actor = StrategicIndividuals(share=1.0, goal="yes", budget=3.0)
    view = view_of(NETWORK, actor)
    moves = actor.act(view).moves
    angles = np.linspace(0, 2 * np.pi, 181)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    for person in np.flatnonzero(moves.any(axis=1))[:3]:
        length = np.linalg.norm(moves[person])
        inside = view.crowd.features[person] + np.concatenate([s * length * circle for s in (0.5, 0.8, 0.9)])
        assert not (NETWORK.predict(view.deployed.parameters, inside) == 1).any()


def test_moves_that_cost_more_than_the_goal_is_worth_are_not_made() -> None:
    free = StrategicIndividuals(share=1.0, goal="yes", budget=5.0)
    view = view_of(SOFTMAX, free)
    lengths = np.linalg.norm(free.act(view).moves, axis=1)
    middle = float(np.median(lengths[lengths > 0]))
    dear = StrategicIndividuals(share=1.0, goal="yes", budget=5.0, cost=1 / (middle * 1.001))
    paid = np.linalg.norm(dear.act(view).moves, axis=1)
    np.testing.assert_allclose(paid, np.where(lengths <= middle * 1.001, lengths, 0.0))
    assert 0 < (paid > 0).sum() < (lengths > 0).sum()


def test_advice_is_recorded_whether_or_not_it_is_followed() -> None:
    actor = AdvisedIndividuals(share=1.0, goal="yes", budget=5.0, follow=0.5, beyond=0.2)
    view = view_of(SOFTMAX, actor)
    deed = actor.act(view)
    told, promised = deed.advice
    advised = promised == 1
    assert deed.note["advised"] == advised.sum() >= 4
    assert deed.note["moved"] == deed.moves.any(axis=1).sum() == round(0.5 * advised.sum())
    assert (SOFTMAX.predict(view.deployed.parameters, told[advised]) == 1).all()
    np.testing.assert_array_equal(promised[~advised], -1)
    moved = deed.moves.any(axis=1)
    np.testing.assert_allclose(told[moved], view.crowd.features[moved] + deed.moves[moved])
    boundary = AdvisedIndividuals(share=1.0, goal="yes", budget=5.0).act(view_of(SOFTMAX, actor))
    np.testing.assert_allclose(told - view.crowd.features, 1.2 * boundary.moves, rtol=1e-9)


def test_advice_beyond_the_boundary_stays_within_the_budget() -> None:
    view = view_of(SOFTMAX, AdvisedIndividuals(share=1.0, goal="yes", budget=1.0))
    deed = AdvisedIndividuals(share=1.0, goal="yes", budget=1.0, beyond=10.0).act(view)
    lengths = np.linalg.norm(deed.moves, axis=1)
    assert (lengths <= 1.0).all()
    assert lengths[lengths > 0] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("kind", "wrong", "says"),
    [
        (StrategicIndividuals, {"share": 1.5}, "share: must be a number between 0 and 1"),
        (StrategicIndividuals, {"budget": -1}, "budget: must be finite and ≥ 0"),
        (StrategicIndividuals, {"norm": 3}, "norm: must be 1, 2"),
        (StrategicIndividuals, {"cost": -0.1}, "cost: must be a finite number ≥ 0"),
        (StrategicIndividuals, {"name": ""}, "name: must be a text"),
        (AdvisedIndividuals, {"follow": "all"}, "follow: must be a number between 0 and 1"),
        (AdvisedIndividuals, {"beyond": np.inf}, "beyond: must be a finite number"),
    ],
)
def test_wrong_settings_raise_kindly(kind: type, wrong: dict, says: str) -> None:
    with pytest.raises(oar.errors.OARError, match=says):
        kind(**({"share": 0.5, "goal": "yes", "budget": 1.0} | wrong))


def test_a_goal_that_is_no_class_raises() -> None:
    actor = StrategicIndividuals(share=1.0, goal="maybe", budget=1.0)
    with pytest.raises(oar.errors.DataError, match=r"goal: must be one of the classes \['no', 'yes'\], got 'maybe'"):
        actor.act(view_of(CENTROID, actor))


def test_nobody_and_no_budget_do_nothing() -> None:
    for share, budget in ((0.0, 1.0), (1.0, 0.0)):
        actor = StrategicIndividuals(share=share, goal="yes", budget=budget)
        assert not actor.act(view_of(CENTROID, actor)).moves.any()


@pytest.mark.parametrize("norm", NORMS)
def test_three_classes_in_every_norm(norm: float) -> None:
    actor = StrategicIndividuals(share=1.0, goal="b", budget=1.5, norm=norm)
    view = view_of(CENTROID, actor, classes=THREE)
    moves = actor.act(view).moves
    moved = moves.any(axis=1)
    assert moved.any()
    assert (Norm.of(norm).length(moves) <= 1.5).all()
    assert (CENTROID.predict(view.deployed.parameters, view.crowd.features + moves)[moved] == 1).all()

"""Answers to a signal: within limits, never below a start, stationary, and the usual move where scores are level."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oar.actions.sets.norms import Norm
from oar.models import LinearSVM, Ridge, SoftmaxRegression
from oar.plans.cards.response import People, best_responses

NORMS = (1, 2, np.inf)


def crowd(model, seed, radius=1.0, size=15):
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 3, size)
    targets = rng.normal(size=(size, 2)) if model.regresses else np.eye(3)[classes]
    parameters, signal = rng.normal(size=(2, targets.shape[1] * 4))
    usual = radius * Norm.of(2).project(rng.normal(size=(size, 3)), 0.5)
    radii = radius * rng.choice([0.0, 0.3, 1.0], size)
    return model.member_score(parameters, signal), People(rng.normal(size=(size, 3)), targets, usual, radii)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("model", [SoftmaxRegression(), Ridge(), LinearSVM()], ids=lambda model: model.name)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_answers_keep_limits_and_beat_every_start(norm, model, seed):
    ball = Norm.of(norm)
    score, people = crowd(model, seed)
    moves = best_responses(score, people, ball, pull=1e-6)

    def value(at):
        return score(people.rows + at, people.targets)[0] - 5e-7 * ((at - people.usual) ** 2).sum(axis=1)

    assert (ball.length(moves) <= people.radii * (1 + 1e-12)).all()
    full = ball.maximise(score(people.rows, people.targets)[1], people.radii)
    for start in (np.zeros_like(moves), full, ball.project(people.usual, people.radii)):
        assert (value(moves) >= value(start) - 1e-5).all()


@pytest.mark.parametrize("norm", NORMS)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_answers_are_fixed_points(norm, seed):
    """δ is a full response to the gradient where it ends: the first-order gain that is left is nothing."""
    ball = Norm.of(norm)
    score, people = crowd(SoftmaxRegression(), seed)
    moves = best_responses(score, people, ball, pull=0.0)
    slopes = score(people.rows + moves, people.targets)[1]
    start = score(people.rows, people.targets)[1]
    full = people.radii * ball.dual.length(slopes)
    left = full - np.einsum("nd,nd->n", slopes, moves)
    assert (left <= 1e-6 * np.maximum(full, people.radii * ball.dual.length(start)) + 1e-12).all()


@pytest.mark.parametrize("norm", NORMS)
def test_small_problems_are_solved_to_the_global_maximum(norm):
    """Against a fine grid of the ball, for scores with one hump: ridge along one output, small budgets."""
    ball, rng = Norm.of(norm), np.random.default_rng(4)
    parameters, signal = rng.normal(size=(2, 3))
    score = SoftmaxRegression().member_score(parameters, signal)
    rows, targets = rng.normal(size=(6, 2)), np.array([[0.0], [1.0]] * 3)
    people = People(rows, targets, np.zeros((6, 2)), np.full(6, 0.4))
    moves = best_responses(score, people, ball, pull=0.0)
    ticks = np.linspace(-0.4, 0.4, 161)
    grid = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    grid = grid[ball.length(grid) <= 0.4]
    reached = score(rows + moves, targets)[0]
    for row, target, value in zip(rows, targets, reached, strict=True):
        best = score(row + grid, np.broadcast_to(target, (len(grid), 1)))[0].max()
        assert value >= best - 1e-9
        assert value <= best + 0.05


def test_where_scores_are_level_the_usual_move_is_made():
    """A linear score with equal slopes in two features: with p = 1 a whole edge is optimal."""

    def score(rows, targets):
        slopes = np.broadcast_to([1.0, 1.0, 0.0], rows.shape)
        return rows @ [1.0, 1.0, 0.0], slopes

    usual = np.array([[0.3, 0.7, 0.0], [0.9, 0.1, 0.0]])
    people = People(np.zeros((2, 3)), np.zeros((2, 1)), usual, np.ones(2))
    np.testing.assert_allclose(best_responses(score, people, Norm.of(1), pull=1e-4), usual, atol=1e-7)
    inside = People(np.zeros((1, 3)), np.zeros((1, 1)), np.array([[0.1, 0.2, -0.3]]), np.ones(1))
    np.testing.assert_allclose(best_responses(score, inside, Norm.of("inf"), pull=1e-4), [[1.0, 1.0, -0.3]], atol=1e-9)


def test_side_by_side_is_as_alone():
    score, people = crowd(SoftmaxRegression(), 8)
    together = best_responses(score, people, Norm.of(2), pull=1e-5)
    for person in range(len(people.rows)):
        alone = best_responses(score, people[np.array([person])], Norm.of(2), pull=1e-5)
        np.testing.assert_allclose(alone[0], together[person], atol=1e-6)


@pytest.mark.parametrize("size", [1e-150, 1.0, 1e150])
def test_units_of_the_signal_make_no_difference(size):
    rng = np.random.default_rng(1)
    rows, targets = rng.normal(size=(5, 3)), np.eye(3)[rng.integers(0, 3, 5)]
    parameters, signal = rng.normal(size=(2, 12))
    people = People(rows, targets, np.zeros((5, 3)), np.full(5, 0.5))
    moves = best_responses(SoftmaxRegression().member_score(parameters, size * signal), people, Norm.of(2), 0.0)
    expected = best_responses(SoftmaxRegression().member_score(parameters, signal), people, Norm.of(2), 0.0)
    np.testing.assert_allclose(moves, expected, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(moves, axis=1), 0.5)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("model", [SoftmaxRegression(), Ridge()], ids=lambda model: model.name)
def test_answers_are_settled_where_scores_are_level(norm, model):
    """Six features, two directions in which scores differ: with a weak pull, rounding must not decide the others."""
    ball, rng = Norm.of(norm), np.random.default_rng(6)
    targets = np.eye(2)[rng.integers(0, 2, 40)][:, 1:]
    parameters, signal = rng.normal(size=(2, 7))
    score = model.member_score(parameters, signal)
    rows, usual = rng.normal(size=(40, 6)), 0.5 * ball.project(rng.normal(size=(40, 6)), 0.5)
    people = People(rows, targets, usual, np.full(40, 0.5))
    moves = best_responses(score, people, ball, pull=1e-3)
    slopes = score(rows + moves, targets)[1] - 1e-3 * (moves - usual)
    assert np.abs(ball.project(moves + slopes / 1e-3, people.radii) - moves).max() < 1e-6
    shaken = People(rows * (1 + 2e-16 * rng.choice([-1, 0, 1], rows.shape)), targets, usual, people.radii)
    assert np.abs(best_responses(score, shaken, ball, pull=1e-3) - moves).max() < 1e-7

"""The referee against minima that scipy finds from the risk as it is written down."""

import numpy as np
import pytest
from benchmarks.leaderboard.problems import Stated, german, iris
from benchmarks.leaderboard.referee import Referee
from benchmarks.peers.by_hand import implicit_gradient
from scipy.optimize import minimize
from scipy.special import log_softmax


def stated(classes: int, size: int = 90, seed: int = 0) -> Stated:
    random = np.random.default_rng(seed)
    labels = np.arange(size) % classes
    features = random.standard_normal((classes, 3))[labels] + random.standard_normal((size, 3))
    return Stated(features, labels, random.standard_normal(3), 1, 0.3)


def loss_by_scipy(stated: Stated, moves: np.ndarray, l2: float) -> float:
    """Minimise mean cross-entropy + l2/2 ‖W‖² over all classes' rows, and return the query's loss there."""
    rows, query = stated.features + moves, stated.query

    def outputs(flat: np.ndarray, points: np.ndarray) -> np.ndarray:
        parameters = flat.reshape(stated.classes, -1)
        return points @ parameters[:, :-1].T + parameters[:, -1]

    def risk(flat: np.ndarray) -> float:
        logs = log_softmax(outputs(flat, rows), axis=1)[np.arange(len(rows)), stated.labels]
        return -logs.mean() + 0.5 * l2 * float((flat.reshape(stated.classes, -1)[:, :-1] ** 2).sum())

    start = np.zeros(stated.classes * (rows.shape[1] + 1))
    found = minimize(risk, start, method="BFGS", options={"gtol": 1e-7}).x
    return -float(log_softmax(outputs(found, query[None]), axis=1)[0, stated.goal])


@pytest.mark.parametrize(("classes", "rows"), [(3, 1.0), (2, 2.0)])
def test_loss_is_that_of_the_stated_risk(classes, rows):
    """With two classes the operator has a single logit: two rows share its penalty, so theirs counts double."""
    problem = stated(classes)
    moves = 0.1 * np.random.default_rng(1).standard_normal(problem.features.shape)
    found = Referee(problem).judge(moves).loss
    assert found == pytest.approx(loss_by_scipy(problem, moves, rows * problem.l2), abs=1e-6)


def test_an_earlier_verdict_does_not_change_a_later_one():
    problem = stated(3)
    moves = 0.1 * np.random.default_rng(1).standard_normal(problem.features.shape)
    referee = Referee(problem)
    first = referee.judge(None).loss
    referee.judge(moves)
    assert referee.judge(None).loss == pytest.approx(first, abs=1e-9)
    assert Referee(problem).judge(moves).loss == pytest.approx(referee.judge(moves).loss, abs=1e-9)


def test_limits_are_checked_person_by_person():
    problem = stated(3)
    moves = np.zeros_like(problem.features)
    moves[7] = [0.0, 0.3, 0.0]
    assert Referee(problem).judge(moves).kept
    moves[7] = [0.2, 0.3, 0.0]  # each coordinate is within the budget, but the move is not
    verdict = Referee(problem).judge(moves)
    assert not verdict.kept
    assert verdict.longest == pytest.approx(np.hypot(0.2, 0.3) / 0.3)


@pytest.mark.parametrize("spoil", [lambda moves: moves[:-1], lambda moves: moves * np.nan])
def test_moves_that_mean_nothing_are_worth_nothing(spoil):
    problem = stated(3)
    verdict = Referee(problem).judge(spoil(np.zeros_like(problem.features)))
    assert not verdict.kept
    assert np.isnan(verdict.loss)


def test_reached_means_predicted():
    problem = stated(3)
    referee = Referee(problem)
    towards = np.exp(-referee.judge(None).loss)
    assert referee.judge(None).reached == (towards > 0.5) or 1 / 3 < towards <= 0.5


@pytest.mark.parametrize("make", [lambda: iris(0.3), german, lambda: stated(2), lambda: stated(4)])
def test_gradient_by_hand_is_the_slope_of_the_referees_loss(make):
    """What three contenders use, in the unit of the operator's penalty that the exchange hands them."""
    problem = make()
    random = np.random.default_rng(2)
    moves, direction = 0.1 * random.standard_normal((2, *problem.features.shape))

    class World:
        features, labels, query, goal = problem.features, problem.labels, problem.query, problem.goal
        l2 = problem.l2 * (2 if problem.classes == 2 else 1)

    start = np.zeros((problem.classes, problem.features.shape[1] + 1))
    _, loss, gradient = implicit_gradient(World, moves, start)
    referee, step = Referee(problem), 1e-3
    ahead, behind = (referee.judge(moves + sign * step * direction).loss for sign in (1, -1))
    assert loss == pytest.approx(referee.judge(moves).loss, abs=1e-8)
    assert (gradient * direction).sum() == pytest.approx((ahead - behind) / (2 * step), rel=1e-4)

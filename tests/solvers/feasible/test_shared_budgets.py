"""One budget over several rows: projection, best response and gap against solvers that we did not write."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from oar.actions.sets.norms import Norm
from oar.solvers.feasible.sets import FeasibleBalls
from oar.solvers.feasible.shared_budgets import SharedBudgets

NORMS = [Norm(1.0), Norm(2.0), Norm(np.inf)]
seeds = st.integers(0, 2**32 - 1)


def drawn(seed, norm, size=9, dimensions=3, people=4, capped=False):
    """Rows of a few people, some of which stay, and moves that are mostly too long; with caps of their own or none."""
    rng = np.random.default_rng(seed)
    persons = np.append(np.arange(people), rng.integers(0, people, size - people))
    budgets = rng.uniform(0.1, 1.5, people)
    acts = rng.random(size) > 0.2
    radii = budgets[persons] * acts
    limits = SharedBudgets(norm, radii, persons, radii)
    if capped:
        limits = SharedBudgets(norm, rng.uniform(0.2, 1.2, size) * radii, persons, budgets[persons])
    return limits, rng.normal(size=(size, dimensions)) * rng.choice([0.05, 1.0, 20.0])


@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.parametrize("norm", NORMS, ids=str)
@settings(max_examples=15, deadline=None)
@given(seed=seeds)
def test_projection_satisfies_its_variational_inequality(norm, capped, seed):
    """P(v) is nearest in a convex set just if ⟨v − P(v), z − P(v)⟩ ≤ 0 for all z: linear in z, so at its best."""
    limits, moves = drawn(seed, norm, capped=capped)
    nearest = limits.project(moves)
    assert (limits.spent(nearest) <= limits.budgets * (1 + 1e-12)).all()
    assert (norm.length(nearest) <= limits.radii * (1 + 1e-12)).all()
    free = np.where(limits.radii[:, None] > 0, moves, 0.0)
    rest = free - nearest
    assert limits.gap(nearest, -rest) <= 1e-9 * (1 + np.abs(moves).max() ** 2)
    np.testing.assert_allclose(limits.project(nearest), nearest, atol=1e-12)


@pytest.mark.parametrize("caps", [[0.8, 0.8, 0.8], [0.1, 0.5, 0.6]])
@pytest.mark.parametrize("norm", NORMS, ids=str)
def test_projection_is_what_a_general_solver_finds(norm, caps):
    """With lengths as variables of their own, every limit is smooth."""
    limits, moves = drawn(5, norm, size=3, dimensions=2, people=1)
    limits = SharedBudgets(norm, np.array(caps), limits.persons, np.full(3, 0.8))

    def rows(x):
        return x[:6].reshape(3, 2)

    within = {
        1.0: lambda x: (x[6:9, None] + rows(x) @ np.array([[1, 1, -1, -1], [1, -1, 1, -1]])).ravel(),
        2.0: lambda x: x[6:9] ** 2 - (rows(x) ** 2).sum(axis=1),
        np.inf: lambda x: np.concatenate([x[6:9, None] - rows(x), x[6:9, None] + rows(x)]).ravel(),
    }[norm.p]
    found = minimize(
        lambda x: ((rows(x) - moves) ** 2).sum(),
        np.append(np.full(6, 0.01), np.full(3, 0.05)),
        bounds=[(None, None)] * 6 + [(0, cap) for cap in caps],
        constraints=[{"type": "ineq", "fun": within}, {"type": "ineq", "fun": lambda x: 0.8 - x[6:9].sum()}],
        tol=1e-14,
        options={"maxiter": 500},
    )
    nearest = rows(found.x)
    np.testing.assert_allclose(limits.project(moves), nearest, atol=2e-5)


@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.parametrize("norm", NORMS, ids=str)
@settings(max_examples=15, deadline=None)
@given(seed=seeds)
def test_nothing_within_the_budget_answers_a_gradient_better(norm, capped, seed):
    limits, gradient = drawn(seed, norm, capped=capped)
    answer = limits.respond(gradient)
    assert (limits.spent(answer) <= limits.budgets * (1 + 1e-12)).all()
    assert (norm.length(answer) <= limits.radii * (1 + 1e-12)).all()
    rng = np.random.default_rng(seed)
    for _ in range(20):
        other = limits.project(rng.normal(size=gradient.shape) * 3)
        assert (gradient * answer).sum() <= (gradient * other).sum() + 1e-12
        assert limits.gap(other, gradient) == pytest.approx((gradient * (other - answer)).sum(), abs=1e-9)


@pytest.mark.parametrize("norm", NORMS, ids=str)
def test_one_row_a_person_is_a_ball_for_everyone(norm):
    rng = np.random.default_rng(3)
    radii, moves, gradient = rng.uniform(0, 1, 7), rng.normal(size=(7, 4)), rng.normal(size=(7, 4))
    shared, each = SharedBudgets(norm, radii, np.arange(7)[::-1].copy(), radii), FeasibleBalls(norm, radii, np.ones(7))
    np.testing.assert_allclose(shared.project(moves), each.project(moves), atol=1e-12)
    np.testing.assert_allclose(shared.respond(gradient), each.respond(gradient))
    assert shared.gap(moves, gradient) == pytest.approx(each.gap(moves, gradient))
    assert shared.ahead(moves, gradient, 0.3)[1] == pytest.approx(each.ahead(moves, gradient, 0.3)[1])
    before, after = (moves, gradient), (each.project(moves), gradient + 0.1 * moves)
    assert shared.compare(before, after) == pytest.approx(each.compare(before, after))
    assert shared.span(gradient) == pytest.approx(each.span(gradient))


@pytest.mark.parametrize("norm", NORMS, ids=str)
def test_from_very_far_away_the_whole_budget_is_used(norm):
    limits = SharedBudgets(norm, np.full(2, 0.5), np.zeros(2, dtype=np.intp), np.full(2, 0.5))
    moves = 1e18 * np.array([[3.0, 1.0], [0.5, 1.0]])
    nearest = limits.project(moves)
    assert limits.spent(nearest) == pytest.approx(0.5)
    np.testing.assert_allclose(nearest, limits.respond(-moves), atol=1e-6)
    assert limits.smaller(0.5).budgets == pytest.approx(0.25)
    capped = SharedBudgets(norm, np.array([0.3, 0.4]), limits.persons, np.full(2, 0.5))
    np.testing.assert_allclose(capped.project(moves), capped.respond(-moves), atol=1e-6)
    np.testing.assert_allclose(norm.length(capped.project(moves)), [0.3, 0.2])
    np.testing.assert_allclose(norm.length(capped.project(moves * [[1.0], [1e-13]])), [0.3, 0.2])  # of unlike size
    half = capped.smaller(0.5)
    np.testing.assert_allclose(half.caps, [0.15, 0.2])
    assert half.budgets == pytest.approx(0.25)


def test_caps_above_the_total_are_the_total():
    free = SharedBudgets(Norm(2.0), np.full(3, 0.5), np.zeros(3, dtype=np.intp), np.full(3, 0.5))
    capped = SharedBudgets(Norm(2.0), np.array([9.0, 0.7, 0.5]), free.persons, np.full(3, 0.5))
    moves = np.random.default_rng(1).normal(size=(3, 2))
    for name in ("project", "respond"):
        np.testing.assert_allclose(getattr(capped, name)(moves), getattr(free, name)(moves))
    assert capped.span(moves) == pytest.approx(free.span(moves))

"""One budget over several rows: projection, best response and gap against solvers that we did not write."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from oar.actions.norms import Norm
from oar.solvers.member_limits import Limits
from oar.solvers.shared_limits import SharedLimits

NORMS = [Norm(1.0), Norm(2.0), Norm(np.inf)]
seeds = st.integers(0, 2**32 - 1)


def drawn(seed, norm, size=9, dimensions=3, people=4):
    """Rows of a few people, some of which stay, and moves that are mostly too long."""
    rng = np.random.default_rng(seed)
    persons = np.append(np.arange(people), rng.integers(0, people, size - people))
    budgets = rng.uniform(0.1, 1.5, people)
    radii = budgets[persons] * (rng.random(size) > 0.2)
    return SharedLimits(norm, radii, persons), rng.normal(size=(size, dimensions)) * rng.choice([0.05, 1.0, 20.0])


@pytest.mark.parametrize("norm", NORMS, ids=str)
@settings(max_examples=25, deadline=None)
@given(seed=seeds)
def test_projection_satisfies_its_variational_inequality(norm, seed):
    """P(v) is nearest in a convex set just if ⟨v − P(v), z − P(v)⟩ ≤ 0 for all z: linear in z, so at its best."""
    limits, moves = drawn(seed, norm)
    nearest = limits.project(moves)
    assert (limits.spent(nearest) <= limits.budgets * (1 + 1e-12)).all()
    assert not nearest[limits.radii == 0].any()
    free = np.where(limits.radii[:, None] > 0, moves, 0.0)
    rest = free - nearest
    assert limits.gap(nearest, -rest) <= 1e-9 * (1 + np.abs(moves).max() ** 2)
    np.testing.assert_allclose(limits.project(nearest), nearest, atol=1e-12)


@pytest.mark.parametrize("norm", NORMS, ids=str)
def test_projection_is_what_a_general_solver_finds(norm):
    limits, moves = drawn(5, norm, size=3, dimensions=2, people=1)
    limits = SharedLimits(norm, np.full(3, 0.8), limits.persons)

    def split(free):
        return (free[:6] - free[6:]).reshape(3, 2)

    if norm.p == 2:
        limit = {"type": "ineq", "fun": lambda x: 0.8 - np.sqrt((x.reshape(3, 2) ** 2).sum(1) + 1e-18).sum()}
        found = minimize(lambda x: ((x - moves.ravel()) ** 2).sum(), np.full(6, 0.01), constraints=limit, tol=1e-14)
        nearest = found.x.reshape(3, 2)
    else:  # |x| as a difference of two that are not negative, so that everything is smooth
        per_row = (lambda x: (x[:6] + x[6:]).reshape(3, 2)) if norm.p == 1 else None
        if per_row is not None:
            limit = [{"type": "ineq", "fun": lambda x: 0.8 - per_row(x).sum()}]
            bounds, start = [(0, None)] * 12, np.full(12, 0.01)
        else:  # one level for each row
            limit = [
                {"type": "ineq", "fun": lambda x: 0.8 - x[12:].sum()},
                {"type": "ineq", "fun": lambda x: (x[12:, None] - (x[:6] + x[6:12]).reshape(3, 2)).ravel()},
            ]
            bounds, start = [(0, None)] * 15, np.append(np.full(12, 0.01), np.full(3, 0.1))
        found = minimize(
            lambda x: ((split(x[:12]) - moves) ** 2).sum(), start, bounds=bounds, constraints=limit, tol=1e-14
        )
        nearest = split(found.x[:12])
    np.testing.assert_allclose(limits.project(moves), nearest, atol=2e-5)


@pytest.mark.parametrize("norm", NORMS, ids=str)
@settings(max_examples=15, deadline=None)
@given(seed=seeds)
def test_nothing_within_the_budget_answers_a_gradient_better(norm, seed):
    limits, gradient = drawn(seed, norm)
    answer = limits.respond(gradient)
    assert (limits.spent(answer) <= limits.budgets * (1 + 1e-12)).all()
    rng = np.random.default_rng(seed)
    for _ in range(20):
        other = limits.project(rng.normal(size=gradient.shape) * 3)
        assert (gradient * answer).sum() <= (gradient * other).sum() + 1e-12
        assert limits.gap(other, gradient) == pytest.approx((gradient * (other - answer)).sum(), abs=1e-9)


@pytest.mark.parametrize("norm", NORMS, ids=str)
def test_one_row_a_person_is_a_ball_for_everyone(norm):
    rng = np.random.default_rng(3)
    radii, moves, gradient = rng.uniform(0, 1, 7), rng.normal(size=(7, 4)), rng.normal(size=(7, 4))
    shared, each = SharedLimits(norm, radii, np.arange(7)[::-1].copy()), Limits(norm, radii, np.ones(7))
    np.testing.assert_allclose(shared.project(moves), each.project(moves), atol=1e-12)
    np.testing.assert_allclose(shared.respond(gradient), each.respond(gradient))
    assert shared.gap(moves, gradient) == pytest.approx(each.gap(moves, gradient))
    assert shared.ahead(moves, gradient, 0.3)[1] == pytest.approx(each.ahead(moves, gradient, 0.3)[1])
    before, after = (moves, gradient), (each.project(moves), gradient + 0.1 * moves)
    assert shared.compare(before, after) == pytest.approx(each.compare(before, after))
    assert shared.span(gradient) == pytest.approx(each.span(gradient))


@pytest.mark.parametrize("norm", NORMS, ids=str)
def test_from_very_far_away_the_whole_budget_is_used(norm):
    limits = SharedLimits(norm, np.full(2, 0.5), np.zeros(2, dtype=np.intp))
    moves = 1e18 * np.array([[3.0, 1.0], [0.5, 1.0]])
    nearest = limits.project(moves)
    assert limits.spent(nearest) == pytest.approx(0.5)
    np.testing.assert_allclose(nearest, limits.respond(-moves), atol=1e-6)
    assert limits.smaller(0.5).budgets == pytest.approx(0.25)

"""Planning over time by gradients: against hand-made replays of every plan of a grid, and against one another."""

import itertools

import numpy as np
import pytest
from scipy.special import expit
from support.online_problems import BUDGET, four_in_two_rounds, three_rounds

import oar
from oar.online import ExponentialMeans, FineTune, FullRefit, GradientSteps, OnlineProblem, Rollout
from oar.progress import silent
from oar.recourse import planned
from oar.solvers.rounds.descent import RolloutObjective, answer, limits_of

SOFTMAX = oar.SoftmaxRegression(0.1)
LABELS = np.array([0.0, 0.0, 1.0, 1.0])


def hand_made_steps(first, rounds, rate, steps, l2=0.1):
    """Logistic regression by gradient steps, for rows (4, combinations) of each round: w and b of each."""
    w, b = (np.full(rounds[0].shape[1], value) for value in first)
    found = []
    for rows in rounds:
        for _ in range(steps):
            off = expit(w * rows + b) - LABELS[:, None]
            w, b = w - rate * ((off * rows).mean(axis=0) + l2 * w), b - rate * off.mean(axis=0)
        found.append((w, b))
    return found


@pytest.mark.parametrize("goal_for", ["last", "every"])
@pytest.mark.parametrize("shared", [False, True])
def test_four_people_in_two_rounds_of_gradient_steps(shared, goal_for):
    problem, rounds = four_in_two_rounds(SOFTMAX, GradientSteps(0.8, 2), shared, goal_for)
    result = oar.collective(problem)
    shares = np.linspace(-1, 1, 5 if shared else 3)
    pairs = [(a, b) for a, b in itertools.product(shares, shares) if not shared or abs(a) + abs(b) <= 1 + 1e-9]
    each = BUDGET * np.array(pairs)
    chosen = np.stack(np.meshgrid(*4 * [np.arange(len(pairs))], indexing="ij")).reshape(4, -1)
    moved = [rounds[t] + each[chosen][:, :, t] for t in (0, 1)]
    first = Rollout(problem).first
    losses = [np.logaddexp(0, -(w * 0.9 + b)) for w, b in hand_made_steps(first, moved, 0.8, 2)]
    best = (losses[1] if goal_for == "last" else 0.5 * (losses[0] + losses[1])).min()
    assert result.loss <= best + 1e-7
    assert result.loss == pytest.approx(best, abs=5e-3)
    assert result.gap <= 1e-6
    assert result.status == "improved" or result.success


@pytest.fixture(scope="module")
def tuned():
    return three_rounds(SOFTMAX, FineTune(0.3))


def test_every_solver_lowers_the_loss_and_the_gradient_method_most(tuned):
    results = {name: oar.collective(tuned, solver=name) for name in ("auto", "frank-wolfe", "one-shot")}
    losses = {name: result.loss for name, result in results.items()}
    assert losses["auto"] <= losses["frank-wolfe"] + 1e-6 <= losses["one-shot"] + 2e-6
    assert losses["one-shot"] < results["auto"].loss_before
    assert results["auto"].proposal.finished
    assert all(result.gap >= 0 for result in results.values())
    assert all(abs(result.loss - result.proposal.claimed_loss) < 1e-9 for result in results.values())
    assert {result.proposal.solver for result in results.values()} == {"projected-gradient", "frank-wolfe", "one-shot"}


def test_a_one_shot_plan_follows_from_what_is_published(tuned):
    """Each batch's answers come from (θ, v) of its round and its own rows; as many signals as the rule makes."""
    plan = oar.collective(tuned, solver="one-shot").plan
    assert [len(pairs) for pairs in plan.signals] == [1, 1, 1]
    objective = RolloutObjective(Rollout(tuned))
    stay = np.zeros_like(plan.each)
    unmoved = objective.refit(stay)
    slopes = answer(objective, unmoved.kept, plan.signals)
    np.testing.assert_allclose(slopes, objective.differentiate(unmoved).gradient, atol=1e-14)
    full = limits_of(tuned).respond(slopes)
    moving = plan.each.any(axis=1)
    share = (plan.each[moving] / full[moving]).ravel()
    assert np.ptp(share) < 1e-9  # all go the same share of the way
    assert 0 < share[0] <= 1 + 1e-12


def test_members_who_ask_and_move_are_answered_by_their_own_slopes_too():
    for stay in (False, True):
        problem = three_rounds(SOFTMAX, FineTune(0.3), query=oar.Members([1], stay=stay))
        objective = RolloutObjective(Rollout(problem))
        unmoved = objective.refit(np.zeros((problem.radii.size, 2)))
        back = objective.back(unmoved)
        slopes = answer(objective, unmoved.kept, back.signals)
        np.testing.assert_allclose(slopes, back.gradient, atol=1e-14)


def test_refits_that_nobody_looks_at_are_left_out():
    """Where nothing is remembered and only the last round counts, one refit a walk is enough."""
    problem = three_rounds(SOFTMAX, FullRefit())
    objective, walk = RolloutObjective(Rollout(problem)), Rollout(problem)
    moves = 0.2 * np.random.default_rng(0).normal(size=(18, 2))
    for _ in range(2):
        short, long = objective.refit(moves), walk.forward(moves)
        assert short.loss == pytest.approx(long.losses[-1], abs=1e-9)
        assert not short.kept.parameters[:2].any()
        slopes = walk.gradient(long, moves).gradient
        np.testing.assert_allclose(objective.differentiate(short).gradient, slopes, atol=1e-8)
    assert objective.rollout.passes < walk.passes / 2


def test_settings_are_kept_to(tuned):
    few = oar.collective(tuned, solver=oar.solvers.ProjectedGradient(max_steps=1, restarts=0, tolerance=0.0))
    assert few.status == "stopped early" or few.success
    late = oar.collective(tuned, solver=oar.solvers.ProjectedGradient(time_limit=0.0))
    assert late.proposal.steps == 0
    drawn = oar.solvers.ProjectedGradient(seed=3, restarts=1, max_steps=5)
    lines: list = []
    again = [
        oar.solvers.propose_collective(tuned, drawn, on_step=lambda *said: lines.append(said)).plan.each
        for _ in range(2)
    ]
    np.testing.assert_array_equal(*again)
    assert lines[0][0] == 1
    assert lines[-1][1] < lines[0][1] * 2


def test_what_does_not_apply_is_refused(tuned):
    for solver, said in (("exact", "nearest centroid"), ("paper", "does not apply"), ("exakt", "must be one of")):
        with pytest.raises(oar.errors.OptionError, match=said):
            oar.collective(tuned, solver=solver)
    with pytest.raises(oar.errors.OptionError, match="signal"):
        oar.collective(tuned, signal="implicit")
    with pytest.raises(oar.errors.OptionError, match="does not know the query's own move"):
        oar.joint(tuned, solver="one-shot")


def test_known_moves_are_started_from(tuned):
    """Whoever knows good moves loses nothing by a search that may hardly take a step."""
    best = oar.collective(tuned)
    short = oar.solvers.ProjectedGradient(max_steps=1, restarts=0, tolerance=1e-12)
    alone = oar.collective(tuned, solver=short)
    known = planned(tuned, short, "auto", silent, [np.vstack([best.plan.each, np.zeros(2)])])
    assert known.loss <= best.loss + 1e-12 < alone.loss


def test_nobody_who_can_move_is_told_so():
    problem = three_rounds(oar.NearestCentroid(), FullRefit(), budget=0.0)
    for solver in ("exact", "projected-gradient"):
        result = oar.collective(problem, solver=solver)
        assert result.exact
        assert not result.plan.each.any()
        assert result.loss == result.loss_before


def test_gradients_find_what_is_exact():
    for rule in (FullRefit(), ExponentialMeans(0.5)):
        for shared in (False, True):
            problem = three_rounds(oar.NearestCentroid(), rule, shared=shared)
            exact = oar.collective(problem)
            found = oar.collective(problem, solver="projected-gradient")
            assert exact.loss <= found.loss + 1e-9
            assert found.loss == pytest.approx(exact.loss, rel=1e-5)
            assert found.bound == pytest.approx(exact.bound)


# -- when to act -----------------------------------------------------------------------------------------------------


def in_one_round(problem, number):
    """The best plan in which everyone's shared budget is spent in one round."""
    acts = [oar.Perturb(BUDGET if each == number else 0.0) for each in range(problem.rounds)]
    return oar.collective(OnlineProblem(problem.stream, problem.model, problem.rule, problem.query, acts))


@pytest.mark.parametrize("model", [oar.NearestCentroid(), SOFTMAX], ids=["centroids", "softmax"])
def test_acting_late_beats_acting_early_where_the_past_is_forgotten(model):
    problem = three_rounds(model, ExponentialMeans(0.6), shared=True)
    result = oar.collective(problem)
    early, late = in_one_round(problem, 0), in_one_round(problem, 2)
    assert late.loss < early.loss - 0.05
    assert result.loss <= late.loss + 1e-6
    table = result.rounds
    assert table["effort"].idxmax() == 2
    assert table["effort"][2] > 0.9 * table["effort"].sum()
    assert table["leverage"].idxmax() == 2
    assert table["leverage"].is_monotonic_increasing
    assert "round 2 alone" in result.explanation
    if isinstance(model, oar.NearestCentroid):
        assert "round 2's data weigh 0.6 in the last model, round 0's 0.16" in result.explanation


def test_acting_early_wins_where_the_goal_is_for_every_round_and_nothing_is_forgotten():
    problem = three_rounds(oar.NearestCentroid(), FullRefit(), shared=True, goal_for="every")
    result = oar.collective(problem)
    table = result.rounds
    assert table["effort"].idxmax() == 0
    assert table["effort"][0] > 0.9 * table["effort"].sum()
    assert table["leverage"].is_monotonic_decreasing
    assert "round 0" in result.explanation
    assert "the mean loss" in result.explanation


def test_what_is_not_acted_in_could_gain_nothing_more():
    """At a stationary plan with shared budgets, a person's acting rows have its steepest slopes."""
    problem = three_rounds(SOFTMAX, ExponentialMeans(0.6), shared=True)
    result = oar.collective(problem)
    objective = RolloutObjective(Rollout(problem))
    slopes = objective.differentiate(objective.refit(result.plan.each)).gradient
    steep = np.linalg.norm(slopes, axis=1)
    for person in np.unique(problem.stream.who[problem.radii > 0]):
        mine = (problem.stream.who == person) & (problem.radii > 0)
        acting = mine & (np.linalg.norm(result.plan.each, axis=1) > 1e-3)
        assert steep[acting].min() >= steep[mine].max() - 1e-3

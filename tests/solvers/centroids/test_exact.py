"""The exact solver against an oracle that shares no code with it, and against what the maths promises."""

import numpy as np
import pytest
from hypothesis import given
from sklearn.neighbors import NearestCentroid as Witness
from support.centroid_problems import (
    oracle_centroids,
    oracle_distances,
    oracle_loss,
    oracle_margin,
    oracle_radii,
    random_world,
    seeds,
)

import oar
from oar.solvers.centroids.exact import reach_of


@given(seeds)
def test_loss_is_the_oracles_and_the_audits(seed):
    world = random_world(seed)
    result = oar.collective(world.problem())
    distances = oracle_distances(world, oracle_radii(world))
    assert result.loss == pytest.approx(oracle_loss(distances, world.goal), rel=1e-9, abs=1e-12)
    assert result.proposal.claimed_loss == pytest.approx(result.loss, rel=1e-9, abs=1e-12)
    assert result.success == (oracle_margin(distances, world.goal) > 1e-12)
    assert result.exact
    assert result.bound == pytest.approx(result.loss, rel=1e-7)  # less what audits let pass


@given(seeds)
def test_the_certificate_closes_at_the_optimum(seed):
    assert 0 <= oar.collective(random_world(seed).problem()).gap <= 1e-9


@given(seeds)
def test_no_random_moves_within_the_limits_do_better(seed):
    world = random_world(seed)
    rng = np.random.default_rng(seed)
    best = oar.collective(world.problem()).loss
    for _ in range(20):
        raw = rng.normal(size=world.features.shape)
        allowed = np.where(world.mask, world.budgets, 0.0)
        moves = raw / np.linalg.norm(raw, ord=world.norm, axis=1, keepdims=True) * allowed[:, None]
        moved = oracle_centroids(type(world)(**{**vars(world), "features": world.features + moves}))
        distances = np.linalg.norm(moved - world.query, axis=1)
        assert oracle_loss(distances, world.goal) >= best - 1e-9


@given(seeds)
def test_every_move_keeps_its_limit_and_outsiders_stay(seed):
    world = random_world(seed)
    moves = oar.collective(world.problem()).plan.moves(world.features, world.labels)
    lengths = np.linalg.norm(moves, ord=world.norm, axis=1)
    allowed = np.where(world.mask & (world.weights > 0), world.budgets, 0.0)
    assert (lengths <= allowed * (1 + 1e-12)).all()


@given(seeds)
def test_the_refit_is_scikit_learns(seed):
    """Unweighted: scikit-learn's own fit on the moved data gives the audited loss."""
    world = random_world(seed, people=30)
    world.weights = np.ones(30)
    result = oar.collective(world.problem())
    moved = world.features + result.plan.moves(world.features, world.labels)
    centroids = Witness().fit(moved, world.labels).centroids_
    distances = np.linalg.norm(centroids - world.query, axis=1)
    assert result.loss == pytest.approx(oracle_loss(distances, world.goal), rel=1e-9, abs=1e-12)


@given(seeds)
def test_more_budget_never_hurts(seed):
    world = random_world(seed)
    losses = [oar.collective(world.problem(budget=factor * world.budgets)).loss for factor in (0, 0.5, 1, 2, 10)]
    assert all(later <= earlier + 1e-12 for earlier, later in zip(losses, losses[1:], strict=False))


@given(seeds)
def test_more_members_never_hurt(seed):
    world = random_world(seed)
    some = oar.collective(world.problem()).loss
    everyone = oar.collective(world.problem(participants=None)).loss
    assert everyone <= some + 1e-12


@given(seeds)
def test_order_of_people_does_not_matter(seed):
    world = random_world(seed)
    order = np.random.default_rng(seed).permutation(len(world.labels))
    shuffled = type(world)(
        **{**vars(world), **{k: getattr(world, k)[order] for k in ("features", "labels", "weights", "budgets", "mask")}}
    )
    first, second = oar.collective(world.problem()), oar.collective(shuffled.problem())
    assert first.loss == pytest.approx(second.loss, rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(first.plan.moves()[order], second.plan.moves(), atol=1e-9)


@given(seeds)
def test_translation_does_not_matter(seed):
    world = random_world(seed)
    shift = np.random.default_rng(seed).normal(0, 5, world.query.size)
    moved = type(world)(**{**vars(world), "features": world.features + shift, "query": world.query + shift})
    first, second = oar.collective(world.problem()), oar.collective(moved.problem())
    assert first.loss == pytest.approx(second.loss, rel=1e-8, abs=1e-10)


@given(seeds)
def test_units_do_not_matter_to_the_outcome(seed):
    """Scaling all lengths scales distances; who wins is the same at every scale, however small or large."""
    world = random_world(seed)
    outcomes = set()
    for scale in (1e-200, 1e-6, 1.0, 1e6, 1e150):
        scaled = {k: scale * getattr(world, k) for k in ("features", "budgets", "query")}
        outcomes.add(oar.collective(type(world)(**{**vars(world), **scaled}).problem()).success)
    assert len(outcomes) == 1


@given(seeds)
def test_with_everyone_the_collective_never_does_worse_than_the_individual(seed):
    world = random_world(seed)
    problem = world.problem(budget=0.8, participants=None)
    problem = oar.Problem(problem.people, problem.model, oar.Query(world.query, world.goal), problem.action)
    world_weights_positive = (world.weights > 0).all()
    alone, together, both = oar.individual(problem), oar.collective(problem), oar.joint(problem)
    assert world_weights_positive or problem.allowance.mask is not None
    assert together.loss <= alone.loss + 1e-9
    assert both.loss <= together.loss + 1e-9


def test_figures_of_the_maths_note():
    """Raw Iris, x† = 0.25 μ_g + 0.75 μ_o, p = 2: losses known before the package was written."""
    from sklearn.datasets import load_iris

    features, labels = load_iris(return_X_y=True)
    people = oar.Population(features, labels)
    means = [features[labels == code].mean(axis=0) for code in range(3)]
    expected = {
        (0, 1): {"together": [1.945, 1.165, 0.594, 0.104], "alone": [1.945, 1.166, 0.596, 0.105]},
        (2, 0): {"together": [2.797, 1.897, 1.126, 0.248], "alone": [2.797, 2.250, 1.875, 1.195]},
    }
    for (goal, other), losses in expected.items():
        query = oar.Query(0.25 * means[goal] + 0.75 * means[other], goal)
        for position, budget in enumerate((0, 0.5, 1, 2)):
            problem = oar.Problem(people, oar.NearestCentroid(), query, oar.Perturb(budget))
            assert oar.collective(problem).loss == pytest.approx(losses["together"][position], abs=6e-4)
            assert oar.individual(problem).loss == pytest.approx(losses["alone"][position], abs=6e-4)


@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_a_centroid_on_the_query_is_pushed_away_in_a_fixed_direction(norm):
    people = oar.Population([[0.0, 0.0], [3.0, 0.0]], ["no", "yes"])
    problem = oar.Problem(people, oar.NearestCentroid(), oar.Query([0.0, 0.0], "yes"), oar.Perturb(0.5, norm))
    result = oar.collective(problem)
    pushed = result.plan.moves()[0]
    assert np.linalg.norm(pushed, ord=norm) == pytest.approx(0.5)
    assert np.linalg.norm(pushed) == pytest.approx(0.5 * (np.sqrt(2) if norm == np.inf else 1))
    assert result.loss < result.loss_before


def test_an_exact_tie_is_not_a_success():
    """d_g = 3, d_c = 1: at ε = 1 both are 2 away. Sums of tenths must not tip it either."""
    for steps in (1, 10):
        people = oar.Population([[0.0]] * steps + [[4.0]] * steps, ["no"] * steps + ["yes"] * steps)
        query = oar.Query([1.0], "yes")
        tie = oar.collective(oar.Problem(people, oar.NearestCentroid(), query, oar.Perturb(1.0)))
        assert not tie.success
        assert tie.prediction == "no"
        assert tie.status is oar.results.Status.IMPROVED  # an audit lets a billionth more pass, and that would do
        assert not tie.impossible
        short = oar.collective(oar.Problem(people, oar.NearestCentroid(), query, oar.Perturb(1.0 - 1e-8)))
        assert short.status is oar.results.Status.IMPOSSIBLE
        beyond = oar.collective(oar.Problem(people, oar.NearestCentroid(), query, oar.Perturb(1.0 + 1e-9)))
        assert beyond.success


def test_impossible_says_what_would_be_enough():
    people = oar.Population([[0.0], [4.0]], ["no", "yes"])
    problem = oar.Problem(people, oar.NearestCentroid(), oar.Query([1.0], "yes"), oar.Perturb(0.25))
    result = oar.collective(problem)
    assert result.status is oar.results.Status.IMPOSSIBLE
    assert "Optimal moves reach the goal with any budget above 1 (class 'no' binds)." in result.explanation


def test_a_query_that_has_the_goal_says_so_and_still_gains():
    people = oar.Population([[0.0], [4.0]], ["no", "yes"])
    problem = oar.Problem(people, oar.NearestCentroid(), oar.Query([3.0], "yes"), oar.Perturb(0.5))
    result = oar.collective(problem)
    assert result.status is oar.results.Status.ALREADY
    assert result.success
    assert result.loss < result.loss_before


def test_one_pass_over_the_data():
    people = oar.Population(np.arange(20.0).reshape(10, 2), [0, 1] * 5)
    passes = []
    original = people.chunks
    people.chunks = lambda *args: passes.append(1) or original(*args)
    problem = oar.Problem(people, oar.NearestCentroid(), oar.Query([0.0, 0.0], 1), oar.Perturb(1.0))
    proposal = oar.solvers.propose_collective(problem)
    assert len(passes) == proposal.passes == 1


@given(seeds)
def test_gradients_are_finite_differences(seed):
    world = random_world(seed)
    reach = reach_of(world.problem())
    from oar.models.centroid.nearest_centroid import goal_loss

    def loss(offsets):
        return float(goal_loss(np.linalg.norm(offsets, axis=1), reach.goal))

    gradients = reach.gradients(reach.offsets)
    step = 1e-6
    for place in np.ndindex(reach.offsets.shape):
        up, down = reach.offsets.copy(), reach.offsets.copy()
        up[place] += step
        down[place] -= step
        assert gradients[place] == pytest.approx((loss(up) - loss(down)) / (2 * step), rel=1e-5, abs=1e-7)

"""Update rules: forwards against loops that share no code with them, backwards against differences and jax.grad."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.online_problems import RULES, problem, slope_by_differences, some_moves, stream, valued

import oar
from oar import online

MODELS = {
    "centroid": oar.NearestCentroid(),
    "softmax": oar.SoftmaxRegression(0.1),
    "svm": oar.models.LinearSVM(0.1),
    "ridge": oar.models.Ridge(0.1),
}


def asked(rule: str, model: str, **changes) -> online.OnlineProblem:
    return problem(RULES[rule], MODELS[model], valued(stream()) if model == "ridge" else stream(), **changes)


def check_gradient(walk: online.Rollout, moves: np.ndarray, agreement: float = 1e-6) -> None:
    path = walk.forward(moves)
    for counts in (np.array([0.0, 0.0, 1.0]), np.full(3, 1 / 3), np.array([0.5, -2.0, 0.0])):
        back = walk.gradient(path, moves, counts)
        for seed in range(2):
            along = some_moves(walk.problem.stream, seed + 1, 1.0)
            slope, scale = float((back.gradient * along).sum()), np.abs(back.gradient * along).sum()
            assert abs(slope - slope_by_differences(walk, moves, along, counts)) <= agreement * scale


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("rule", RULES)
def test_gradients_match_differences_through_three_rounds(rule, model):
    walk = online.Rollout(asked(rule, model))
    check_gradient(walk, some_moves(walk.problem.stream))


@pytest.mark.parametrize("rule", ["steps", "tune"])
def test_gradients_of_a_network_match_differences(rule):
    walk = online.Rollout(problem(RULES[rule], oar.models.MLP((2,), l2=0.1)))
    check_gradient(walk, some_moves(walk.problem.stream), 1e-5)


@pytest.mark.parametrize("rule", RULES)
def test_every_coordinate_counts_for_centroids(rule):
    walk = online.Rollout(asked(rule, "centroid", goal_for="every"))
    moves = some_moves(walk.problem.stream)
    back = walk.gradient(walk.forward(moves), moves)
    differences = np.zeros_like(moves)
    for place in np.argwhere(walk.problem.stream.when[:, None] + np.zeros_like(moves) >= 0):
        along = np.zeros_like(moves)
        along[tuple(place)] = 1.0
        differences[tuple(place)] = slope_by_differences(walk, moves, along, walk.problem.weights)
    assert np.allclose(back.gradient, differences, atol=1e-9)
    assert np.allclose(back.sizes, [np.linalg.norm(differences[9 * t : 9 * t + 9], axis=1).sum() for t in range(3)])


@pytest.mark.parametrize("rule", ["full", "means", "steps"])
@pytest.mark.parametrize("stay", [False, True])
def test_a_member_of_an_early_batch_may_ask_and_moves_with_its_data_unless_it_stays(rule, stay):
    given = stream()
    query = oar.Query(oar.Members([1, 12], stay=stay), 0)
    walk = online.Rollout(problem(RULES[rule], MODELS["softmax"], given, query=query))
    assert (walk.problem.radii[[1, 12]] == (0.0 if stay else 0.5)).all()
    moves = some_moves(given)
    check_gradient(walk, moves)
    outputs = walk.outputs(walk.forward(moves).parameters[-1], walk.aim.places(moves))
    losses = np.logaddexp.reduce(outputs, axis=1) - outputs[:, 0]
    assert losses.mean() == pytest.approx(walk.forward(moves).losses[-1])
    assert np.array_equal(walk.aim.places(moves), given.people.features[[1, 12]] + (0 if stay else moves[[1, 12]]))


@pytest.mark.parametrize(
    "query",
    [
        oar.Query([0.4, 0.2], {0, 1}),
        oar.Query([0.4, 0.2], 0, probability=0.8),
        oar.Query([[0.4, 0.2], [0.1, 0.3]], [0, 2]),
    ],
)
def test_goals_of_all_kinds(query):
    walk = online.Rollout(problem(RULES["means"], MODELS["softmax"], query=query))
    check_gradient(walk, some_moves(walk.problem.stream))


def test_full_refit_is_scikit_learns_fit_to_everyone_so_far():
    from sklearn.linear_model import LogisticRegression

    walk = online.Rollout(asked("full", "softmax"))
    people, moves = walk.problem.stream.people, some_moves(walk.problem.stream)
    path = walk.forward(moves)
    for number in range(3):
        rows = walk.rows(number)
        weights = people.weights[rows] / people.weights[rows].mean()
        theirs = LogisticRegression(C=1 / (rows.size * 0.1), tol=1e-12, max_iter=10_000)
        theirs.fit(people.features[rows] + moves[rows], people.labels[rows], weights)
        ours = oar.SoftmaxRegression(0.1).probabilities(walk.deployed(path.parameters[number], number), people.features)
        assert np.allclose(ours, theirs.predict_proba(people.features), atol=1e-6)


def test_exponential_means_by_hand():
    walk = online.Rollout(asked("means", "centroid"))
    people, when, moves = walk.problem.stream.people, walk.problem.stream.when, some_moves(walk.problem.stream)

    def means(number: int) -> np.ndarray:
        rows = [np.flatnonzero((when == number) & (people.labels == code)) for code in range(3)]
        return np.array(
            [np.average((people.features + moves)[some], axis=0, weights=people.weights[some]) for some in rows]
        )

    centroids = means(-1)
    for number, found in enumerate(walk.forward(moves).parameters):
        centroids = 0.7 * centroids + 0.3 * means(number)
        assert np.allclose(found, centroids.ravel(), atol=1e-13)


def test_gradient_steps_are_jax_grads_of_a_loop_in_the_units_as_given():
    import jax
    import jax.numpy as jnp

    scale = 1e3
    model, rule = oar.SoftmaxRegression(0.1), online.GradientSteps(0.05 / scale**2, 2)
    small = stream()
    given = online.Stream(oar.Population(scale * (small.people.features + 3), small.people.labels), small.when)
    query = oar.Query(scale * np.array([3.4, 3.2]), 0)
    walk = online.Rollout(problem(rule, model, given, query=query))
    moves, first = some_moves(given, size=0.3 * scale), walk.first.reshape(3, 3)
    features, shares = given.people.features, np.eye(3)[given.people.labels]

    def risk(matrix, number, everyone):
        rows = given.rows(number)
        losses = jax.vmap(model.example_loss, (None, 0, 0))(matrix, everyone[rows], shares[rows])
        return losses.mean() + model.penalty(matrix) + model.gauge(matrix)

    def loop(shifts):
        matrix, everyone, total = jnp.asarray(first), features + shifts, 0.0
        for number in range(3):
            for _ in range(2):
                matrix = matrix - rule.rate * jax.grad(risk)(matrix, number, everyone)
            total += model.query_loss(matrix, walk.aim.points[0], shares[0]) / 3
        return total

    with jax.enable_x64(True):
        value, slope = jax.jit(jax.value_and_grad(loop))(moves)
    path = walk.forward(moves)
    assert path.losses.mean() == pytest.approx(float(value), rel=1e-10)
    assert np.allclose(walk.gradient(path, moves, np.full(3, 1 / 3)).gradient, slope, rtol=1e-7, atol=1e-9 / scale)


def test_fine_tuning_ends_where_both_pulls_balance():
    walk = online.Rollout(asked("tune", "softmax"))
    path = walk.forward()
    for number in range(3):
        before = path.parameters[number - 1] if number else path.first
        update = walk.update(number, before, None)
        slope = update.training.risk_gradient(path.parameters[number], update.features)[1]
        assert np.allclose(slope, 0.5 * (before - path.parameters[number]), atol=1e-9)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3))
def test_a_window_of_all_batches_is_a_full_refit_and_a_rate_of_one_is_the_newest_batch(seed, rounds):
    some = stream(rounds, seed=seed)
    moves = some_moves(some, seed)

    def walked(rule):
        return online.Rollout(problem(rule, given=some)).forward(moves).parameters

    assert np.allclose(walked(online.Window(rounds + 1)), walked(online.FullRefit()))
    assert np.allclose(walked(online.ExponentialMeans(1.0)), walked(online.Window(1)))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(sorted(RULES)))
def test_weights_in_the_centroids_say_how_every_move_shifts_them(seed, rule):
    some = stream(seed=seed)
    moves, walk = some_moves(some, seed), online.Rollout(problem(RULES[rule], given=some))
    shifts = walk.forward(moves).parameters - walk.forward().parameters
    for number in range(3):
        weights = online.centroid_weights(walk.problem, number)
        said = [(weights[:, None] * moves)[some.people.labels == code].sum(axis=0) for code in range(3)]
        assert np.allclose(shifts[number], np.ravel(said), atol=1e-12)
        everything = [
            (weights[:, None] * some.people.features)[some.people.labels == code].sum(axis=0) for code in range(3)
        ]
        assert np.allclose(walk.forward().parameters[number], np.ravel(everything), atol=1e-12)


def test_weights_are_for_centroids_and_rounds_that_are():
    with pytest.raises(oar.errors.OptionError, match="exact weights are for nearest centroid"):
        online.centroid_weights(asked("full", "softmax"))
    with pytest.raises(oar.errors.DataError, match="number: must be a round, from 0 to 2, got 3"):
        online.centroid_weights(asked("full", "centroid"), 3)


@pytest.mark.parametrize("rule", RULES)
def test_the_order_of_people_within_batches_makes_no_difference(rule):
    some = stream()
    mixed = np.random.default_rng(0).permutation(some.people.size)
    other = online.Stream(some.people.some(mixed), some.when[mixed])
    paths = [online.Rollout(problem(RULES[rule], MODELS["softmax"], each)).forward() for each in (some, other)]
    assert np.allclose(paths[0].parameters, paths[1].parameters, atol=1e-8)


def test_refits_of_networks_start_from_their_own_start_unless_warm():
    network = oar.models.MLP((2,), l2=0.1)
    cold = online.Rollout(problem(online.Window(1), network)).forward()
    fresh = online.Rollout(problem(online.Window(1), network, stream(history=False))).forward()
    assert np.array_equal(cold.parameters, fresh.parameters)
    warm = online.Rollout(problem(online.Window(1, warm=True), network))
    path = warm.forward()
    assert warm.first is not None
    assert cold.first is None
    for number in range(3):
        update = warm.update(number, None, None)
        assert np.linalg.norm(update.training.risk_gradient(path.parameters[number], update.features)[1]) < 1e-6


def test_a_scaler_that_is_refitted_goes_with_refits():
    walk = online.Rollout(problem(online.Window(2), oar.models.Scaled(oar.SoftmaxRegression(0.1))))
    check_gradient(walk, some_moves(walk.problem.stream))


def test_signals_are_what_is_broadcast_in_each_round():
    walk = online.Rollout(asked("steps", "softmax"))
    back = walk.gradient(walk.forward(), None)
    assert [len(each) for each in back.signals] == [3, 3, 3]
    assert (back.adjoints > 0).all()
    refit = online.Rollout(asked("full", "softmax"))
    path, read = refit.forward(), refit.passes
    assert [len(each) for each in refit.gradient(path, None).signals] == [0, 0, 1]
    assert 0 < refit.passes - read < 10  # nothing goes back through a refit: one round is read


def test_steps_that_run_away_are_an_error_that_names_the_rate():
    rule = online.GradientSteps(1e4, 20)
    with pytest.raises(oar.errors.NumericsError, match="rate: must be below 2/‖H‖ .* in round"):
        online.Rollout(problem(rule, MODELS["ridge"], valued(stream()))).forward()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: online.Window(0), "batches: must be a whole number of at least 1, got 0"),
        (lambda: online.Window(True), "batches: must be a whole number"),
        (lambda: online.ExponentialMeans(0.0), "rate: must be a number above 0 and at most 1, got 0.0"),
        (lambda: online.ExponentialMeans(1.5), "rate: must be a number above 0 and at most 1"),
        (lambda: online.GradientSteps(float("nan")), "rate: must be a number above 0, got nan"),
        (lambda: online.GradientSteps(0.1, 2.5), "steps: must be a whole number"),
        (lambda: online.FineTune(-1), "pull: must be a number above 0, got -1"),
        (lambda: online.FullRefit(warm="yes"), "warm: must be True or False"),
    ],
)
def test_settings_that_cannot_be_are_refused(make, words):
    with pytest.raises(oar.errors.DataError, match=words):
        make()

"""Nearest centroid over time: the exact plan against every plan of a grid, replayed by hand."""

import itertools

import numpy as np
import pytest

import oar
from oar.online import ExponentialMeans, FullRefit, GradientSteps, OnlineProblem, Stream, Window

RULES = {
    "full refit": FullRefit(),
    "window": Window(1),
    "exponential": ExponentialMeans(0.6),
}
BUDGET = 0.4


def replayed(rule, first, second):
    """The centroid of one class after each of two rounds, for rows (m, …) of that class in each; by hand."""
    early, both = first.mean(axis=0), np.concatenate([first, second]).mean(axis=0)
    if isinstance(rule, FullRefit):
        return early, both
    late = second.mean(axis=0)
    return early, late if isinstance(rule, Window) else (1 - rule.rate) * early + rule.rate * late


def losses(rule, query, rounds, codes):
    """The loss of goal 1 after each round; rows are (people, …combinations…, d)."""
    found = []
    per_class = [replayed(rule, *(rows[codes == code] for rows in rounds)) for code in (0, 1)]
    for number in (0, 1):
        away, near = (np.linalg.norm(per_class[code][number] - query, axis=-1) for code in (0, 1))
        found.append(np.logaddexp(0.0, near - away))
    return found


def ball(norm):
    """Points of the unit ball in the plane: its middle, its corners, and points on its edge."""
    angles = np.linspace(0, 2 * np.pi, 13)[:-1]
    round_ = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    on_edge = round_ / np.linalg.norm(round_, ord=norm, axis=1, keepdims=True)
    corners = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]]) if norm == np.inf else np.array([[1, 0], [0, 1], [-1, 0]])
    return np.vstack([[[0.0, 0.0]], on_edge, corners])


@pytest.mark.parametrize("norm", [1, 2, np.inf])
@pytest.mark.parametrize("name", RULES)
def test_no_plan_of_a_grid_beats_it_in_the_plane(name, norm):
    rule, codes = RULES[name], np.array([0, 1])
    rng = np.random.default_rng(4)
    rounds = [np.array([[0.0, 0.0], [2.0, 0.7]]) + rng.normal(0, 0.2, (2, 2)) for _ in range(2)]
    query = np.array([0.7, 0.35])
    stream = Stream.of_batches([(rows, ["no", "yes"]) for rows in rounds])
    problem = OnlineProblem(
        stream, oar.NearestCentroid(), rule, oar.Query(query, "yes"), oar.Perturb(BUDGET, norm=norm)
    )
    result = oar.collective(problem)
    points = BUDGET * ball(norm)
    grid = np.stack(np.meshgrid(*4 * [np.arange(len(points))], indexing="ij")).reshape(4, -1)
    moved = [rounds[t][:, None] + points[grid[2 * t : 2 * t + 2]] for t in (0, 1)]
    best = losses(rule, query, moved, codes)[1].min()
    assert result.exact
    assert result.loss <= best + 1e-12
    assert result.loss == pytest.approx(best, abs=0.03)  # the grid is coarse between its points
    assert result.loss == pytest.approx(result.proposal.claimed_loss, abs=1e-12)
    assert result.bound == pytest.approx(result.loss, abs=1e-12)


def four_people(rule, shared, goal_for="last", query=0.8):
    rng = np.random.default_rng(8)
    rounds = [np.array([[0.0], [0.3], [2.0], [2.4]]) + rng.normal(0, 0.1, (4, 1)) for _ in range(2)]
    stream = Stream.of_batches([(rows, ["no", "no", "yes", "yes"]) for rows in rounds], who=True)
    problem = OnlineProblem(
        stream, oar.NearestCentroid(), rule, oar.Query([query], "yes"), oar.Perturb(BUDGET), goal_for, shared
    )
    return problem, rounds


def all_plans(rounds, shared, steps):
    """Rows of both rounds for all plans in which each person uses shares of its budget on a grid."""
    shares = np.linspace(-1, 1, steps)
    pairs = [(a, b) for a, b in itertools.product(shares, shares) if not shared or abs(a) + abs(b) <= 1 + 1e-9]
    each = BUDGET * np.array(pairs)
    chosen = np.stack(np.meshgrid(*4 * [np.arange(len(pairs))], indexing="ij")).reshape(4, -1)
    return [rounds[t][:, None] + each[chosen][:, :, t : t + 1] for t in (0, 1)]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_four_people_in_two_rounds(name, shared):
    """In one dimension, with budgets for each round or shared, the grid holds the optimum itself."""
    rule, codes = RULES[name], np.array([0, 0, 1, 1])
    problem, rounds = four_people(rule, shared)
    result = oar.collective(problem)
    plans = all_plans(rounds, shared, 5 if shared else 3)
    best = losses(rule, np.array([0.8]), plans, codes)[1].min()
    assert result.exact
    assert result.loss == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_a_goal_for_every_round(name, shared):
    """The mean of both rounds' losses: by gradients, no worse than the grid, and not below the proved bound."""
    rule, codes = RULES[name], np.array([0, 0, 1, 1])
    problem, rounds = four_people(rule, shared, "every")
    result = oar.collective(problem)
    each = losses(rule, np.array([0.8]), all_plans(rounds, shared, 5 if shared else 3), codes)
    best = (0.5 * (each[0] + each[1])).min()
    assert result.loss <= best + 1e-7
    assert result.bound <= result.loss + 1e-9
    assert result.bound == pytest.approx(0.5 * (each[0].min() + each[1].min()), abs=1e-9)
    assert result.success == all(result.rounds["success"])
    assert result.loss == pytest.approx(result.rounds["loss"].mean())
    assert result.gap <= 1e-6


def test_it_is_impossible_for_every_round_if_it_is_for_one():
    rule = ExponentialMeans(0.6)
    easy, _ = four_people(rule, True, "last", query=0.95)
    assert oar.collective(easy).status == "achieved"
    problem, rounds = four_people(rule, False, "every", query=0.55)
    result = oar.collective(problem)
    plans = all_plans(rounds, False, 3)
    per_round = losses(rule, np.array([0.55]), plans, np.array([0, 0, 1, 1]))
    never = [(each >= np.log(2)).all() for each in per_round]
    assert any(never)
    assert result.status == "impossible"


def test_what_suffices_does_and_a_little_less_does_not():
    for shared in (False, True):
        problem, _ = four_people(ExponentialMeans(0.6), shared, query=0.3)
        result = oar.collective(problem)
        assert result.status == "impossible"
        said = result.explanation.split("any budget above ")[1]
        least = float(said.split(" ")[0])
        none = OnlineProblem(
            problem.stream, problem.model, problem.rule, problem.query, oar.Perturb(0.0), "last", shared
        )
        assert oar.collective(none).explanation.endswith(said)  # also where nobody may move yet
        for factor, reached in ((1 + 1e-4, True), (1 - 1e-4, False)):
            other = OnlineProblem(
                problem.stream, problem.model, problem.rule, problem.query, oar.Perturb(factor * least), "last", shared
            )
            assert oar.collective(other).success == reached


def test_budgets_shared_between_classes_are_planned_by_gradients_within_a_bound():
    """A person who is of one class in one round and of another in the next."""
    rng = np.random.default_rng(1)
    rounds = [np.array([[0.0], [0.3], [2.0], [2.4]]) + rng.normal(0, 0.1, (4, 1)) for _ in range(2)]
    labels = [["no", "no", "yes", "yes"], ["yes", "no", "no", "yes"]]
    rounds[1] = rounds[1][[2, 0, 1, 3]]
    stream = Stream.of_batches(list(zip(rounds, labels, strict=True)), who=True)
    problem = OnlineProblem(
        stream, oar.NearestCentroid(), FullRefit(), oar.Query([0.9], "yes"), oar.Perturb(BUDGET), shared=True
    )
    with pytest.raises(oar.OptionError, match="rows of different classes"):
        oar.collective(problem, solver="exact")
    result = oar.collective(problem)
    plans = np.concatenate(all_plans(rounds, True, 5))
    codes = np.array([0, 0, 1, 1, 1, 0, 0, 1])
    away, near = (np.abs(plans[codes == code].mean(axis=0) - 0.9)[:, 0] for code in (0, 1))
    best = np.logaddexp(0.0, near - away).min()
    assert result.bound - 1e-12 <= result.loss <= best + 1e-9


def test_rows_that_weigh_nothing_stay_and_gradient_steps_that_overshoot_are_turned_round():
    problem, _ = four_people(Window(1), False)
    assert not oar.collective(problem).plan.moves(0).any()
    history = ([[0.0], [2.0]], ["no", "yes"])
    batches = [([[0.1], [0.2], [2.1]], ["no", "no", "yes"]), ([[0.0], [2.2]], ["no", "yes"])]
    stream = Stream.of_batches(batches, history=history)
    problem = OnlineProblem(
        stream, oar.NearestCentroid(), GradientSteps(2.5), oar.Query([0.8], "yes"), oar.Perturb(BUDGET)
    )
    result = oar.collective(problem)
    assert result.exact
    assert result.loss == pytest.approx(result.proposal.claimed_loss, abs=1e-10)  # the rule itself was run again
    others = oar.collective(problem, solver="projected-gradient")
    assert result.loss <= others.loss + 1e-9

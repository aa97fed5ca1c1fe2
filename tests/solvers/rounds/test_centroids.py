"""Nearest centroid over time: the exact plan against every plan of a grid, replayed by hand."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

import oar
from oar.online import ExponentialMeans, FullRefit, GradientSteps, OnlineProblem, Stream, Window
from oar.plans.rounds.plan import OnlinePlan

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
    assert result.bound == pytest.approx(result.loss, rel=1e-7)


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
    most = {False: 2, True: 1}.get(shared, shared / BUDGET)
    pairs = [(a, b) for a, b in itertools.product(shares, shares) if abs(a) + abs(b) <= most + 1e-9]
    each = BUDGET * np.array(pairs)
    chosen = np.stack(np.meshgrid(*4 * [np.arange(len(pairs))], indexing="ij")).reshape(4, -1)
    return [rounds[t][:, None] + each[chosen][:, :, t : t + 1] for t in (0, 1)]


@pytest.mark.parametrize("shared", [False, True, 1.5 * BUDGET])
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


@pytest.mark.parametrize("shared", [False, True, 1.5 * BUDGET])
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


def test_totals_of_unlike_people_and_rounds_with_budgets_of_their_own():
    """Against linear programming: how far class means can go is Σ |ω| ‖δ‖, within a person's total and rows' caps."""
    rng = np.random.default_rng(11)
    rounds, size = 3, 5
    batches = [(rng.normal(0, 0.1, (size, 1)) + [[0], [0], [3], [3], [3]], ["no", "no", *3 * ["yes"]]) for _ in "abc"]
    weights = rng.uniform(0.5, 2.0, (rounds, size))
    stream = Stream.of_batches(
        [oar.Population(*batch, weights[number]) for number, batch in enumerate(batches)], who=True
    )
    caps, totals = rng.uniform(0.1, 0.4, (rounds, size)), rng.uniform(0.2, 0.9, size)
    actions = [oar.Perturb(cap) for cap in caps]
    rule = ExponentialMeans(0.6)
    problem = OnlineProblem(
        stream, oar.NearestCentroid(), rule, oar.Query([1.2], "yes"), actions, shared=np.tile(totals, rounds)
    )
    result = oar.collective(problem)
    codes = np.array([0, 0, 1, 1, 1])
    memory = np.array([0.16, 0.24, 0.6])  # of rounds, by hand
    omega = memory[:, None] * weights / (weights @ np.eye(2)[codes])[:, codes]
    radii = np.zeros(2)
    for person in range(size):
        found = linprog(
            -omega[:, person], np.ones((1, rounds)), [totals[person]], bounds=[(0, c) for c in caps[:, person]]
        )
        radii[codes[person]] -= found.fun
    means = np.array(
        [(omega[:, codes == c] * np.array([rows for rows, _ in batches])[:, codes == c, 0]).sum() for c in (0, 1)]
    )
    near, away = abs(means[1] - 1.2) - radii[1], abs(means[0] - 1.2) + radii[0]
    assert result.exact
    assert result.loss == pytest.approx(np.logaddexp(0.0, near - away), abs=1e-12)
    lengths = np.abs(result.plan.each).reshape(rounds, size)
    assert (lengths <= caps * (1 + 1e-12)).all()
    assert (lengths.sum(axis=0) <= totals * (1 + 1e-12)).all()
    by_gradients = oar.collective(problem, solver="projected-gradient")
    assert by_gradients.loss == pytest.approx(result.loss, abs=1e-6)
    assert by_gradients.gap < 1e-6


@pytest.mark.parametrize("shared", [True, 3.0])
def test_who_may_not_act_where_its_weight_is_largest_acts_elsewhere(shared):
    batch = ([[0.0], [4.0]], ["a", "b"])
    stream = Stream.of_batches([batch, batch], who=True)
    budgets = [oar.Perturb(3.0), oar.Perturb(0.0)]
    for rule in (FullRefit(), ExponentialMeans(0.9)):
        problem = OnlineProblem(stream, oar.NearestCentroid(), rule, oar.Query([2.1], "a"), budgets, shared=shared)
        result = oar.collective(problem)
        assert result.exact
        np.testing.assert_allclose(np.abs(result.plan.each.ravel()), [3.0, 3.0, 0.0, 0.0], atol=1e-12)
        assert result.success
        assert result.loss == pytest.approx(result.bound, rel=1e-7)


def test_the_audit_calls_people_by_one_name():
    batch = ([[0.0], [4.0]], ["a", "b"])
    stream = Stream.of_batches([batch, batch], history=batch, who=[[70, 71], [71, 70]])
    problem = OnlineProblem(
        stream, oar.NearestCentroid(), FullRefit(), oar.Query([2.3], "a"), oar.Perturb(BUDGET), shared=True
    )
    told = oar.audit(OnlinePlan(problem, np.array([[0.0], [0.0], [2.0], [0.0], [0.0], [1.0]]))).violations
    assert told[0] == "person 71 in round 1 moves by 2, limit 0.4"
    assert told[1] == "row 5 of the history moves by 1, limit 0"
    assert told[2] == "person 71 moves by 2 over all rounds, limit 0.4"


def test_the_audit_measures_caps_and_totals():
    problem, _ = four_people(FullRefit(), 1.5 * BUDGET)
    each = np.full((8, 1), 0.75 * BUDGET)
    assert not oar.audit(OnlinePlan(problem, each)).violations
    each[0] = 0.8 * BUDGET  # of person 0's total
    assert "person 0 moves by 0.62 over all rounds, limit 0.6" in oar.audit(OnlinePlan(problem, each)).violations[0]
    each[0], each[4] = 1.1 * BUDGET, 0.0
    assert len(oar.audit(OnlinePlan(problem, each)).violations) == 1  # its round's budget alone


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
    with pytest.raises(oar.errors.OptionError, match="rows of different classes"):
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


def test_weights_are_told_whichever_way_they_pull():
    batch = ([[0.0], [4.0]], ["a", "b"])
    stream = Stream.of_batches([batch, batch], history=batch, who=True)
    query, action = oar.Query([2.3], "a"), oar.Perturb(0.5)
    problem = OnlineProblem(stream, oar.NearestCentroid(), GradientSteps(4.5), query, action, shared=True)
    # Steps of 4.5 · ½ take a centroid 2.25 of the way to the mean: −1.25 of what it was, twice.
    told = "acts in round 0 alone: round 0's data weigh 2.81 in the last model, round 1's 2.25."
    assert told in oar.collective(problem).explanation


def test_why_it_is_not_exact_names_what_would_be():
    batch = ([[0.0], [4.0]], ["a", "b"])
    problem = OnlineProblem(
        Stream.of_batches([batch]), oar.SoftmaxRegression(), FullRefit(), oar.Query([2.3], "a"), oar.Perturb(BUDGET)
    )
    with pytest.raises(
        oar.errors.OptionError, match=r"gradient steps, fine-tuning\), .* got softmax-regression with full refit"
    ):
        oar.collective(problem, solver="exact")


def test_of_rounds_that_weigh_the_same_the_earliest_is_acted_in_and_replanning_helps():
    """All rounds of a full refit weigh alike: who did not follow at first can still do so later."""
    rng, codes = np.random.default_rng(8), np.repeat(["no", "yes"], 6)
    rows = np.repeat([[0.0, 0.0], [2.0, 1.0]], 6, axis=0)
    stream = Stream.of_batches([(rows + rng.normal(0, 0.3, rows.shape), codes) for _ in range(3)], who=True)
    query = oar.Query([0.8, 0.4], "yes")
    problem = OnlineProblem(stream, oar.NearestCentroid(), FullRefit(), query, oar.Perturb(BUDGET), shared=True)
    result = oar.collective(problem)
    assert result.exact
    assert result.plan.efforts() == pytest.approx([12 * BUDGET, 0, 0])
    late = np.concatenate([np.zeros((24, 2)), result.plan.each[:12]])
    assert oar.audit(OnlinePlan(problem, late)).loss == pytest.approx(result.loss)  # it really is a tie
    again, once = (
        oar.follow(problem, oar.online.Reality(adoption=0.6, seed=2), replan=replan) for replan in (True, False)
    )
    assert again.loss < once.loss - 0.005
    assert again.loss >= result.loss - 1e-12

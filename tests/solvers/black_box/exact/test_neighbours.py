"""Nearest neighbours: what is called exact against every neighbourhood, fine grids, and scikit-learn's own refits."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier

import oar
from oar import referee
from oar.actions.sets.norms import Norm
from oar.plans import MemberPlan
from oar.retraining.black_box import BlackBoxTraining
from oar.solvers import shortest_move
from oar.solvers.black_box import planning
from oar.solvers.black_box.exact import neighbours_collective
from oar.solvers.black_box.exact.neighbours_collective import ring_of
from oar.solvers.query.shortest_move import ruling_out

NORMS = (1, 2, np.inf)
WAYS = ("auto", "brute", "kd_tree", "ball_tree")


def world(seed, budget=None, norm=2, size=None, whole=False, **settings):
    """Draw a small problem; if `whole`, on a grid, where distances tie."""
    rng = np.random.default_rng(seed)
    classes = int(rng.integers(2, 4))
    size = size or int(rng.integers(4, 8))
    codes = np.concatenate([np.arange(classes), rng.integers(0, classes, size - classes)])
    features = rng.integers(-2, 3, (size, 2)).astype(float) if whole else rng.normal(0, 1.5, (size, 2))
    query = rng.integers(-2, 3, 2).astype(float) if whole else rng.normal(size=2)
    number = int(rng.integers(1, min(5, size)))
    model = KNeighborsClassifier(number, algorithm=WAYS[seed % 4], **settings)
    mask = rng.random(size) < 0.7
    budgets = rng.choice([0.0, 0.5, 1.0, 2.0], size) if budget is None else budget
    asked = oar.Query(query, int(rng.integers(0, classes)), budget=1.0 if budget is None else None)
    return oar.Problem(oar.Population(features, codes), oar.BlackBox(model), asked, oar.Perturb(budgets, norm, mask))


def outcome(problem, members):
    """Return what k people's votes mean: whether the goal is missed, and its loss; what is less is better."""
    codes = np.asarray(problem.people.codes(0, problem.people.size))[list(members)]
    counts = np.bincount(codes, minlength=len(problem.people.classes))
    shares = np.maximum(counts / counts.sum(), 1e-6)
    goal = problem.goal
    return not (counts[goal] > np.delete(counts, goal)).all(), float(-np.log(shares[goal] / shares.sum()))


def points_of_balls(problem, rng, number=400):
    """Return points (n, number, d) of everybody's ball: many, with corners and edges among them."""
    norm, radii = problem.allowance.norm, problem.allowance.everyones(problem.people.size)
    heading = rng.normal(size=(number, 2))
    heading[:8] = np.array(list(itertools.product([-1, 0, 1], repeat=2)))[[0, 1, 2, 3, 5, 6, 7, 8]]
    lengths = np.linalg.norm(heading, ord=norm.p, axis=1, keepdims=True)
    inwards = np.where(np.arange(number) < number // 2, 1.0, rng.random(number))[:, None]
    return problem.people.features[:, None] + radii[:, None, None] * (heading / lengths * inwards)


# -- members move ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", NORMS)
@given(seed=st.integers(0, 100_000))
@settings(max_examples=15)
def test_members_do_as_well_as_the_best_of_all_neighbourhoods(norm, seed):
    problem = world(seed, norm=norm)
    features, query = problem.people.features, problem.query_features
    radii = problem.allowance.everyones(problem.people.size)
    length = problem.allowance.norm
    low, high = length.nearest_distance(features - query, radii), length.farthest_distance(features - query, radii)
    everyone = set(range(problem.people.size))
    possible = [
        outcome(problem, members)
        for members in itertools.combinations(everyone, problem.model.estimator.n_neighbors)
        if all(low[i] < high[j] for i in members for j in everyone.difference(members))
    ]
    result = oar.collective(problem)
    best = min(possible)
    assert (not result.success, result.loss) == (best[0], pytest.approx(best[1]))
    assert result.bound == pytest.approx(min(loss for _, loss in possible))
    assert result.exact == (result.loss <= result.bound + 1e-9)
    assert (result.status == "impossible") == best[0]
    assert not result.disagreement


def test_the_best_votes_are_those_of_all_neighbourhoods_and_level_votes_are_no_lead():
    rng = np.random.default_rng(0)
    level = 0
    for _ in range(250):
        size, classes = int(rng.integers(6, 10)), int(rng.integers(3, 6))
        codes = np.concatenate([np.arange(classes), rng.integers(0, classes, size)])[:size]
        people, number = oar.Population(rng.normal(size=(size, 1)), codes), int(rng.integers(3, 6))
        model = oar.BlackBox(KNeighborsClassifier(number))
        action = oar.Perturb(rng.choice([0.0, 0.0, 0.4, 1.0], size))
        problem = oar.Problem(people, model, oar.Query([0.0], int(rng.integers(0, classes))), action)
        low = np.maximum(np.abs(people.features[:, 0]) - problem.allowance.budget, 0)
        high = np.abs(people.features[:, 0]) + problem.allowance.budget
        possible = [
            outcome(problem, members)
            for members in itertools.combinations(range(size), number)
            if low[list(members)].max() < np.delete(high, members).min()
        ]
        votes = ring_of(problem).best(problem.allowance.everyones(size), 1e-12, leading=True).counts
        assert votes.sum() == number
        told = outcome(problem, np.repeat([codes.tolist().index(code) for code in range(classes)], votes))
        assert told == (min(possible)[0], pytest.approx(min(possible)[1]))
        level += min(possible)[0] and votes[problem.goal] == np.delete(votes, problem.goal).max()
    assert level >= 5


@pytest.mark.parametrize(
    ("places", "budgets"),
    [
        # Either all three of the goal are in, and so must three of "o"; or two are, and one of each other class.
        ([0.5, -0.5, 3.0, 2.0, 2.1, 1.9, 2.0, 2.0, 2.0, 2.0], [0, 0, 0, 0.5, 0.5, 0.5, 1.5, 1.5, 1.5, 1.5]),
        # Either nobody but the goal's and "o" is near enough; or the other classes must be in.
        ([1.0, 1.1, -1.0, 1.0, 0.9, -1.0, 2.0, 2.0, 2.0, 2.0], [2, 2, 2, 2, 2, 2, 0, 0, 0, 0]),
    ],
)
def test_the_goal_comes_before_a_lower_loss(places, budgets):
    people = oar.Population(np.array(places)[:, None], [*"gggooocdef"])
    model = oar.BlackBox(KNeighborsClassifier(6))
    result = oar.collective(oar.Problem(people, model, oar.Query([0.0], "g"), oar.Perturb(budgets)))
    assert result.success
    assert not result.exact
    assert result.loss == pytest.approx(np.log(3), abs=1e-5)
    assert result.bound == pytest.approx(np.log(2), abs=1e-5)
    assert "The goal came first" in result.explanation


@pytest.mark.parametrize("norm", NORMS)
@given(seed=st.integers(0, 100_000), whole=st.booleans())
@settings(max_examples=15)
def test_no_moves_drawn_at_random_do_better(norm, seed, whole):
    problem = world(seed, norm=norm, whole=whole)
    rng, size = np.random.default_rng(seed), problem.people.size
    found = neighbours_collective.propose(problem)
    points = points_of_balls(problem, rng)
    distances = np.linalg.norm(points - problem.query_features, axis=2)
    # Everybody at one of its nearest, its farthest and two other points, in all combinations.
    options = np.concatenate([distances.argmin(axis=1)[:, None], distances.argmax(axis=1)[:, None]], axis=1)
    options = np.concatenate([options, rng.integers(0, points.shape[1], (size, 2))], axis=1)
    chosen = np.array(list(itertools.product(range(4), repeat=size)))[:: max(1, 4**size // 2_000)]
    each = np.take_along_axis(distances, options, axis=1)[np.arange(size), chosen]
    number = problem.model.estimator.n_neighbors
    outcomes = {outcome(problem, members) for members in np.argsort(each, axis=1)[:, :number].tolist()}
    told = referee.judged(found, problem, "members")
    assert told.bound <= min(loss for _, loss in outcomes) + 1e-9
    if told.impossible:
        assert all(missed for missed, _ in outcomes)
    if found.exact:  # then the goal and the loss are one aim, and nothing beats it by a tie either
        assert min(outcomes) >= (not oar.audit(found.plan).success, found.claimed_loss - 1e-9)


@given(seed=st.integers(0, 100_000), whole=st.booleans())
@settings(max_examples=15)
def test_no_plan_that_anybody_has_audited_is_better(seed, whole):
    problem = world(seed, norm=NORMS[seed % 3], whole=whole)
    result = oar.collective(problem)
    rng, features = np.random.default_rng(seed), problem.people.features
    points, size = points_of_balls(problem, rng), problem.people.size
    for _ in range(12):
        each = points[np.arange(size), rng.integers(0, points.shape[1], size)] - features
        told = oar.audit(MemberPlan(problem, np.zeros(2), each))
        assert not told.violations
        assert told.loss >= result.bound - 1e-9
        assert not (told.success and result.status == "impossible")
        if result.exact:
            assert (not told.success, told.loss) >= (not result.success, result.loss - 1e-9)


@given(seed=st.integers(0, 100_000))
@settings(max_examples=25)
def test_ties_are_never_counted_on(seed):
    problem = world(seed, norm=NORMS[seed % 3], whole=True)
    result = oar.collective(problem)
    assert not result.audit.violations
    assert not result.disagreement
    assert result.loss == pytest.approx(result.proposal.claimed_loss)
    for way in WAYS:  # whoever is asked for the nearest finds the same
        model = oar.BlackBox(KNeighborsClassifier(problem.model.estimator.n_neighbors, algorithm=way))
        other = oar.Problem(problem.people, model, problem.query, problem.action)
        if result.plan.each.any():
            told = oar.audit(MemberPlan(other, result.plan.query_move, result.plan.each))
            assert told.loss == pytest.approx(result.loss)


@given(seed=st.integers(0, 100_000), budget=st.floats(0.0, 2.0))
@settings(max_examples=20)
def test_together_is_never_worse_than_alone_where_everyone_takes_part(seed, budget):
    drawn = world(seed, budget=budget, norm=NORMS[seed % 3])
    problem = oar.Problem(drawn.people, drawn.model, drawn.query, oar.Perturb(budget, drawn.allowance.norm))
    alone, together = planning.exact_move(problem), oar.collective(problem)
    if alone is not None and (oar.audit(alone.plan).success or not together.success):
        told = oar.audit(alone.plan)
        assert (not together.success, together.loss) <= (not told.success, told.loss + 1e-9)


@pytest.mark.parametrize("norm", NORMS)
def test_budgets_that_are_said_to_suffice_do_and_a_little_less_does_not(norm):
    seen = never = 0
    for seed in range(16):
        problem = world(seed, budget=0.0, norm=norm)
        told = oar.collective(problem).proposal.suffices
        number = re.search(r"at least ([\d.e+-]+)\.$", told)
        if number is None:
            never += told.startswith("No budget is enough")
            most = oar.collective(problem.with_action(budget=1e3))
            assert most.success == (not told)
            continue
        seen += 1
        budget = float(number.group(1))
        assert oar.collective(problem.with_action(budget=budget * 1.0001)).success
        less = oar.collective(problem.with_action(budget=budget * 0.9999))
        assert less.status == "impossible"
    assert seen >= 2
    assert never >= 2


def test_many_people_are_no_harder():
    rng = np.random.default_rng(1)
    features, codes = rng.normal(size=(3_000, 5)), rng.integers(0, 7, 3_000)
    model = oar.BlackBox(KNeighborsClassifier(25))
    problem = oar.Problem(oar.Population(features, codes), model, oar.Query(np.zeros(5), 3), oar.Perturb(0.4))
    result = oar.collective(problem)
    assert result.status == "achieved"
    assert result.exact
    assert result.loss == pytest.approx(-np.log(24 / 25), abs=1e-5)  # one other cannot leave
    assert 10 < result.audit.movers < 1_000


def test_those_who_are_where_they_should_be_stay():
    people = oar.Population([[0.0], [1.0], [5.0]], ["yes", "no", "no"])
    problem = oar.Problem(people, oar.BlackBox(KNeighborsClassifier(1)), oar.Query([0.1], "yes"), oar.Perturb(3.0))
    result = oar.collective(problem)
    assert result.status == "already"
    assert result.exact
    assert result.audit.movers == 0


def test_everybody_in_one_place_can_be_told_apart_by_moving():
    people = oar.Population(np.zeros((6, 2)), [0, 0, 0, 1, 1, 1])
    for norm in NORMS:
        model = oar.BlackBox(KNeighborsClassifier(3))
        problem = oar.Problem(people, model, oar.Query([0.0, 0.0], 1), oar.Perturb(0.01, norm))
        result = oar.collective(problem)
        assert result.success
        assert result.loss == pytest.approx(0, abs=1e-5)
        stuck = oar.collective(problem.with_action(budget=0.0))
        assert not stuck.exact or stuck.bound == stuck.loss
        assert stuck.bound == stuck.loss  # who cannot move is told what was told before


# -- the query moves ---------------------------------------------------------------------------------------------------


def grid_of_moves(norm, budget, steps=61):
    side = np.linspace(-budget, budget, steps)
    square = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    return square[np.linalg.norm(square, ord=norm, axis=1) <= budget]


@pytest.mark.parametrize("norm", NORMS)
@given(seed=st.integers(0, 100_000), budget=st.floats(0.05, 3.0), whole=st.booleans())
@settings(max_examples=10)
def test_no_move_of_the_query_on_a_fine_grid_is_better(norm, seed, budget, whole):
    problem = world(seed, budget=budget, norm=norm, whole=whole)
    found = planning.exact_move(problem)
    if found is None:  # everything within the budget is a tie
        assert whole
        return
    told = oar.audit(found.plan)
    assert not told.violations
    assert told.loss == pytest.approx(found.claimed_loss)
    moves = grid_of_moves(norm, budget)
    box = BlackBoxTraining(problem).unmoved(0)
    logits = box.says(problem.query_features + moves).outputs
    goal = problem.goal
    losses = np.logaddexp.reduce(logits, axis=1) - logits[:, goal]
    reached = logits[:, goal] > np.delete(logits, goal, axis=1).max(axis=1) + 1e-9
    proved = referee.judged(found, problem, "query")
    assert proved.bound <= losses.min() + 1e-9
    if found.exact:
        assert told.loss <= losses.min() + 1e-9
    if proved.impossible:
        assert not told.success
        assert not reached.any()
    elif not whole and reached.any():
        assert told.success
    move = shortest_move(problem)
    if move is not None:
        at_it = box.says((problem.query_features + move)[None]).outputs[0]
        assert at_it.argmax() == goal
        if not whole:  # ties on a grid may give the goal a hair earlier
            lengths = np.linalg.norm(moves, ord=norm, axis=1)
            assert np.linalg.norm(move, ord=norm) <= lengths[reached].min(initial=np.inf) * (1 + 1e-6) + 1e-6


def corners_and_edges(rows, slack):
    """Return all points where a shortest vector of the plane with rows·v ≤ slack can end, by any of the norms."""
    ends = [np.zeros(2)]
    for row, level in zip(rows, slack, strict=True):
        for heading in (row, np.array([1, 0]), np.array([0, 1]), np.array([1, 1]), np.array([1, -1])):
            if abs(row @ heading) > 1e-9:
                ends.append(level / (row @ heading) * heading)
    for pair in itertools.combinations(range(len(rows)), 2):
        corner = rows[list(pair)]
        if abs(np.linalg.det(corner)) > 1e-9:
            ends.append(np.linalg.solve(corner, slack[list(pair)]))
    return [end for end in ends if (rows @ end <= slack + 1e-9).all()]


@pytest.mark.parametrize("norm", NORMS)
def test_the_shortest_move_ends_in_the_nearest_of_all_corners_and_edges(norm):
    seen = 0
    for seed in range(12):
        problem = world(seed, budget=1.0, norm=norm)
        move = shortest_move(problem)
        if move is None or not move.any():
            continue
        seen += 1
        offsets = problem.people.features - problem.query_features
        everyone, best = set(range(problem.people.size)), np.inf
        for members in itertools.combinations(everyone, problem.model.estimator.n_neighbors):
            if not outcome(problem, members)[0]:
                pairs = itertools.product(members, everyone.difference(members))
                ins, outs = (offsets[list(side)] for side in zip(*pairs, strict=True))
                ends = corners_and_edges(outs - ins, ((outs**2).sum(axis=1) - (ins**2).sum(axis=1)) / 2)
                best = min([best, *(np.linalg.norm(end, ord=norm) for end in ends)])
        assert np.linalg.norm(move, ord=norm) == pytest.approx(best, abs=1e-6)
    assert seen >= 5


@pytest.mark.parametrize("norm", NORMS)
@given(seed=st.integers(0, 100_000))
@settings(max_examples=30)
def test_what_is_ruled_out_is_just_what_is_farther_than_the_shortest(norm, seed):
    rng = np.random.default_rng(seed)
    rows, slack = rng.normal(size=(5, 2)), rng.normal(-0.5, 1.0, 5)
    ends = corners_and_edges(rows, slack)
    least = min((np.linalg.norm(end, ord=norm) for end in ends), default=np.inf)
    assert ruling_out(rows, slack, Norm.of(norm), 1.0001 * least if ends else 0.0) is None or not ends
    if least > 1e-3:
        assert ruling_out(rows, slack, Norm.of(norm), 0.9999 * least if ends else 10.0) is not None


@pytest.mark.parametrize("norm", NORMS)
def test_the_shortest_way_decides_what_is_impossible(norm):
    seen = 0
    for seed in range(14):
        problem = world(seed, budget=1.0, norm=norm)
        move = shortest_move(problem)
        if move is None or not move.any():
            continue
        seen += 1
        length = float(problem.allowance.norm.length(move))
        for share, status in ((1.0001, "achieved"), (0.9999, "impossible")):
            query = oar.Query(problem.query.features, problem.query.goal, budget=share * length)
            result = oar.individual(oar.Problem(problem.people, problem.model, query, problem.action))
            assert result.status == status
    assert seen >= 5


def test_who_has_the_goal_by_a_tie_of_distances_keeps_it():
    """Two people in one place, of whom the estimator counts the first: nothing is sure of them but what is asked."""
    places = np.array([[1, 2], [1, 0], [1, -1], [0, 1], [1, -1], [-1, 2], [0, -2], [-1, 0], [1, 0]], dtype=float)
    people, box = oar.Population(places, [1, 0, 1, 1, 1, 1, 1, 1, 1]), oar.BlackBox(KNeighborsClassifier(1))
    has = oar.Problem(people, box, oar.Query([0.4, -0.3], goal=0), oar.Perturb(0.6, norm=1))
    for result in (oar.individual(has), oar.individual(has, solver="exact"), oar.collective(has)):
        assert result.success
        assert result.loss <= result.loss_before
    assert not shortest_move(has).any()
    for budget in (0.6, 3.0):
        asks = oar.Query([-0.9, 0.2], goal=0, budget=budget)
        found = planning.exact_move(oar.Problem(people, box, asks, oar.Perturb(0.6, norm=1)))
        assert budget < 1 or not referee.judged(found, found.plan.problem, "query").impossible  # but for the tie
        assert "Whether any move of the query is enough for 0 hangs on" in found.suffices


def test_a_tie_of_votes_is_called_one():
    people = oar.Population([[0.0], [0.2], [5.0], [6.0]], [0, 1, 1, 1])
    asked = oar.Problem(people, oar.BlackBox(KNeighborsClassifier(2)), oar.Query([0.1], goal=0), oar.Perturb(0.6))
    for result in (oar.individual(asked), oar.collective(asked)):
        assert not result.success
        assert "0 more than a tie" in result.explanation
    third = oar.Problem(people, oar.BlackBox(KNeighborsClassifier(3)), oar.Query([0.1], goal=0), oar.Perturb(0.6))
    for result in (oar.individual(third), oar.collective(third)):
        assert not result.success
        assert "tie" not in result.explanation


def test_other_goals_than_one_class_are_known_to_the_query():
    people = oar.Population([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "c", "b"])
    model = oar.BlackBox(KNeighborsClassifier(1))
    any_of = oar.Problem(people, model, oar.Query([0.1], {"b", "c"}), oar.Perturb(0.5))
    assert oar.individual(any_of).success
    assert neighbours_collective.propose(any_of) is None
    sure = oar.Query([0.1], "b", probability=0.9)
    result = oar.individual(oar.Problem(people, model, sure, oar.Perturb(0.5)))
    assert result.success
    assert oar.collective(oar.Problem(people, model, sure, oar.Perturb(0.5))).success


# -- what is not theirs ------------------------------------------------------------------------------------------------


def test_other_settings_questions_and_sizes_are_left_to_others():
    rng = np.random.default_rng(0)
    people = oar.Population(rng.normal(size=(60, 2)), np.arange(60) % 2)
    usual, query = KNeighborsClassifier(3), oar.Query([0.0, 0.0], 1)

    def found(model=usual, asked=query, action=None, **rest):
        problem = oar.Problem(people, oar.BlackBox(model), asked, action or oar.Perturb(0.5), **rest)
        alone = None if not problem.levers.given and problem.several else planning.exact_move(problem)
        return alone, neighbours_collective.propose(problem)

    assert found()[1] is not None
    assert found()[0] is None  # 34,220 neighbourhoods
    assert None not in found(KNeighborsClassifier(1, weights="distance"))
    for model in (
        KNeighborsClassifier(3, weights="distance"),
        KNeighborsClassifier(1, p=1),
        KNeighborsClassifier(1, metric="cosine"),
        KNeighborsClassifier(61),
    ):
        assert found(model) == (None, None)
    one = KNeighborsClassifier(1)
    assert found(one, oar.Query([[0.0, 0.0], [1.0, 1.0]], 1)) == (None, None)
    assert found(one, action=oar.Withhold(most=3)) == (None, None)
    assert found(one, action=oar.Perturb(0.5, participants=oar.Best(2)))[1] is None
    assert found(one, keep=oar.Keep(changed=0.1))[1] is None

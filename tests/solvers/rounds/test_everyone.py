"""Everything that a plan over rounds may move: tables in whole steps, the query, budgets that rounds share."""

import itertools
from dataclasses import replace

import numpy as np
import pandas
import pytest
from support.online_problems import three_rounds

import oar
from oar.models import Scaled
from oar.online import ExponentialMeans, FullRefit, GradientSteps, OnlineProblem, Rollout, Stream, Window
from oar.solvers.feasible.sets import FeasibleRegions
from oar.solvers.rounds.descent import limits_of
from oar.solvers.rounds.everyone import EveryonesRollouts

SOFTMAX = oar.SoftmaxRegression(0.1)
LIMITS = oar.Limits({"job": oar.Limit(cost=0.5), "pay": oar.Limit(direction="up", cost=0.4, unit=1)})


def table(size=24, seed=0):
    """Draw applicants with a category, whole numbers and numbers."""
    rng = np.random.default_rng(seed)
    pay, debt = rng.integers(0, 6, size), rng.normal(1.0, 0.5, size)
    job = rng.choice(["a", "b", "c"], size)
    good = pay - debt + (job == "a") + rng.normal(0, 1.0, size) > 2
    return pandas.DataFrame({"job": job, "pay": pay, "debt": debt, "credit": np.where(good, "good", "bad")})


def of_table(model=None, rule=None, budget=0.8, rounds=3, who=False, **changes):
    """Ask about a refused applicant of a table whose people come in rounds."""
    frame = table()
    people = oar.Population.from_frame(frame, target="credit")
    when = np.arange(len(frame)) % rounds
    stream = Stream(people, when, np.arange(len(frame)) // rounds if who else None)
    query = oar.Query({"job": "b", "pay": 1, "debt": 1.4}, goal="good")
    model = Scaled(SOFTMAX) if model is None else model
    options = {"action": oar.Perturb(budget, norm=1, limits=LIMITS)} | changes
    return OnlineProblem(stream, model, rule or FullRefit(), query, **options)


def priced(problem, moves):
    """Return what each row's moves cost, told column by column from the table's words."""
    people = problem.people
    before = people.encoding.decode(np.asarray(people.features), people.index)
    after = people.encoding.decode(np.asarray(people.features) + moves, people.index)
    spread = before["debt"].std(ddof=0)
    switches = (before["job"] != after["job"]).to_numpy()
    raised = (after["pay"] - before["pay"]).to_numpy()
    assert (raised >= 0).all()
    assert (raised == np.rint(raised)).all()
    return 0.5 * switches + 0.4 * raised + np.abs((after["debt"] - before["debt"]).to_numpy()) / spread


@pytest.mark.parametrize("query", [False, True])
@pytest.mark.parametrize("rule", [FullRefit(), GradientSteps(0.3, 2)], ids=["refit", "steps"])
def test_slopes_in_cost_are_those_of_differences(rule, query):
    problem = of_table(SOFTMAX if isinstance(rule, GradientSteps) else None, rule, goal_for="every")
    measured, rng = problem.measured(query=query), np.random.default_rng(0)
    objective = EveryonesRollouts(Rollout(problem), measured.columns, measured.costs)
    moves = 0.1 * rng.normal(size=(problem.people.size + 1, measured.columns.size))
    slopes = objective.differentiate(objective.refit(moves, None, 0.0)).gradient
    for _ in range(3):
        way, step = rng.normal(size=moves.shape), 1e-5
        ahead, behind = (objective.outcome(moves + sign * step * way).loss for sign in (1, -1))
        assert (ahead - behind) / (2 * step) == pytest.approx((slopes * way).sum(), abs=1e-5)
    step = objective.signalled(moves, objective.outcome(moves)).kept
    np.testing.assert_allclose(objective.falls_at(step, moves), -slopes, atol=1e-9)  # where they are
    there = objective.from_there(moves)
    assert there.outcome(np.zeros_like(moves)).loss == pytest.approx(objective.outcome(moves).loss, abs=1e-12)


@pytest.mark.parametrize("goal_for", ["last", "every"])
@pytest.mark.parametrize("rule", [FullRefit(), Window(2), ExponentialMeans(0.5)], ids=["full", "window", "means"])
def test_a_table_in_rounds_keeps_its_limits_and_its_steps(rule, goal_for):
    model = oar.models.PrototypeNetwork() if isinstance(rule, ExponentialMeans) else None
    problem = of_table(model, rule, goal_for=goal_for)
    result = oar.collective(problem)
    assert result.audit.violations == ()
    assert result.loss < result.loss_before - 0.1
    assert result.loss == pytest.approx(result.proposal.claimed_loss, abs=1e-6)
    costs = priced(problem, result.plan.each)
    assert (costs <= 0.8 + 1e-9).all()
    np.testing.assert_allclose(result.plan.efforts(), [costs[problem.stream.rows(t)].sum() for t in range(3)])
    assert result.audit.effort == pytest.approx(costs.sum())


def test_one_round_of_a_table_is_one_refit():
    problem = of_table(rounds=1)
    alone = oar.Problem(problem.people, problem.model, problem.query, oar.Perturb(0.8, norm=1, limits=LIMITS))
    assert oar.collective(problem).loss == pytest.approx(oar.collective(alone).loss, rel=0.01)
    assert oar.individual(problem).loss == pytest.approx(oar.individual(alone).loss, abs=1e-6)
    np.testing.assert_allclose(oar.individual(problem).plan.query_move, oar.individual(alone).plan.query_move)


@pytest.mark.parametrize("shared", [False, True])
def test_four_people_of_a_table_against_every_plan(shared):
    """Two rounds of the same two people, two flags each: every plan, replayed by hand with class means."""
    frame = pandas.DataFrame(
        {"x": [False, True, False, True], "z": [True, True, False, False], "y": ["no", "yes", "no", "yes"]}
    )
    people = oar.Population.from_frame(frame, target="y")
    stream = Stream(people, np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    query = oar.Query({"x": False, "z": True}, "yes")
    problem = OnlineProblem(
        stream, oar.NearestCentroid(), ExponentialMeans(0.4), query, oar.Perturb(1.0, norm=1), shared=shared,
        start=[[0.0, 0.5], [1.0, 0.5]],
    )  # fmt: skip
    rows, point = np.asarray(people.features), problem.query_features
    losses = []
    for flips in itertools.product([None, 0, 1], repeat=4):
        spent = np.array([flip is not None for flip in flips])
        if shared and ((spent[0] and spent[2]) or (spent[1] and spent[3])):
            continue
        moved, means = rows.copy(), np.array([[0.0, 0.5], [1.0, 0.5]])
        for row, flip in enumerate(flips):
            if flip is not None:
                moved[row, flip] = 1 - moved[row, flip]
        for number in range(2):
            means = 0.6 * means + 0.4 * moved[2 * number : 2 * number + 2]
        near = np.linalg.norm(means - point, axis=1)
        losses.append(np.logaddexp(0.0, near[1] - near[0]))
    result = oar.collective(problem)
    assert result.audit.violations == ()
    assert result.loss >= min(losses) - 1e-9
    assert result.loss == pytest.approx(min(losses), abs=0.02)


def test_who_breaks_a_tables_limits_is_named_with_its_round():
    problem = of_table()
    moves = np.zeros((24, problem.people.dimensions))
    pay = problem.people.encoding.places["pay"].start
    moves[4, pay], moves[5, pay] = -1.0, 0.5
    told = oar.audit(problem, moves).violations
    assert "person 4 in round 1 lowers 'pay', which may only rise" in told
    assert "person 5 in round 2 has a value of 'pay' that is not whole" in told
    moves[:] = 0.0
    moves[4, pay] = 3.0
    assert oar.audit(problem, moves).violations == ("person 4 in round 1 moves at a cost of 1.2, limit 0.8",)


def test_rounds_of_a_table_share_a_budget():
    problem = of_table(who=True, shared=True)
    result = oar.collective(problem)
    assert result.audit.violations == ()
    spent = np.bincount(problem.stream.who, weights=priced(problem, result.plan.each))
    assert (spent <= 0.8 + 1e-9).all()
    apart = oar.collective(of_table(who=True))
    assert apart.loss < result.loss < result.loss_before
    told = oar.audit(problem, apart.plan.each).violations
    assert any("over all rounds, limit 0.8" in one for one in told)


def test_moves_are_shortened_in_whole_steps():
    problem = of_table(who=True)
    plan = oar.collective(problem).plan
    assert limits_of(problem).project(plan.each) is plan.each
    for changes in ({"budget": 0.5}, {"shared": 0.9}):
        few = of_table(who=True, **changes)
        assert oar.audit(few, plan.each).violations
        shorter = limits_of(few).project(plan.each)
        assert oar.audit(few, shorter).violations == ()
        assert (np.sign(shorter) * np.sign(plan.each) >= 0).all()
        assert shorter.any()


def test_a_table_is_followed_within_its_limits():
    problem = of_table(who=True, shared=True)
    for replan in (True, False):
        found = oar.follow(problem, oar.online.Reality(adoption=0.5), replan=replan)
        assert found.audit.violations == ()
    with pytest.raises(oar.errors.OptionError, match="noise: is for plain features, got a table"):
        oar.follow(problem, oar.online.Reality(noise=0.1))


@pytest.mark.parametrize("model", [oar.NearestCentroid(), SOFTMAX], ids=["centroids", "softmax"])
@pytest.mark.parametrize("goal_for", ["last", "every"])
def test_the_querys_own_move_against_a_grid(model, goal_for):
    """Nobody else acts, so the models are those of no moves."""
    problem = three_rounds(model, FullRefit(), goal_for=goal_for)
    result, walk = oar.individual(problem), Rollout(problem)
    path = walk.forward(None)
    angles = np.linspace(0, 2 * np.pi, 400)
    grid = [0.4 * share * np.array([np.cos(a), np.sin(a)]) for a in angles for share in (0.0, 0.5, 0.9, 1.0)]
    losses = [problem.weights @ walk_losses(walk, path, move) for move in grid]
    assert result.loss <= min(losses) + 1e-7
    assert result.loss == pytest.approx(min(losses), abs=1e-3)
    assert not result.plan.each.any()
    assert result.audit.violations == ()
    assert np.linalg.norm(result.plan.query_move) <= 0.4 + 1e-9


def walk_losses(walk, path, move):
    """Return the loss after each round, of who asks from elsewhere."""
    rounds = enumerate(path.parameters)
    return np.array([walk.aim.at(walk.bound(number), theta, None, move)[0] for number, theta in rounds])


@pytest.mark.parametrize("model", [oar.NearestCentroid(), SOFTMAX], ids=["centroids", "softmax"])
@pytest.mark.parametrize("shared", [False, True])
def test_together_they_do_no_worse_than_alone(model, shared):
    problem = three_rounds(model, FullRefit(), shared=shared)
    both, members, own = oar.joint(problem), oar.collective(problem), oar.individual(problem)
    assert both.loss <= min(members.loss, own.loss) + 1e-9
    assert both.audit.violations == ()
    assert both.plan.query_move.any()
    assert both.plan.each.any()
    assert not (both.audit.bound or 0.0) > both.loss if hasattr(both.audit, "bound") else True
    wider = oar.joint(replace(problem, query=replace(problem.query, budget=0.8)))
    assert wider.loss < both.loss


def test_together_on_a_table_they_do_no_worse_than_alone():
    problem = of_table(budget=0.5)
    both, members, own = oar.joint(problem), oar.collective(problem), oar.individual(problem)
    assert both.loss <= min(members.loss, own.loss) + 1e-9
    assert both.audit.violations == ()


def test_a_plan_with_the_querys_move_is_kept_in_a_file(tmp_path):
    problem = three_rounds(SOFTMAX, FullRefit())
    plan = oar.joint(problem).plan
    plan.save(tmp_path / "plan.npz")
    again = oar.online.OnlinePlan.load(tmp_path / "plan.npz", problem)
    np.testing.assert_array_equal(again.query_move, plan.query_move)
    assert "the query moves" in repr(again)
    still = oar.collective(problem).plan
    still.save(tmp_path / "still.npz")
    assert not oar.online.OnlinePlan.load(tmp_path / "still.npz", problem).query_move.any()


def test_nothing_is_proved_of_tables_and_queries_that_move_by_what_members_of_balls_can_do():
    """A budget in cost is no radius, and a query that moves is nearer than the class means alone can come."""
    assert oar.collective(of_table(oar.NearestCentroid(), budget=0.1)).status != "impossible"
    near = three_rounds(oar.NearestCentroid(), FullRefit(), budget=0.02)
    assert oar.collective(near).status == "impossible"
    own = oar.joint(replace(near, query=replace(near.query, budget=2.0)))
    assert own.success


def test_regions_of_a_table_stand_still_where_all_is_immutable():
    still = oar.Limits({name: oar.Limit(immutable=True) for name in ("job", "pay", "debt")})
    problem = of_table(action=oar.Perturb(1.0, limits=still))
    result = oar.collective(problem)
    assert FeasibleRegions(problem.measured(query=False).unruled, np.ones(25)).nobody_moves
    assert (result.status, result.audit.movers) == ("impossible", 0)

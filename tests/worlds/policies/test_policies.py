"""What collectives do: their plans against audits and other code, and what they promise against what happens."""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import oar
from oar.online import ExponentialMeans, FullRefit, GradientSteps, Window
from oar.worlds import (
    Blobs,
    Collective,
    Deed,
    DoNothing,
    FromBatches,
    FromPopulation,
    Individually,
    OneShot,
    Operator,
    PlanAnew,
    PlanOnce,
    Replan,
    World,
    simulate,
)
from oar.worlds.policies.planned import _Signals, problem_ahead

MEANS = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 3.0]])
QUERY = np.array([0.8, 0.2])
NEAREST, SOFTMAX = oar.NearestCentroid(), oar.SoftmaxRegression(l2=0.05)


def batch(seed: int, size: int = 24) -> tuple[np.ndarray, np.ndarray]:
    codes = np.arange(size) % 3
    return MEANS[codes] + np.random.default_rng(seed).normal(size=(size, 2)), codes


def world(
    model: Any, rule: Any, share: float = 1.0, budget: float = 0.6, rounds: int = 3, same: bool = False, **settings: Any
) -> World:
    collective = Collective("us", oar.Query(QUERY, goal=1), oar.Perturb(budget), share=share, **settings)
    batches = [batch(1 if same else seed) for seed in range(1, rounds + 1)]
    arrivals = FromBatches(batches, persons=True)
    return World(arrivals, Operator(model, rule), collective, labels="keep", history=batch(0), holdout=batch(9))


@pytest.mark.parametrize("model", [NEAREST, SOFTMAX], ids=lambda model: model.name)
@pytest.mark.parametrize("rule", [FullRefit(), Window(2), GradientSteps(0.3)], ids=lambda rule: rule.name)
def test_a_plan_for_those_who_are_there_keeps_its_promise(model: Any, rule: Any) -> None:
    made = world(model, rule, share=0.5)
    for one in simulate(made, Replan(), rounds=3, critical_masses=False):
        assert_allclose(one.outcomes["us"].loss, one.actors["us"].note["promised"], atol=1e-6)


def test_replanning_is_the_exact_plan_of_the_next_training_set() -> None:
    one = next(simulate(world(NEAREST, FullRefit(), share=0.5), Replan(), rounds=1))
    (past, old), (rows, codes) = batch(0), batch(1)
    people = oar.Population(np.vstack([past, rows]), np.append(old, codes))
    acts = np.zeros(people.size, dtype=bool)
    acts[24 + one.acts[0].mine] = True
    best = oar.collective(oar.Problem(people, NEAREST, oar.Query(QUERY, goal=1), oar.Perturb(0.6, participants=acts)))
    assert_allclose(one.outcomes["us"].loss, best.loss)
    assert one.outcomes["us"].success == best.success


@pytest.mark.parametrize("goal_for", ["last", "every"])
def test_a_plan_made_once_keeps_its_promise_where_all_is_as_expected(goal_for: str) -> None:
    losses = [
        (one.outcomes["us"].loss, one.actors["us"].note["promised"])
        for one in simulate(world(NEAREST, Window(2)), PlanOnce(goal_for=goal_for), rounds=3, critical_masses=False)
    ]
    reached = losses[-1][0] if goal_for == "last" else np.mean([loss for loss, _ in losses])
    assert_allclose(reached, losses[0][1], rtol=1e-6)


def test_signals_are_nearly_as_good_as_the_plan_itself() -> None:
    made = world(SOFTMAX, FullRefit())
    table = simulate(made, PlanOnce(), rounds=3, critical_masses=False).by_actor()
    losses = simulate(made, PlanOnce(), rounds=3, critical_masses=False).table()["loss"]
    nothing = simulate(made, DoNothing(), rounds=3).table()["loss"]
    promised = table["note_promised"].iloc[0]
    assert nothing.iloc[-1] - losses.iloc[-1] > 0.95 * (nothing.iloc[-1] - promised) > 0


def test_plans_begin_afresh_in_every_simulation() -> None:
    policy = PlanOnce()
    first, again = (simulate(world(NEAREST, FullRefit()), policy, rounds=2, seed=3).table() for _ in range(2))
    assert first.equals(again)
    fewer = simulate(world(NEAREST, FullRefit(), share=0.2), policy, rounds=2, seed=3).table()
    assert fewer["burden_total"].iloc[0] < first["burden_total"].iloc[0]


@pytest.mark.parametrize("total", [0.6, 0.9])
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_plans_know_that_a_total_is_spent_once(share: float, total: float) -> None:
    """Where the operator forgets it is spent as late as rounds' budgets let it; what is promised comes true."""
    made = world(NEAREST, ExponentialMeans(0.5), share=share, total=total, rounds=4, same=True)
    at_once = simulate(made, OneShot(), rounds=4, critical_masses=False).table()["loss"].iloc[-1]
    for policy in (PlanOnce(), Replan(horizon=4)):
        *_, before, last = simulate(made, policy, rounds=4, critical_masses=False)
        assert_allclose(last.outcomes["us"].loss, last.actors["us"].note["promised"], rtol=1e-9)
        assert last.outcomes["us"].loss < at_once - 0.05
        assert_allclose(last.acts[0].lengths, 0.6)
        assert_allclose(before.acts[0].lengths, total - 0.6, atol=1e-12)
        assert_allclose(last.spent["us"][1], total)


def test_a_class_of_whom_some_act_early_and_some_late_spends_it_all() -> None:
    """The average of such moves is a part of the budget in both rounds; the second is not cut for the first."""
    made = world(NEAREST, FullRefit(), total=0.6, rounds=2, same=True)
    policy = _Signals(*_half_early_half_late(made), 0.0)
    for one in simulate(made, lambda view: policy.answered(view, view.number), rounds=2, critical_masses=False):
        assert_allclose(one.acts[0].deed.moves, np.tile([0.3, 0.0], (24, 1)), atol=1e-12)


def _half_early_half_late(made: World) -> tuple[Any, np.ndarray]:
    """A problem of two rounds, and a plan in which half of every class go right by all that they have in each."""
    seen = []

    def look(view: Any) -> Deed:
        seen.append(problem_ahead(view, 2, "last", real=False))
        return Deed()

    next(simulate(made, look, rounds=2))
    each = np.zeros((seen[0].stream.people.size, 2))
    each[:12, 0] = each[24 + 12 : 48, 0] = 0.6
    return seen[0], each


def test_a_total_is_planned_for_with_signals_too() -> None:
    made = world(SOFTMAX, GradientSteps(0.3), total=0.9, same=True)
    once, again, at_once = (
        list(simulate(made, policy, rounds=3, critical_masses=False))
        for policy in (PlanOnce(), Replan(horizon=3), OneShot())
    )
    assert at_once[-1].outcomes["us"].loss - again[-1].outcomes["us"].loss > 1e-4
    assert at_once[-1].outcomes["us"].loss - once[-1].outcomes["us"].loss > 1e-4
    assert max(one.spent["us"][1].max() for one in (*once, *again)) <= 0.9 * (1 + 1e-9)


def test_problems_ahead_have_what_is_left_and_the_share_of_members() -> None:
    """Persons 0 to 23 come again, and four of them spend."""
    made = world(NEAREST, FullRefit(), share=0.5, total=1.0, same=True)
    seen = []

    def look(view: Any) -> Deed:
        seen.append((view, problem_ahead(view, view.rounds - view.number, "last", real=True)))
        moves = np.zeros((view.mine.size, 2))
        moves[:4, 0] = 0.25 * (1 + np.arange(4) % 2) * (view.number < 2)
        return Deed(moves=moves)

    list(simulate(made, look, rounds=3, critical_masses=False))
    for number, (view, problem) in enumerate(seen):
        rows = [problem.stream.rows(later) for later in range(problem.rounds)]
        spent = np.zeros(24)
        spent[view.mine[:4]] = number * 0.25 * np.array([1, 2, 1, 2])
        for here in rows:
            acts = np.isin(np.arange(24), view.mine)  # who is a member stays one
            assert_allclose(problem.totals[here], np.where(acts & (spent < 1), 1.0 - spent, 0.0))
            assert_allclose(problem.radii[here], np.where(acts, np.minimum(0.6, 1.0 - spent), 0.0))
            assert_allclose(problem.stream.who[here], np.arange(24))


def test_who_comes_again_later_has_spent_what_it_spent() -> None:
    collective = Collective("us", oar.Query(QUERY, goal=1), oar.Perturb(0.6), total=1.0)
    arrivals = FromBatches(
        [batch(seed) for seed in (1, 2, 3)], persons=[np.arange(24), 24 + np.arange(24), np.arange(24)]
    )
    made = World(
        arrivals, Operator(NEAREST, FullRefit()), collective, labels="keep", history=batch(0), holdout=batch(9)
    )
    ahead = {}

    def look(view: Any) -> Deed:
        ahead[view.number] = problem_ahead(view, 3 - view.number, "last", real=True)
        moves = np.zeros((view.mine.size, 2))
        moves[5, 0] = 0.6
        return Deed(moves=moves if view.number == 0 else None)

    list(simulate(made, look, rounds=3, critical_masses=False))
    problem = ahead[1]
    assert_allclose(problem.totals[problem.stream.rows(0)], 1.0)
    assert_allclose(problem.totals[problem.stream.rows(1)], np.where(np.arange(24) == 5, 0.4, 1.0))


def test_of_strangers_the_share_are_expected_to_be_members_and_totals_bind_in_their_own_round() -> None:
    collective = Collective("us", oar.Query(QUERY, goal=1), oar.Perturb(0.6), share=0.25, growth=0.25, total=0.4)
    made = World(Blobs(MEANS, 400), Operator(NEAREST, FullRefit()), collective, labels="keep")
    seen = []

    def look(view: Any) -> Deed:
        seen.append(problem_ahead(view, view.rounds, "last", real=False))
        return Deed()

    next(simulate(made, look, rounds=3))
    acting = [np.count_nonzero(seen[0].radii[seen[0].stream.rows(number)]) for number in range(3)]
    assert_allclose(acting, [100, 200, 300], atol=40)  # four standard deviations
    assert seen[0].radii.max() == 0.4
    found = oar.collective(seen[0], progress=False)
    assert (found.plan.efforts() > 0.35 * np.array(acting)).all()  # everybody new has all of it


def test_members_join_as_adoption_grows_and_stay() -> None:
    made = world(NEAREST, FullRefit(), share=0.25, growth=0.25, same=True)
    seen = []

    def look(view: Any) -> Deed:
        seen.append((view.mine, problem_ahead(view, view.rounds, "last", real=True)))
        return Deed()

    next(simulate(made, look, rounds=3))
    ((mine, problem),) = seen
    acting = [set(np.flatnonzero(problem.radii[problem.stream.rows(number)])) for number in range(3)]
    assert set(mine) == acting[0]
    assert acting[0] < acting[1]
    assert acting[0] < acting[2]
    assert_allclose([len(some) for some in acting[1:]], [12, 18], atol=6)  # lots of who is no member yet are not known


def test_who_is_another_actors_is_not_counted_on() -> None:
    them = Collective("them", oar.Query(QUERY, goal=2), oar.Perturb(0.6), share=0.5)
    us = world(NEAREST, FullRefit(), share=0.75, same=True)
    made = replace(us, collective=[them, us.collective])
    seen = []

    def look(view: Any) -> Deed:
        seen.append((view.mine, problem_ahead(view, view.rounds, "last", real=True)))
        return Deed()

    next(simulate(made, {"them": DoNothing(), "us": look}, rounds=3))
    ((mine, problem),) = seen
    assert 0 < mine.size < 14
    for number in range(3):
        assert set(np.flatnonzero(problem.radii[problem.stream.rows(number)])) == set(mine)


def test_looking_ahead_draws_those_who_will_come() -> None:
    collective = Collective("us", oar.Query(QUERY, goal=1), oar.Perturb(0.6), share=0.5)
    made = World(Blobs(MEANS, 30), Operator(NEAREST, Window(2)), collective, labels="keep")
    blind, ahead = (
        simulate(made, policy, rounds=3, critical_masses=False).table()["loss"].iloc[-1]
        for policy in (DoNothing(), Replan(horizon=2))
    )
    assert ahead < blind


def test_one_answer_to_nearest_centroid_is_the_papers_heuristic() -> None:
    one = next(simulate(world(NEAREST, FullRefit()), OneShot(), rounds=1))
    means = one.deployed.parameters.positions
    ways = (means - QUERY) * np.where(np.arange(3) == 1, -1.0, 1.0)[:, None]
    expected = 0.6 * ways / np.linalg.norm(ways, axis=1)[:, None]
    assert_allclose(one.acts[0].deed.moves, expected[one.crowd.codes], atol=1e-12)


def test_one_answer_goes_down_the_loss_after_the_operators_own_step() -> None:
    """Against finite differences through the rule's step, by the model's own functions."""
    one = next(simulate(world(SOFTMAX, GradientSteps(0.3)), OneShot(), rounds=1))
    rows, codes = one.crowd.features, one.crowd.codes
    before, shares = one.deployed.parameters, np.eye(3)[one.crowd.codes]

    def loss(features: np.ndarray) -> float:
        outputs = features @ before[:, :-1].T + before[:, -1]
        wrong = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True) - shares
        slope = wrong.T @ np.column_stack([features, np.ones(len(features))]) / len(features)
        slope[:, :-1] += 0.05 * before[:, :-1]
        after = before - 0.3 * slope
        logits = after[:, :-1] @ QUERY + after[:, -1]
        return float(np.log(np.exp(logits - logits[1]).sum()))

    for person in (0, 7, 20):
        slopes = np.zeros(2)
        for place in range(2):
            ahead, behind = rows.copy(), rows.copy()
            ahead[person, place] += 1e-5
            behind[person, place] -= 1e-5
            slopes[place] = loss(ahead) - loss(behind)
        expected = -0.6 * slopes / np.linalg.norm(slopes)
        # The signal is taken at the deployed model, not after the step: directions agree nearly, not wholly.
        assert one.acts[0].deed.moves[person] @ expected > 0.98 * 0.36
    assert codes.size == 24


def test_each_for_itself_goes_just_across() -> None:
    one = next(simulate(world(NEAREST, FullRefit(), budget=0.8), Individually(), rounds=1))
    act, model = one.acts[0], one.deployed.parameters
    where, promised = act.deed.advice
    apart = np.linalg.norm(one.crowd.features[:, None] - model.positions, axis=2)
    has = apart.argmin(axis=1) == 1
    told = promised == 1
    assert told.any()
    assert not (told & has).any()
    after = np.linalg.norm(where[told][:, None] - model.positions, axis=2)
    assert (after.argmin(axis=1) == 1).all()
    assert_allclose(np.sort(after, axis=1)[:, 0], np.sort(after, axis=1)[:, 1], atol=1e-6)  # on the boundary
    further = next(simulate(world(NEAREST, FullRefit(), budget=0.8), Individually(margin=0.2), rounds=1)).acts[0]
    both = told & (further.deed.advice[1] == 1)
    assert_allclose(further.lengths[both], act.lengths[both] + 0.2)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Replan(horizon=0), "horizon: must be"),
        (lambda: Replan(goal_for="lst"), "Did you mean 'last'"),
        (lambda: PlanOnce(goal_for="ever"), "Did you mean 'every'"),
        (lambda: Individually(margin=-1), "margin: must be"),
    ],
)
def test_policies_that_cannot_be(make: Any, told: str) -> None:
    with pytest.raises(oar.errors.OARError, match=told):
        make()


def test_tables_with_names_weights_and_words_for_labels() -> None:
    import pandas

    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(40, 2)), columns=["income", "debt"])
    labels = np.where(frame["income"] + 0.5 * rng.normal(size=40) > 0, "yes", "no")
    people = oar.Population(frame, labels, rng.uniform(0.5, 2.0, size=40))
    query = oar.Query({"debt": 0.2, "income": -0.1}, goal="yes")
    made = World(
        FromPopulation(people, 40, way="walk"),
        Operator(SOFTMAX, Window(1)),
        Collective("us", query, oar.Perturb(0.4), share=0.5),
        labels="keep",
        history=people,
        holdout=people,
    )
    (one,) = simulate(made, OneShot(), rounds=1)
    moved = oar.Population(pandas.DataFrame(one.batch.features, columns=frame.columns), labels, people.weights)
    assert_allclose(one.state.parameters, SOFTMAX.fit(moved), atol=1e-6)
    logit = float(one.state.parameters[0] @ [-0.1, 0.2, 1.0])
    assert one.outcomes["us"].prediction == ("yes" if logit > 0 else "no")
    assert_allclose(one.outcomes["us"].loss, np.log1p(np.exp(-logit)))
    assert one.before["us"].loss > one.outcomes["us"].loss


@pytest.mark.parametrize("policy", [OneShot(), PlanOnce(), Replan()], ids=lambda policy: type(policy).__name__)
def test_behind_a_scaler_policies_lower_the_loss_too(policy: Any) -> None:
    made = world(oar.models.Scaled(SOFTMAX), FullRefit())
    acted, nothing = (simulate(made, each, rounds=1).table()["loss"][0] for each in (policy, DoNothing()))
    assert acted < nothing - 0.05


def test_a_limit_of_time_is_every_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    from oar import progress
    from oar.worlds.policies import planned

    solve, left = planned.collective, []

    def spied(problem: Any, **given: Any) -> Any:
        left.append((given["time_limit"], progress.deadline() - time.monotonic()))
        return solve(problem, **given)

    monkeypatch.setattr(planned, "collective", spied)
    made = world(SOFTMAX, FullRefit(), share=0.5, rounds=2)
    whole = list(simulate(made, Replan(), rounds=2, critical_masses=False))
    assert left == [(None, np.inf)] * 2
    left.clear()
    hurried = list(simulate(made, Replan(time_limit=0), rounds=2, critical_masses=False, time_limit=50.0))
    assert [limit for limit, _ in left] == [0, 0]
    assert all(40.0 < seconds <= 50.0 for _, seconds in left)  # each has its own, and none is left afterwards
    assert progress.deadline() == np.inf
    for one, other in zip(hurried, whole, strict=True):
        assert one.outcomes["us"].loss >= other.outcomes["us"].loss - 1e-9


@pytest.mark.parametrize("policy", [Replan, PlanOnce, PlanAnew])
def test_what_is_no_time_is_refused(policy: Any) -> None:
    with pytest.raises(oar.errors.DataError, match="time_limit: must be a number of seconds"):
        policy(time_limit=-1)
    with pytest.raises(oar.errors.DataError, match="time_limit: must be a number of seconds"):
        simulate(world(NEAREST, FullRefit()), DoNothing(), rounds=1, time_limit="soon")
    with pytest.raises(oar.errors.OptionError, match="effort"):
        simulate(world(NEAREST, FullRefit()), DoNothing(), rounds=1, effort="little")

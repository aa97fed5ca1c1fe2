"""What collectives do: their plans against audits and other code, and what they promise against what happens."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import oar
from oar.online import FullRefit, GradientSteps, Window
from oar.worlds import (
    Blobs,
    Collective,
    DoNothing,
    FromBatches,
    Individually,
    OneShot,
    Operator,
    PlanOnce,
    Replan,
    World,
    simulate,
)

MEANS = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 3.0]])
QUERY = np.array([0.8, 0.2])
NEAREST, SOFTMAX = oar.NearestCentroid(), oar.SoftmaxRegression(l2=0.05)


def batch(seed: int, size: int = 24) -> tuple[np.ndarray, np.ndarray]:
    codes = np.arange(size) % 3
    return MEANS[codes] + np.random.default_rng(seed).normal(size=(size, 2)), codes


def world(model: Any, rule: Any, share: float = 1.0, budget: float = 0.6, rounds: int = 3, **settings: Any) -> World:
    collective = Collective("us", oar.Query(QUERY, goal=1), oar.Perturb(budget), share=share, **settings)
    batches = [batch(seed) for seed in range(1, rounds + 1)]
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
    with pytest.raises(oar.OARError, match=told):
        make()

"""A query who is itself a member of an early batch: its move changes the models, and where it stands."""

import itertools

import numpy as np
import pytest
from support.online_problems import BUDGET, three_rounds

import oar
from oar.online import ExponentialMeans, FullRefit, GradientSteps, OnlineProblem, Rollout, Stream
from oar.solvers.rounds.descent import RolloutObjective

SOFTMAX = oar.SoftmaxRegression(0.1)


@pytest.mark.parametrize("stay", [False, True], ids=["moves", "stays"])
@pytest.mark.parametrize("goal_for", ["last", "every"])
@pytest.mark.parametrize("model", [oar.NearestCentroid(), SOFTMAX], ids=["centroids", "softmax"])
def test_slopes_are_those_of_differences_through_three_rounds(model, goal_for, stay):
    rule = ExponentialMeans(0.5) if isinstance(model, oar.NearestCentroid) else GradientSteps(0.6, 2)
    problem = three_rounds(model, rule, goal_for=goal_for, query=oar.Members([1], stay=stay))
    objective, rng = RolloutObjective(Rollout(problem)), np.random.default_rng(0)
    acts = (problem.radii > 0)[:, None]  # neither history nor who asks as it is
    moves = 0.3 * rng.normal(size=(problem.radii.size, 2)) * acts
    slopes = objective.differentiate(objective.refit(moves)).gradient
    for _ in range(3):
        way, step = rng.normal(size=moves.shape) * acts, 1e-6
        ahead, behind = (objective.refit(moves + sign * step * way).loss for sign in (1, -1))
        assert (ahead - behind) / (2 * step) == pytest.approx((slopes * way).sum(), abs=1e-7)


@pytest.mark.parametrize("stay", [False, True], ids=["moves", "stays"])
def test_two_people_in_two_rounds_against_every_plan_of_a_grid(stay):
    """The first row of the first batch asks: with full refits of centroids, on a line, by hand."""
    rounds = [np.array([[0.2], [1.9]]), np.array([[0.0], [2.1]])]
    stream = Stream.of_batches([(rows, ["no", "yes"]) for rows in rounds], who=True)
    query = oar.Query(oar.Members([0], stay=stay), "yes")
    problem = OnlineProblem(stream, oar.NearestCentroid(), FullRefit(), query, oar.Perturb(0.7))
    result = oar.collective(problem)
    levels = 0.7 * np.linspace(-1, 1, 15)
    plans = np.array(list(itertools.product([0.0] if stay else levels, levels, levels, levels)))
    rows = np.concatenate(rounds)[:, 0] + plans
    place = rows[:, 0]
    away, near = (np.abs(rows[:, [code, code + 2]].mean(axis=1) - place) for code in (0, 1))
    losses = np.logaddexp(0.0, near - away)
    assert result.loss <= losses.min() + 1e-6
    assert result.loss == pytest.approx(losses.min(), abs=0.05)
    assert (result.plan.each[0] == 0).all() == stay
    assert result.success == (losses.min() < np.log(2))


def test_a_member_of_an_early_batch_does_better_by_moving():
    moving, staying = (
        oar.collective(three_rounds(SOFTMAX, FullRefit(), query=oar.Members([1], stay=stay))) for stay in (False, True)
    )
    assert moving.loss < staying.loss
    assert all(
        f"predicts {one.audit.rounds[-1].queries[0].prediction!r}, goal" in repr(one) for one in (moving, staying)
    )
    assert np.linalg.norm(moving.plan.each[1]) == pytest.approx(BUDGET)
    assert not staying.plan.each[1].any()


def test_several_who_ask_and_any_of_several_classes():
    """The worst of two is never worse than with plans for their mean; of several classes one is reached."""
    base = three_rounds(oar.NearestCentroid(), ExponentialMeans(0.5))
    both = np.array([[0.7, 0.4], [0.2, 0.6]])

    def asked(query):
        return oar.collective(OnlineProblem(base.stream, base.model, base.rule, query, oar.Perturb(BUDGET)))

    mean, worst = (asked(oar.Query(both, "yes", several=kind)) for kind in ("mean", "worst"))
    assert worst.loss <= max(one.loss for one in mean.audit.rounds[-1].queries) + 1e-9
    assert worst.loss == pytest.approx(max(one.loss for one in worst.audit.rounds[-1].queries))
    share = asked(oar.Query(both, "yes", several="share", share=0.5))
    assert share.success == (sum(one.success for one in share.audit.rounds[-1].queries) >= 1)
    any_of = asked(oar.Query([0.7, 0.4], oar.AnyBut("no")))
    assert any_of.loss == pytest.approx(asked(oar.Query([0.7, 0.4], "yes")).loss, abs=1e-6)
    with pytest.raises(oar.errors.OptionError, match="one smooth loss"):
        oar.collective(
            OnlineProblem(
                base.stream, base.model, base.rule, oar.Query(both, "yes", several="worst"), oar.Perturb(0.1)
            ),
            solver="one-shot",
        )

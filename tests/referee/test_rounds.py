"""The audit of plans over time: replayed by others, limits measured again, and nothing claimed that was not seen."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from support.online_problems import BUDGET, three_rounds

import oar
from oar.online import (
    ExponentialMeans,
    FineTune,
    FullRefit,
    GradientSteps,
    OnlineProblem,
    PulledBack,
    Rollout,
    Stream,
    Window,
)
from oar.plans.rounds.plan import OnlinePlan

SOFTMAX = oar.SoftmaxRegression(0.1)


def any_moves(problem, seed=0):
    """Moves within everyone's limit."""
    rng = np.random.default_rng(seed)
    norm = problem.everyone.allowance.norm
    return norm.project(rng.normal(size=(problem.radii.size, 2)), problem.radii)


@pytest.mark.parametrize(
    ("model", "rule"),
    [
        (oar.NearestCentroid(), FullRefit()),
        (oar.NearestCentroid(), Window(2)),
        (oar.NearestCentroid(), ExponentialMeans(0.3)),
        (SOFTMAX, Window(2)),
        (SOFTMAX, FineTune(0.5)),
        (SOFTMAX, GradientSteps(0.4)),
    ],
    ids=str,
)
def test_replays_and_walks_agree_after_every_round(model, rule):
    problem = three_rounds(model, rule)
    moves = any_moves(problem)
    told, walk = oar.audit(OnlinePlan(problem, moves)), Rollout(problem)
    for given, name in ((None, "loss_before"), (moves, "loss")):
        seen = [getattr(one, name) for one in told.rounds]
        np.testing.assert_allclose(seen, walk.forward(given).losses, atol=1e-9)
    assert not told.violations
    assert told.converged
    assert told.movers == 18
    assert told.effort == pytest.approx(np.linalg.norm(moves, axis=1).sum())
    assert told.loss == told.rounds[-1].loss


def test_full_refits_are_those_of_scikit_learn():
    problem = three_rounds(SOFTMAX, FullRefit(), goal_for="every")
    moves = any_moves(problem)
    told = oar.audit(OnlinePlan(problem, moves))
    rows, labels = problem.stream.people.features + moves, problem.stream.people.labels
    for number in range(3):
        known = problem.stream.when <= number
        fitted = LogisticRegression(C=1 / (0.1 * known.sum()), tol=1e-10, max_iter=1_000)
        fitted.fit(rows[known], labels[known])
        chance = fitted.predict_proba([[0.7, 0.4]])[0, 1]
        assert told.rounds[number].loss == pytest.approx(-np.log(chance), abs=1e-6)
        assert told.rounds[number].prediction == fitted.predict([[0.7, 0.4]])[0]
    assert told.witness == "scikit-learn LogisticRegression"
    assert told.loss == pytest.approx(np.mean([one.loss for one in told.rounds]))
    assert told.margin == min(one.margin for one in told.rounds)


def test_a_class_that_a_batch_lacks_keeps_its_centroid_and_history_counts():
    batches = [([[0.1], [2.0]], ["no", "yes"]), ([[0.4], [0.6]], ["no", "no"])]
    stream = Stream.of_batches(batches, history=([[0.0], [1.8]], ["no", "yes"]))
    problem = OnlineProblem(
        stream, oar.NearestCentroid(), ExponentialMeans(0.5), oar.Query([1.0], "yes"), oar.Perturb(0.2)
    )
    told = oar.audit(OnlinePlan(problem, np.zeros((6, 1))))
    means = [(0.05, 1.9), (0.275, 1.9)]
    for one, (no, yes) in zip(told.rounds, means, strict=True):
        assert one.loss == pytest.approx(np.logaddexp(0, abs(yes - 1) - abs(no - 1)))
    start = OnlineProblem(stream, problem.model, problem.rule, problem.query, problem.action, start=[[0.5], [1.5]])
    first = oar.audit(OnlinePlan(start, np.zeros((6, 1)))).rounds[0]
    assert first.loss == pytest.approx(np.logaddexp(0, abs(1.75 - 1) - abs(0.3 - 1)))


def test_every_limit_is_measured_again():
    each = three_rounds(oar.NearestCentroid(), ExponentialMeans(0.5))
    shared = three_rounds(oar.NearestCentroid(), ExponentialMeans(0.5), shared=True)
    moves = np.zeros((18, 2))
    moves[[0, 6, 12], 0] = 0.9 * BUDGET  # one person, three times
    assert not oar.audit(OnlinePlan(each, moves)).violations
    told = oar.audit(OnlinePlan(shared, moves))
    assert told.violations == ("person 0 moves by 1.08 over all rounds, limit 0.4",)
    assert not told.success
    moves[3, 1] = 2 * BUDGET
    assert "person 3 in round 0 moves by 0.8, limit 0.4" in oar.audit(OnlinePlan(each, moves)).violations
    moves[3, 1] = np.nan
    assert oar.audit(OnlinePlan(each, moves)).violations
    past = three_rounds(SOFTMAX, FineTune(0.5))
    row = int(np.flatnonzero(past.stream.when == -1)[0])
    moves = np.zeros((24, 2))
    moves[row, 0] = 0.1
    assert any("history" in one for one in oar.audit(OnlinePlan(past, moves)).violations)


def test_it_says_what_it_found():
    problem = three_rounds(oar.NearestCentroid(), ExponentialMeans(0.5), budget=1.0, goal_for="every")
    told = oar.collective(problem).audit
    assert told.success
    assert all(one.success for one in told.rounds)
    said = str(told)
    assert "reached after all of them" in said
    assert "for every round" in said
    assert "class averages of the rows as handed in" in said
    assert "<pre>" in told._repr_html_()


class Damped(FullRefit):
    """Goes a tenth of the way to a refit."""

    name, remembers = "damped refit", True

    def update(self, update):
        new = super().update(update)
        return new if update.before is None else 0.9 * update.before + 0.1 * new

    def kept_share(self, weights, started):
        return np.full_like(weights, 0.9 if started else 0.0)

    def pull_back(self, update, after, adjoint):
        if update.before is None:
            return super().pull_back(update, after, adjoint)
        pulled = super().pull_back(update, (after - 0.9 * update.before) / 0.1, 0.1 * adjoint)
        return PulledBack(0.9 * adjoint, pulled.moves, pulled.signals)


@pytest.mark.parametrize("model", [oar.NearestCentroid(), SOFTMAX], ids=str)
def test_a_rule_derived_from_one_of_ours_is_replayed_as_what_it_is(model):
    assert oar.testing.check_rule(Damped()) is not None
    problem = three_rounds(model, Damped())
    moves = any_moves(problem)
    told = oar.audit(OnlinePlan(problem, moves))
    seen = [one.loss for one in told.rounds]
    np.testing.assert_allclose(seen, Rollout(problem).forward(moves).losses, atol=1e-9)
    plain = oar.audit(OnlinePlan(three_rounds(model, FullRefit()), moves))
    assert abs(plain.rounds[-1].loss - seen[-1]) > 1e-3


def test_what_is_said_of_each_who_asks_is_of_all_rounds_that_count():
    base = three_rounds(SOFTMAX, FullRefit(), goal_for="every")
    asked = oar.Query([[0.7, 0.4], [1.2, 0.6]], "yes", several="worst")
    problem = OnlineProblem(base.stream, SOFTMAX, FullRefit(), asked, oar.Perturb(BUDGET), goal_for="every")
    told = oar.audit(OnlinePlan(problem, any_moves(problem)))
    assert told.loss == pytest.approx(np.mean([max(each.loss for each in one.queries) for one in told.rounds]))
    for place, each in enumerate(told.queries):
        rounds = [one.queries[place] for one in told.rounds]
        assert each.loss == pytest.approx(np.mean([one.loss for one in rounds]))
        assert (each.margin, each.success) == (min(one.margin for one in rounds), all(one.success for one in rounds))
        assert each.prediction == rounds[-1].prediction
    assert told.share == np.mean([each.success for each in told.queries])
    alone = oar.audit(oar.Problem(problem.people, SOFTMAX, asked, oar.Perturb(BUDGET)), any_moves(problem)).rounds
    assert len(alone) == 1
    assert len(alone[0].queries) == 2

"""Following plans against what really happens: budgets are kept, and planning again beats planning once."""

from dataclasses import replace

import numpy as np
import pandas
import pytest
from support.online_problems import BUDGET, three_rounds

import oar
from oar.online import ExponentialMeans, FullRefit, Stream


@pytest.fixture(scope="module")
def shared():
    return three_rounds(oar.NearestCentroid(), FullRefit(), shared=True)


@pytest.fixture(scope="module")
def each():
    return three_rounds(oar.NearestCentroid(), ExponentialMeans(0.5))


def test_where_all_is_as_expected_the_plan_comes_true(each, shared):
    both = three_rounds(oar.NearestCentroid(), ExponentialMeans(0.5), 1.4 * BUDGET)
    for problem in (each, shared, both):
        planned = oar.collective(problem)
        for replan in (True, False):
            followed = oar.follow(problem, oar.online.Reality(), replan=replan)
            assert followed.loss == pytest.approx(planned.loss, abs=1e-9)
            assert not followed.audit.violations
            assert followed.replanned == replan
            np.testing.assert_allclose(followed.promised, planned.loss, atol=1e-9)
    np.testing.assert_allclose(
        oar.follow(each, oar.online.Reality()).plan.each, oar.collective(each).plan.each, atol=1e-9
    )


def test_what_is_left_of_a_total_is_what_is_planned_with():
    """Those who act early are read in every refit, so that early rounds take what rounds may, and leave the rest."""
    problem = three_rounds(oar.NearestCentroid(), FullRefit(), 1.4 * BUDGET, goal_for="every")
    followed, planned = oar.follow(problem, oar.online.Reality()), oar.collective(problem)
    np.testing.assert_allclose(planned.plan.efforts(), 6 * BUDGET * np.array([1.0, 0.4, 0.0]), atol=1e-5)
    np.testing.assert_allclose(followed.promised, planned.loss, atol=1e-6)


def test_planning_again_beats_planning_once_where_not_all_follow():
    """Budgets are shared and nothing is forgotten: who did not follow in one round can still act in the next."""
    problem = three_rounds(oar.NearestCentroid(), FullRefit(), shared=True, goal_for="every")
    once, again = [], []
    for seed in range(4):
        reality = oar.online.Reality(adoption=0.5, seed=seed)
        once.append(oar.follow(problem, reality, replan=False))
        again.append(oar.follow(problem, reality))
    pairs = list(zip(once, again, strict=True))
    assert all(late.loss <= first.loss + 1e-9 for first, late in pairs)
    assert np.mean([late.loss for late in again]) < np.mean([first.loss for first in once]) - 0.01
    assert all(not one.audit.violations for one in (*once, *again))
    table = again[0].rounds
    assert (table["followers"] <= table["asked_rows"]).all()
    assert table["effort"].sum() > once[0].rounds["effort"].sum()
    assert "anew before every round" in str(again[0])
    assert "once" in str(once[0])


def test_planning_again_beats_planning_once_where_others_come_than_expected():
    """The first batch turns out to lie elsewhere, so that the directions planned at first lead astray."""
    expected = three_rounds(oar.NearestCentroid(), FullRefit(), budget=0.9, query=(0.9, 0.9))
    features = expected.stream.people.features.copy()
    features[:6] += [0.0, 2.5]
    real = Stream(expected.stream.people.with_features(features), expected.stream.when, expected.stream.who)
    once, again = (oar.follow(expected, oar.online.Reality(stream=real), replan=replan) for replan in (False, True))
    assert again.loss < once.loss - 1e-3
    np.testing.assert_array_equal(again.problem.stream.people.features, features)


@pytest.mark.parametrize(("norm", "shared"), [(1, True), (2, True), (np.inf, True), (2, 1.4 * BUDGET)])
def test_nobody_spends_more_than_it_has(norm, shared):
    """Shared budgets, noise that would carry people too far, and some who do not follow."""
    problem = three_rounds(oar.NearestCentroid(), ExponentialMeans(0.3), shared, goal_for="every", norm=norm)
    most = BUDGET if shared is True else shared
    for replan in (True, False):
        followed = oar.follow(problem, oar.online.Reality(adoption=0.7, noise=0.5, seed=1), replan=replan)
        spent = np.bincount(problem.stream.who, weights=np.linalg.norm(followed.plan.each, ord=norm, axis=1))
        assert spent.max() <= most * (1 + 1e-9)
        assert spent.max() > 0.5 * most
        assert not followed.audit.violations


def test_who_is_there_twice_in_a_round_has_one_budget():
    given = three_rounds(oar.NearestCentroid(), FullRefit(), goal_for="every")
    who = np.tile([0, 0, 1, 2, 2, 3], 3)
    problem = replace(given, stream=Stream(given.stream.people, given.stream.when, who), shared=1.5 * BUDGET)
    each = np.zeros((18, 2))
    each[2:, 0] = 0.9 * BUDGET  # more than they have; but the first asks for nothing in the first round
    told = []

    def as_far_as_allowed(round_):
        told.append(round_)
        return oar.online.Happened(round_.expected, round_.left[:, None] * [1.0, 0.0])

    followed = oar.follow(problem, as_far_as_allowed, replan=False, plan=oar.online.OnlinePlan(problem, each))
    np.testing.assert_allclose(told[0].left / BUDGET, [0.75, 0.75, 1.0, 0.75, 0.75, 1.0])
    np.testing.assert_allclose(told[0].asked[:, 0] / BUDGET, [0.0, 0.0, 0.9, 0.75, 0.75, 0.9])
    spent = np.bincount(who, weights=np.linalg.norm(followed.plan.each, axis=1))
    np.testing.assert_allclose(spent, 1.5 * BUDGET)
    assert not followed.audit.violations
    assert not oar.follow(problem, oar.online.Reality(adoption=0.8, noise=2.0, seed=2)).audit.violations


def test_what_really_happens_can_be_any_function(each):
    told = []

    def nobody_moves(round_):
        told.append(round_)
        return oar.online.Happened(round_.expected, np.zeros_like(round_.asked))

    followed = oar.follow(each, nobody_moves)
    assert followed.loss == pytest.approx(followed.audit.loss_before)
    assert [one.number for one in told] == [0, 1, 2]
    assert not followed.followers.any()
    drifted = oar.follow(each, lambda round_: round_.expected + round_.asked + 0.1)
    np.testing.assert_allclose(drifted.problem.stream.people.features, each.stream.people.features + 0.1)
    assert not drifted.audit.violations

    def too_far(round_):
        return oar.online.Happened(round_.expected, 3 * round_.asked)

    assert oar.follow(each, too_far).audit.violations  # no trust: the replay measures
    assert not oar.follow(each, too_far).success


def test_a_plan_can_be_handed_in(each):
    plan = oar.collective(each, solver="one-shot").plan
    followed = oar.follow(each, oar.online.Reality(), plan=plan, replan=False)
    np.testing.assert_array_equal(followed.plan.each, plan.each)
    assert followed.promised[0] == pytest.approx(followed.loss)


def test_the_same_seed_gives_the_same_story(each):
    stories = [oar.follow(each, oar.online.Reality(0.5, 0.1, seed=seed)).plan.each for seed in (7, 7, 8)]
    np.testing.assert_array_equal(stories[0], stories[1])
    assert not np.array_equal(stories[0], stories[2])


def test_who_asks_as_a_member_is_judged_where_it_really_went():
    problem = three_rounds(oar.NearestCentroid(), FullRefit(), query=oar.Members([1]))
    stays = oar.follow(
        problem, lambda told: oar.online.Happened(told.expected, 0 * told.asked if told.number == 0 else told.asked)
    )
    assert not stays.plan.each[:6].any()
    goes = oar.follow(problem, oar.online.Reality())
    assert goes.loss < stays.loss


def test_bad_input_is_refused(each, shared):
    for settings in ({"adoption": 1.5}, {"adoption": True}, {"noise": -1.0}, {"noise": np.inf}):
        with pytest.raises((oar.errors.DataError, oar.errors.OptionError), match=next(iter(settings))):
            oar.online.Reality(**settings)
    with pytest.raises(oar.errors.DataError, match="stream"):
        oar.online.Reality(stream=3)
    with pytest.raises(oar.errors.DataError, match="must be an oar.Problem"):
        oar.follow(each.people, oar.online.Reality())
    single = oar.Problem(each.people, each.model, each.query, each.action)
    with pytest.raises(oar.errors.OptionError, match="stream: is for problems over rounds"):
        oar.follow(single, oar.online.Reality(stream=each.stream))
    with pytest.raises(oar.errors.DataError, match="follows of round 0"):
        oar.follow(single, lambda told: oar.online.Happened(told.expected, told.asked, np.ones(3, dtype=bool)))
    with pytest.raises(oar.errors.DataError, match="replan"):
        oar.follow(each, oar.online.Reality(), replan="yes")
    with pytest.raises(oar.errors.DataError, match="reality"):
        oar.follow(each, 0.5)
    with pytest.raises(oar.errors.DataError, match="this very problem"):
        oar.follow(each, oar.online.Reality(), plan=oar.collective(shared).plan)
    other = Stream(each.stream.people.some(np.arange(12)), each.stream.when[:12], each.stream.who[:12])
    with pytest.raises(oar.errors.DataError, match="rows, rounds and persons"):
        oar.follow(each, oar.online.Reality(stream=other))
    with pytest.raises(oar.errors.DataError, match="features of round 0"):
        oar.follow(each, lambda told: oar.online.Happened(told.expected[:2], told.asked))
    with pytest.raises(oar.errors.DataError, match="finite"):
        oar.follow(each, lambda told: told.expected * np.nan)
    rows = [each.stream.people.features[each.stream.rows(number)] for number in range(3)]
    relabelled = Stream.of_batches([(some, ["yes"] * 3 + ["no"] * 3) for some in rows], who=True)
    with pytest.raises(oar.errors.DataError, match="labels"):
        oar.follow(each, oar.online.Reality(stream=relabelled))


def test_a_single_refit_is_one_round_of_it():
    problem = small_flowers(oar.Perturb(0.5))
    found = oar.follow(problem, oar.online.Reality(adoption=0.5, seed=1))
    planned = oar.collective(problem).plan
    moved = np.asarray(found.plan.moves())
    follows = moved.any(axis=1)
    assert np.allclose(moved[follows], np.asarray(planned.moves())[follows])
    assert 0 < found.followers[0] == follows.sum() < found.asked_rows[0]
    assert found.loss == oar.audit(problem, moved).loss
    assert len(found.rounds) == 1
    exact = oar.follow(problem, lambda told: told.expected + told.asked, plan=planned)
    assert exact.loss == pytest.approx(oar.collective(problem).loss)
    other = oar.follow(problem, lambda told: oar.online.Happened(told.expected + 0.1, told.asked))
    moved = replace(problem, people=oar.Population(problem.people.features + 0.1, problem.people.labels))
    assert other.loss == pytest.approx(oar.audit(moved, planned.moves()).loss)


def test_labels_and_leavers_are_followed_by_some():
    problem = small_flowers([oar.Relabel(most=4), oar.Withhold(most=2)])
    plan = oar.collective(problem).plan

    def reality(told):
        return oar.online.Happened(told.expected, told.asked, np.cumsum(told.changes) % 2 == 0)

    found = oar.follow(problem, reality, plan=plan)
    assert found.asked_rows[0] == 6
    assert found.followers[0] == found.audit.relabelled + found.audit.leavers == 3
    assert found.loss == oar.audit(found.plan).loss


def test_people_in_parts_are_followed_part_by_part(tmp_path):
    problem = small_flowers(oar.Perturb(0.5))
    frame = pandas.DataFrame(problem.people.features, columns=list("abcd")).assign(species=problem.people.labels)
    for part in range(2):
        frame.iloc[part::2].to_parquet(tmp_path / f"{part}.parquet")
    people = oar.Population.from_parquet(tmp_path, target="species")

    def every_other(told):
        return oar.online.Happened(told.expected, told.asked * (told.rows % 2)[:, None])

    for model in (oar.NearestCentroid(), oar.SoftmaxRegression(0.1)):
        parts = replace(problem, people=people, model=model)
        found = oar.follow(
            parts, lambda told: oar.online.Happened(told.expected, told.asked * (told.rows % 2)[:, None])
        )
        assert found.followers[0] == people.size // 2 == found.audit.movers
        moves = np.vstack([found.plan.of_chunk(chunk) for chunk in people.chunks()])
        assert not moves[::2].any()
        rows = np.vstack([chunk.features for chunk in people.chunks()])
        labels = np.array([parts.people.classes[code] for chunk in people.chunks() for code in chunk.codes])
        loaded = replace(parts, people=oar.Population(rows, labels))
        assert found.loss == pytest.approx(oar.audit(loaded, moves).loss, abs=1e-6)
    with pytest.raises(oar.errors.DataError, match="must be as expected"):
        oar.follow(parts, lambda told: oar.online.Happened(told.expected + 1, told.asked))


def small_flowers(action):
    """Return a single refit of every fifth flower."""
    flowers = oar.datasets.iris()
    features, labels = flowers.features[::5], flowers.labels[::5]
    means = [features[labels == species].mean(axis=0) for species in range(3)]
    query = oar.Query(0.35 * means[2] + 0.65 * means[1], 2)
    return oar.Problem(oar.Population(features, labels), oar.SoftmaxRegression(0.1), query, action)

"""Plans over time: whose moves when, kept in files, and how results show themselves."""

import numpy as np
import pandas as pd
import pytest
from support.online_problems import BUDGET, three_rounds

import oar
from oar.models import Ridge
from oar.online import ExponentialMeans, FineTune, FullRefit, OnlineProblem, Stream


@pytest.fixture(scope="module")
def late():
    """A result whose plan acts in the last round alone."""
    return oar.collective(three_rounds(oar.NearestCentroid(), ExponentialMeans(0.6), shared=True))


def test_moves_by_round_and_of_everyone(late):
    plan = late.plan
    assert plan.moves().shape == (18, 2)
    for number in range(3):
        np.testing.assert_array_equal(plan.moves(number), plan.each[late.problem.stream.rows(number)])
    assert plan.movers().tolist() == [0, 0, 6]
    assert plan.efforts() == pytest.approx([0, 0, 6 * BUDGET])
    table = plan.who_acts()
    assert table["round"].tolist() == [2] * 6
    assert table["person"].tolist() == list(range(6))
    assert table["effort"].to_numpy() == pytest.approx(BUDGET)
    assert repr(plan) == "OnlinePlan(3 rounds; 6 rows move (by round 2: 6))"
    for wrong in (3, -1, 1.0, True):
        with pytest.raises(oar.errors.DataError, match="round"):
            plan.moves(wrong)
    plan.moves()[:] = 9.0
    assert plan.each.max() < 9


def test_frames_come_back_as_frames():
    frames = [
        (pd.DataFrame({"a": [0.0, 2.0], "b": [0.1, 1.0]}, index=[f"no{t}", f"yes{t}"]), ["no", "yes"]) for t in range(2)
    ]
    query = oar.Query({"a": 0.8, "b": 0.5}, "yes")
    problem = OnlineProblem(Stream.of_batches(frames), oar.NearestCentroid(), FullRefit(), query, oar.Perturb(0.3))
    plan = oar.collective(problem).plan
    assert list(plan.moves().columns) == ["a", "b"]
    second = plan.moves(1)
    assert isinstance(second, pd.DataFrame)
    assert len(second) == 2


def test_a_plan_is_kept_in_a_file_for_its_own_problem(late, tmp_path):
    path = tmp_path / "plan.npz"
    late.plan.save(path)
    again = oar.online.OnlinePlan.load(path, late.problem)
    np.testing.assert_array_equal(again.each, late.plan.each)
    assert oar.audit(again).loss == late.loss
    for changes in ({"shared": True, "query": (0.6, 0.4)}, {"shared": 0.3}):
        other = three_rounds(oar.NearestCentroid(), ExponentialMeans(0.6), **changes)
        with pytest.raises(oar.errors.DataError, match="must be the one that the plan"):
            oar.online.OnlinePlan.load(path, other)
    with pytest.raises(oar.errors.StorageError, match="does not exist"):
        oar.online.OnlinePlan.load(tmp_path / "none.npz", late.problem)
    np.savez(tmp_path / "other.npz", numbers=np.arange(3))
    with pytest.raises(oar.errors.StorageError, match="no plan over time"):
        oar.online.OnlinePlan.load(tmp_path / "other.npz", late.problem)


def test_a_plan_for_other_settings_is_refused(tmp_path):
    """Every setting that a plan depends on tells problems apart; a problem that is made again is the same."""

    def made(weights=None, rule=None, model=None, start=None, **asked):
        rule, model = rule or ExponentialMeans(0.6), model or oar.SoftmaxRegression(0.1)
        people = oar.Population([[0.0], [2.0], [0.1], [2.2]], ["no", "yes"] * 2, weights)
        stream = Stream(people, np.repeat([0, 1], 2), np.array([0, 1, 0, 1]))
        limits = {name: asked.pop(name) for name in ("budget", "norm", "participants") if name in asked}
        shared = asked.pop("shared", False)
        action = oar.Perturb(limits.pop("budget", 0.4), **limits)
        return OnlineProblem(stream, model, rule, oar.Query([0.9], "yes", **asked), action, shared=shared, start=start)

    path = tmp_path / "plan.npz"
    oar.online.OnlinePlan(made(), np.zeros((4, 1))).save(path)
    oar.online.OnlinePlan.load(path, made())
    for other in (
        {"weights": [1.0, 1.0, 2.0, 1.0]},
        {"rule": ExponentialMeans(0.5)},
        {"rule": FineTune(0.6)},
        {"model": oar.SoftmaxRegression(0.2)},
        {"start": np.zeros(2)},
        {"budget": 0.5},
        {"budget": [0.4, 0.4, 0.4, 0.3]},
        {"norm": 1},
        {"participants": [True, True, True, False]},
        {"shared": True},
        {"probability": 0.6},
    ):
        with pytest.raises(oar.errors.DataError, match="with other people, model, rule, query, goal or limits"):
            oar.online.OnlinePlan.load(path, made(**other))


def test_a_plan_for_a_goal_that_differs_in_a_late_digit_is_refused(tmp_path):
    people = oar.Population([[0.0], [2.0], [0.1], [2.2]], [0.0, 2.0, 0.1, 2.2])
    stream = Stream(people, np.repeat([0, 1], 2), np.array([0, 1, 0, 1]))
    one, other = (
        OnlineProblem(stream, Ridge(), FineTune(0.1), oar.Query([0.9], goal, within=0.1), oar.Perturb(0.4))
        for goal in (1_000_001.0, 1_000_004.0)
    )
    oar.online.OnlinePlan(one, np.zeros((4, 1))).save(tmp_path / "plan.npz")
    with pytest.raises(oar.errors.DataError, match="with other people, model, rule, query, goal or limits"):
        oar.online.OnlinePlan.load(tmp_path / "plan.npz", other)


def test_signals_are_kept_too(tmp_path):
    problem = three_rounds(oar.NearestCentroid(), ExponentialMeans(0.6))
    plan = oar.collective(problem, solver="one-shot").plan
    plan.save(tmp_path / "plan.npz")
    again = oar.online.OnlinePlan.load(tmp_path / "plan.npz", problem)
    assert len(again.signals) == 3
    for pairs, kept in zip(plan.signals, again.signals, strict=True):
        np.testing.assert_array_equal(pairs, kept)


def test_moves_for_other_people_are_refused(late):
    for wrong in (np.zeros((17, 2)), np.zeros((18, 3)), "moves"):
        with pytest.raises(oar.errors.DataError, match="each"):
            oar.online.OnlinePlan(late.problem, wrong)


def test_a_result_tells_what_the_replay_found(late):
    assert late.loss == late.audit.loss < late.loss_before
    assert late.prediction == late.audit.rounds[-1].prediction
    assert late.exact
    assert late.passes == late.proposal.passes
    assert list(late.rounds["round"]) == [0, 1, 2]
    assert late.rounds["loss"].tolist()[:2] == late.rounds["loss_before"].tolist()[:2]  # nobody has acted yet
    shown = repr(late)
    assert "over 3 rounds" in shown
    assert "proved optimal" in shown
    html = late._repr_html_()
    assert html.count("<tr>") == 4
    assert "leverage" in html


def test_a_picture_shows_losses_effort_and_leverage_by_round(late):
    figure = late.plot()
    losses, efforts, levers = figure.axes
    assert [bar.get_height() for bar in efforts.patches] == pytest.approx(late.rounds["effort"].tolist())
    assert [bar.get_height() for bar in levers.patches] == pytest.approx(late.rounds["leverage"].tolist())
    assert losses.lines[0].get_ydata().tolist() == late.rounds["loss_before"].tolist()
    assert losses.lines[1].get_ydata().tolist() == late.rounds["loss"].tolist()


def test_statuses_and_explanations():
    world = {"model": oar.NearestCentroid(), "rule": ExponentialMeans(0.6)}
    already = oar.collective(three_rounds(**world, query=(1.9, 1.0)))
    assert already.status == "already"
    assert "lowered all the same" in already.explanation
    achieved = oar.collective(three_rounds(**world, budget=1.0))
    assert achieved.status == "achieved"
    assert achieved.success
    impossible = oar.collective(three_rounds(**world, query=(0.2, 0.1)))
    assert impossible.status == "impossible"
    assert "any budget above" in impossible.explanation
    early = oar.collective(
        three_rounds(oar.SoftmaxRegression(0.1), FineTune(0.3), query=(0.1, 0.1)),
        solver=oar.solvers.ProjectedGradient(max_steps=0),
    )
    assert early.status == "stopped early"
    assert "max_steps" in early.explanation
    broken = oar.online.OnlineResult(
        early.problem, early.proposal, oar.audit(oar.online.OnlinePlan(early.problem, np.ones((24, 2))))
    )
    assert broken.status == "refused"
    assert "limit 0.4" in broken.explanation

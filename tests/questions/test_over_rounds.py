"""Every verb and question of a problem over rounds: it answers for all rounds, as brute replays do, or it refuses.

None may answer for one refit of everybody in silence. Replays here are by scikit-learn and by plain means, and share no
code with the package.
"""

import inspect
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from support.online_problems import three_rounds

import oar
from oar.online import ExponentialMeans, FullRefit, GradientSteps, Rollout, Stream, Window
from oar.questions.plots import draw_leverage
from oar.report.plan.facts import facts_of
from oar_paper.figures.recourse_map import recourse_map

SOFTMAX = oar.SoftmaxRegression(0.1)


def problems():
    """Return problems whose answer for one refit of everybody would be another."""
    return {
        "centroids": three_rounds(oar.NearestCentroid(), ExponentialMeans(0.6), budget=0.5),
        "centroids, every round, shared": three_rounds(
            oar.NearestCentroid(), ExponentialMeans(0.6), budget=1.0, shared=True, goal_for="every"
        ),
        "softmax": three_rounds(SOFTMAX, Window(2), budget=0.5),
        "softmax, every round": three_rounds(SOFTMAX, FullRefit(), budget=0.5, goal_for="every"),
    }


@pytest.fixture(scope="module", params=list(problems()))
def result(request):
    """A plan over rounds."""
    return oar.collective(problems()[request.param])


def replayed(problem, moves, rows=None, rounds=None):
    """Return the loss over rounds and whether the goal is reached, or what the last model predicts for `rows`.

    That is the model after so many `rounds`; None is all of them.
    """
    people, when = problem.people, problem.stream.when
    features, codes = people.features + moves, people.codes(0, people.size)
    query, losses, reached, means = problem.query_features, [], [], None
    for number in range(problem.rounds if rounds is None else rounds):
        if isinstance(problem.model, oar.NearestCentroid):
            some = when == number
            new = np.array([features[some & (codes == code)].mean(axis=0) for code in (0, 1)])
            means = new if means is None else means + 0.6 * (new - means)
            outputs = [-np.linalg.norm(means - one, axis=1) for one in (query, *([] if rows is None else rows))]
        else:
            some = (when <= number) & ((when > number - 2) | (problem.rule.reads is None))
            fit = LogisticRegression(C=1 / (0.1 * some.sum()), tol=1e-10, max_iter=1_000)
            fit.fit(features[some], codes[some])
            chances = fit.predict_log_proba([query, *([] if rows is None else rows)])
            outputs = list(chances)
        losses.append(np.logaddexp.reduce(outputs[0]) - outputs[0][1])
        reached.append(bool(outputs[0][1] > outputs[0][0]))
    if rows is not None:
        return np.array([one.argmax() for one in outputs[1:]])
    if problem.goal_for == "last":
        return losses[-1], reached[-1]
    return float(np.mean(losses)), all(reached)


def one_refit(problem):
    """Return the same question about one refit of everybody."""
    return oar.Problem(problem.people, problem.model, problem.query, problem.action)


def asked_of(problem, query):
    """Return how to state the same problem for who stands elsewhere."""
    names = ("stream", "model", "rule", "action", "goal_for", "shared", "start")
    return {name: getattr(problem, name) for name in names} | {"query": replace(problem.query, features=query)}


def test_it_is_a_problem_whose_people_are_those_of_all_rounds(result):
    problem = result.problem
    assert isinstance(problem, oar.Problem)
    assert problem.people.size == problem.stream.people.size
    assert problem.with_action(budget=0.1).rule is problem.rule
    assert isinstance(problem.with_action(budget=0.1), oar.OnlineProblem)
    with pytest.raises(oar.errors.OptionError, match=r"problem: training on everybody at once is for one refit"):
        problem.training()


def test_collective_and_the_audit_replay_all_rounds(result):
    assert isinstance(result, oar.results.Result)
    assert isinstance(result.audit, oar.results.Audit)
    assert isinstance(result.plan, oar.results.Plan)
    loss, reached = replayed(result.problem, result.plan.each)
    assert (result.loss, result.success) == (pytest.approx(loss, abs=1e-5), reached)
    again = oar.audit(result.problem, result.plan.each)
    assert (again.loss, again.success, again.goal_for) == (result.loss, result.success, result.problem.goal_for)
    assert oar.audit(result.problem, after=result.problem.people.features + result.plan.each).loss == pytest.approx(
        loss
    )
    assert abs(oar.audit(one_refit(result.problem), result.plan.each).loss - loss) > 1e-4
    assert len(result.rounds) == 3
    one = oar.collective(one_refit(result.problem))
    assert one.rounds["loss"].tolist() == [one.loss]
    assert one.audit.rounds[0].movers == one.audit.movers


def test_other_labels_and_leavers_are_refused_and_the_querys_own_move_is_told(result):
    problem, moves = result.problem, result.plan.each
    with pytest.raises(oar.errors.OptionError, match="labels, leavers: over rounds"):
        oar.audit(problem, moves, leavers=np.arange(len(moves)) == 0)
    told, own = oar.audit(problem, moves, query_move=[0.1, 0.0]), problem.query_features + [0.1, 0.0]
    loss, reached = replayed(oar.OnlineProblem(**asked_of(problem, own)), moves)
    assert (told.loss, told.success) == (pytest.approx(loss, abs=1e-5), reached)
    far = oar.audit(problem, moves, query_move=[9.0, 0.0])
    assert far.violations == (f"the query moves by 9, limit {problem.query_budget:g}",)


def test_the_query_alone_and_all_together_are_replayed(result):
    problem = result.problem
    own, both = oar.individual(problem), oar.joint(problem)
    for found, moves in ((own, np.zeros_like(result.plan.each)), (both, both.plan.each)):
        asked = oar.OnlineProblem(**asked_of(problem, problem.query_features + found.plan.query_move))
        loss, reached = replayed(asked, moves)
        assert (found.loss, found.success) == (pytest.approx(loss, abs=1e-5), reached)
        assert found.audit.violations == ()
        assert found.loss < result.loss_before
    assert not own.plan.each.any()
    assert both.loss <= min(own.loss, result.loss) + 1e-9


def test_a_study_has_the_answers_of_its_cells(result, tmp_path):
    problem = result.problem
    study = oar.study(problem, store=tmp_path / "study.sqlite", budgets=[0.2, 0.4], workers=1, progress=False)
    for row in study.table().itertuples():
        alone = oar.collective(problem.with_action(budget=row.budget))
        assert (row.loss, row.success, row.effort) == (alone.loss, alone.success, alone.audit.effort)


def test_the_querys_own_move_is_against_what_is_deployed(result):
    problem = result.problem
    alone = oar.individual(problem)
    move, still = alone.plan.query_move, np.zeros_like(result.plan.each)
    budget = problem.query_budget
    assert np.linalg.norm(move) <= budget * (1 + 1e-9)
    assert not alone.plan.each.any()
    there = replace(problem, query=replace(problem.query, features=problem.query_features + move))
    assert alone.loss == pytest.approx(replayed(there, still)[0], abs=1e-5)
    ways = budget * np.array([[np.cos(turn), np.sin(turn)] for turn in np.linspace(0, 2 * np.pi, 60)])
    moved = [replace(problem, query=replace(problem.query, features=problem.query_features + way)) for way in ways]
    assert alone.loss <= min(replayed(one, still)[0] for one in moved) + 1e-4
    both = oar.joint(problem)
    assert both.loss <= min(alone.loss, result.loss) + 1e-9
    assert oar.audit(problem, both.plan.each, query_move=both.plan.query_move).loss == both.loss


def test_the_fewest_members_over_rounds_are_persons_who_suffice_in_a_replay(result):
    problem = result.problem
    answer = oar.minimal_coalition(problem)
    if answer.size is None:
        assert not result.success
        return
    moves = answer.result.plan.each
    assert replayed(problem, moves)[1]
    assert set(problem.stream.who[moves.any(axis=1)]) <= set(problem.stream.who[np.asarray(answer.members)])
    assert len(set(problem.stream.who[np.asarray(answer.members)])) == answer.size == sum(answer.by_class.values())
    share = oar.break_even(problem)
    if share.share is not None:
        assert share.result.loss < share.individual.loss


def test_robustness_rolls_the_rule_out(result):
    problem, rng = result.problem, np.random.default_rng((3, 0))
    found = result.plan.robustness(defection=0.4, draws=4, seed=3)
    assert found.planned_loss == pytest.approx(result.loss, abs=1e-5)
    assert found.loss_before == pytest.approx(result.loss_before, abs=1e-5)
    actors = np.flatnonzero(result.plan.each.any(axis=1))
    keep = np.zeros(len(result.plan.each), dtype=bool)
    several, person = np.unique(problem.stream.who[actors], return_inverse=True)
    keep[actors] = (rng.random(several.size) >= 0.4)[person]  # who defects does nothing in any round
    assert found.actors == several.size
    loss, reached = replayed(problem, np.where(keep[:, None], result.plan.each, 0.0))
    assert (found.losses[0], found.successes[0]) == (pytest.approx(loss, abs=1e-5), reached)
    assert np.isfinite(result.plan.robustness(noise=0.1, draws=2).losses).all()
    with pytest.raises(oar.errors.OptionError, match="stale"):
        result.plan.robustness(stale=0.1, draws=2)


def test_collateral_is_told_by_the_last_rounds_model(result):
    problem, moves = result.problem, result.plan.each
    found, rows = oar.questions.collateral(result), problem.people.features
    assert found.before.tolist() == replayed(problem, np.zeros_like(moves), rows).tolist()
    assert found.after.tolist() == replayed(problem, moves, rows + moves).tolist()
    who = problem.stream.who
    assert found.actors.people == np.unique(who[moves.any(axis=1)]).size
    assert found.actors.people + found.bystanders.people == np.unique(who).size


def test_collateral_is_told_by_each_rounds_model(result):
    problem, moves = result.problem, result.plan.each
    found, people = oar.questions.collateral(result), problem.people
    stay, codes = np.zeros_like(moves), people.codes(0, people.size)
    goal = people.classes.index(problem.query.goal)
    for number, row in found.by_round.iterrows():
        before, unmoved, after = (
            replayed(problem, by, people.features + to, number + 1)
            for by, to in ((stay, stay), (moves, stay), (moves, moves))
        )
        for name, inside in (("bystanders", found.stays), ("actors", found.acts)):
            assert row[f"{name} changed"] == (before != after)[inside].sum()
            assert row[f"{name} towards"] == ((before != goal) & (after == goal))[inside].sum()
            assert row[f"{name} away"] == ((before == goal) & (after != goal))[inside].sum()
        assert row["own_before"] == pytest.approx(np.average(before == codes, weights=people.row_weights))
        assert row["own_after"] == pytest.approx(np.average(unmoved == codes, weights=people.row_weights))
    assert len(found.by_round) == problem.rounds
    assert "actors towards" in str(found)


def test_credit_is_of_rollouts(result):
    problem, moves = result.problem, result.plan.each
    fall = result.loss_before - result.loss
    assert oar.questions.credit(result).credits.sum() == pytest.approx(fall, rel=0.02)
    few = np.zeros_like(moves)
    few[np.flatnonzero(moves.any(axis=1))[:3]] = moves[moves.any(axis=1)][:3]
    small = oar.audit(problem, few)
    held = oar.online.OnlineResult(problem, oar_proposal(result, few), small)
    shares = oar.questions.credit(held, method="shapley")
    assert shares.credits.sum() == pytest.approx(small.loss_before - small.loss, abs=1e-5)


def oar_proposal(result, moves):
    """Return the result's proposal with other moves."""
    from dataclasses import replace

    return replace(result.proposal, plan=oar.online.OnlinePlan(result.problem, moves))


def test_leverage_is_of_the_rule(result):
    found, step = oar.questions.leverage(result.problem), 1e-4
    along = np.random.default_rng(0).normal(size=found.slopes.shape)
    up, down = (replayed(result.problem, sign * step * along)[0] for sign in (1, -1))
    assert (found.slopes * along).sum() == pytest.approx((up - down) / (2 * step), rel=1e-3)
    assert draw_leverage(found) is not None


def test_the_least_budget_is_found_by_replays(result):
    problem = result.problem
    found = oar.minimal_budget(problem, tolerance=0.05)
    assert found.result.problem.rule is problem.rule
    if found.value < np.inf:
        assert replayed(found.result.problem, found.result.plan.each)[1]
        assert not oar.collective(problem.with_action(budget=0.8 * found.value)).success
    assert found.at_least <= found.value
    if isinstance(problem.model, oar.NearestCentroid) and problem.goal_for == "last":
        assert 0.9 * found.value < found.at_least
        assert not oar.collective(problem.with_action(budget=found.at_least)).success
        assert "(proved)" in str(found)


def test_power_is_of_replays(result):
    curve = oar.questions.power(result, shares=[0.5, 1.0], budgets=[0.2, float(result.problem.allowance.budget)])
    assert curve.losses[-1, -1] == pytest.approx(result.loss)
    for row, budget in enumerate(curve.budgets):
        for column, share in enumerate(curve.shares):
            plan = curve.plan(budget, share)
            loss, reached = replayed(result.problem, plan.each)
            assert (curve.losses[row, column], curve.success[row, column]) == (pytest.approx(loss, abs=1e-5), reached)
            assert not oar.audit(plan).violations


def test_alternatives_are_plans_over_rounds(result):
    for one in oar.questions.alternatives(result.problem, 2, progress=False):
        loss, reached = replayed(result.problem, one.result.plan.each)
        assert (one.result.loss, one.result.success) == (pytest.approx(loss, abs=1e-5), reached)


def test_plots_views_and_files_are_those_of_rounds(result, tmp_path):
    assert len(result.plot().axes) == 3
    assert result._repr_html_().count("<tr>") == 4
    assert "after the last round" in result.audit._repr_html_()
    written = result.plan.write_moves(tmp_path / "moves")
    assert oar.audit(result.problem, written[0].parent).loss == result.loss
    assert isinstance(result.warnings, tuple)


class InPlace:
    """Gradient steps that write to the θ that they are handed, and return it."""

    name, reads, remembers = "in-place", 1, True
    pure = GradientSteps(0.5)
    pull_back = pure.pull_back

    def update(self, update):
        update.before[:] = self.pure.update(update)
        return update.before


def test_a_rule_that_writes_to_what_it_is_handed_is_judged_round_by_round():
    pure, writes = (three_rounds(SOFTMAX, rule, goal_for="every") for rule in (InPlace.pure, InPlace()))
    still = np.zeros_like(pure.people.features)
    told = [[one.loss for one in oar.audit(problem, still).rounds] for problem in (pure, writes)]
    assert told[0] == told[1]
    assert len(set(told[0])) == 3
    assert np.array_equal(Rollout(pure).forward().parameters, Rollout(writes).forward().parameters)


@pytest.mark.parametrize("shared", [np.ones(18, dtype=bool), np.array(1 + 1j)])
def test_shared_budgets_are_numbers(shared):
    with pytest.raises(oar.errors.DataError, match="shared: must be True or False, or how far"):
        three_rounds(SOFTMAX, FullRefit(), shared=shared)


def test_a_start_is_real():
    with pytest.raises(oar.errors.DataError, match="start: must be numbers"):
        oar.OnlineProblem(
            Stream.of_batches([([[0.0], [1.0]], ["no", "yes"])]), SOFTMAX, GradientSteps(0.1),
            oar.Query([0.5], "yes"), oar.Perturb(0.1), start=np.full(4, 1j),
        )  # fmt: skip


def test_people_in_parts_do_not_come_in_rounds():
    people = oar.Population.from_memmap(np.eye(2), np.arange(2))
    with pytest.raises(oar.errors.OptionError, match="people: must be in memory to come in rounds"):
        Stream(people, np.zeros(2, dtype=int))


REFUSED = {
    "worth": lambda problem: oar.questions.worth(problem, oar.defences.TrimmedCentroids(0.1)),
}
OF_RESULTS = {
    "private_card": lambda result: oar.questions.private_card(result, 1.0, bounds=(-3, 3)),
    "map": lambda result: recourse_map(result, result),
    "report": lambda result: facts_of(result, origin=None),
}


@pytest.mark.parametrize("asked", REFUSED)
def test_what_is_of_one_refit_refuses_a_problem_over_rounds(result, asked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(oar.errors.OptionError, match=r"^problem: .* is for one refit, got one over time; plan that"):
        REFUSED[asked](result.problem)


@pytest.mark.parametrize("asked", OF_RESULTS)
def test_what_is_of_one_refit_refuses_a_result_over_rounds(result, asked):
    with pytest.raises(oar.errors.OptionError, match=r"^problem: .* is for one refit, got one over time; plan that"):
        OF_RESULTS[asked](result)


def test_a_black_box_is_not_asked_over_rounds(result):
    with pytest.raises(oar.errors.DataError, match="with an oar.BlackBox"):
        oar.questions.transfer(result.problem)


def test_every_question_is_looked_at_here():
    """A new verb or question must be added to this file."""
    text = inspect.getsource(inspect.getmodule(one_refit))
    named = [name for name in oar.questions.__all__ if name[0].islower()]
    verbs = ["individual", "collective", "joint", "audit", "study"]
    assert all(f"questions.{name}(" in text or f"oar.{name}" in text for name in [*named, *verbs])


def test_questions_keep_to_the_rows_that_may_act():
    """Whoever may act in the last round alone is not asked to act in others, however few would then do."""
    rng, labels = np.random.default_rng(4), np.arange(6) % 2

    def drawn():
        return rng.normal(size=(6, 2)) + 1.2 * labels[:, None], labels

    stream = oar.online.Stream.of_batches([drawn() for _ in range(3)], history=drawn(), who=True)
    mask = np.arange(24) // 6 == 2
    asked = oar.OnlineProblem(
        stream,
        oar.NearestCentroid(),
        oar.online.FullRefit(),
        oar.Query([-0.2, 0.3], 1),
        oar.Perturb(8, participants=mask),
    )
    fewest = oar.minimal_coalition(asked)
    assert not (fewest.result.plan.each.any(axis=1) & ~mask).any()
    assert oar.audit(asked, fewest.result.plan.each).success
    assert fewest.size > 1
    little = asked.with_action(budget=2.0)
    assert oar.collective(little).status == "impossible"
    assert oar.break_even(little).goal_share is None

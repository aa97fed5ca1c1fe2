"""The three questions where answers are found by solving: against exact answers, all choices, and the audit."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from support.question_problems import QUICK, as_centroids, small_table, two_groups

import oar
from oar.models import LinearSVM, PrototypeNetwork, Ridge, Scaled, SoftmaxRegression
from oar.questions.least import trials


@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_the_budget_found_for_prototypes_is_that_of_nearest_centroid(norm):
    problem = two_groups(budget=0.05, norm=norm, size=10)
    exact, found = oar.minimal_budget(as_centroids(problem)), oar.minimal_budget(problem, solver=QUICK, tolerance=0.01)
    assert exact.exact
    assert exact.value * (1 - 1e-6) <= exact.at_least < exact.value
    assert not found.exact
    assert exact.value <= found.value * (1 + 1e-9)
    assert found.value <= exact.value * 1.02
    assert found.result.success
    assert found.result.problem.allowance.budget == found.value  # audited at it
    assert "at most" in found.explanation
    assert "not proved" in found.explanation


def test_budgets_that_differ_are_multiplied():
    problem = two_groups(budget=np.linspace(0.0, 1.0, 16))
    exact, found = oar.minimal_budget(as_centroids(problem)), oar.minimal_budget(problem, solver=QUICK)
    assert exact.value <= found.value * (1 + 1e-9) <= exact.value * 1.03
    assert "factor on the budgets" in found.explanation


@pytest.mark.parametrize(
    "model", [oar.SoftmaxRegression(1.0), LinearSVM(0.3, penalise_intercept=True), Scaled(oar.SoftmaxRegression(0.1))]
)
def test_what_is_proved_is_below_what_is_found(model):
    problem = two_groups(3, model)
    budget = oar.minimal_budget(problem, solver=QUICK)
    assert budget.status is oar.results.Status.ACHIEVED
    assert 0 <= budget.at_least <= budget.value
    coalition = oar.minimal_coalition(problem, solver=QUICK)
    assert coalition.result.success
    assert 1 <= coalition.at_least <= coalition.size == coalition.members.sum() == sum(coalition.by_class.values())
    assert coalition.result.audit.movers <= coalition.size
    if not isinstance(model, Scaled):
        assert budget.at_least > 0
        assert "at least" in budget.explanation


def test_a_value_is_regressed_within_reach():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(20, 2))
    people = oar.Population(features, features @ [1.0, -1.0] + 0.1 * rng.normal(size=20))
    problem = oar.Problem(people, Ridge(0.5), oar.Query([0.5, 0.0], 1.0, within=0.05), oar.Perturb(0.3))
    budget, coalition = oar.minimal_budget(problem, solver=QUICK), oar.minimal_coalition(problem, solver=QUICK)
    assert budget.result.success
    assert 0 < budget.at_least <= budget.value
    assert coalition.result is None or coalition.by_class == {}


def test_the_least_budget_of_the_best_few_is_that_of_the_best_choice():
    problem = two_groups(1, oar.NearestCentroid(), size=8, participants=oar.Best(3))
    found = oar.minimal_budget(problem, tolerance=1e-3)
    exact = [
        oar.minimal_budget(problem.with_action(participants=np.isin(np.arange(8), some), seed=None)).value
        for some in itertools.combinations(range(8), 3)
    ]
    assert min(exact) <= found.value <= min(exact) * 1.002
    assert found.result.audit.movers <= 3


@pytest.mark.parametrize("seed", range(2))
def test_the_coalition_found_is_about_the_smallest_of_all_choices(seed):
    problem = two_groups(seed, oar.SoftmaxRegression(0.1), size=7, budget=0.9)
    answer = oar.minimal_coalition(problem, solver=QUICK)
    fewest = next(
        size
        for size in range(8)
        for some in itertools.combinations(range(7), size)
        if oar.collective(
            problem.with_action(participants=np.isin(np.arange(7), some), seed=None), solver=QUICK
        ).success
    )
    assert answer.at_least <= fewest <= answer.size <= fewest + 1  # here always the fewest


def test_the_coalition_found_for_prototypes_is_that_of_nearest_centroid():
    problem = two_groups(4, size=30, budget=0.8)
    exact, found = oar.minimal_coalition(as_centroids(problem)), oar.minimal_coalition(problem, solver=QUICK)
    assert exact.exact
    assert exact.at_least == exact.size
    assert exact.size <= found.size <= exact.size + 1


def test_the_goal_that_is_there_already_needs_nothing():
    problem = two_groups(0, oar.SoftmaxRegression())
    there = oar.Problem(problem.people, problem.model, oar.Query([3.0, 3.0], "yes"), problem.action)
    budget, coalition = oar.minimal_budget(there), oar.minimal_coalition(there)
    assert (budget.value, coalition.size) == (0.0, 0)
    assert budget.status is coalition.status is oar.results.Status.ALREADY


def test_impossible_only_where_it_is_proved():
    nobody = two_groups(0, oar.SoftmaxRegression(), participants=np.zeros(16, dtype=bool))
    for answer in (oar.minimal_budget(nobody), oar.minimal_coalition(nobody)):
        assert answer.status is oar.results.Status.IMPOSSIBLE
        assert answer.result is None
    fixed = small_table(limits={name: oar.Limit(immutable=True) for name in ("count", "kind", "share")})
    assert oar.minimal_budget(fixed).status is oar.results.Status.IMPOSSIBLE
    assert oar.minimal_coalition(fixed).status is oar.results.Status.IMPOSSIBLE
    short = two_groups(0, oar.SoftmaxRegression(3.0), budget=1e-4)
    assert oar.minimal_coalition(short, solver=QUICK).status is oar.results.Status.IMPOSSIBLE  # ruled out by the bound
    missed = two_groups(0, Scaled(oar.SoftmaxRegression(3.0)), budget=1e-4)
    answer = oar.minimal_coalition(missed, solver=QUICK)
    assert answer.status is oar.results.Status.NOT_FOUND
    assert answer.result.status is oar.results.Status.IMPROVED
    assert "proves nothing" in answer.explanation
    budget = oar.minimal_budget(missed, solver=QUICK, most=1e-3)
    assert (budget.value, budget.status) == (math.inf, oar.results.Status.NOT_FOUND)


def test_the_break_even_found_for_prototypes_is_about_that_of_nearest_centroid():
    from sklearn.datasets import load_iris

    features, labels = load_iris(return_X_y=True)
    means = [features[labels == code].mean(axis=0) for code in range(3)]
    people, query = oar.Population(features, labels), oar.Query(0.25 * means[2] + 0.75 * means[0], 2)
    problem = oar.Problem(people, PrototypeNetwork(), query, oar.Perturb(1.5))
    exact, found = oar.break_even(as_centroids(problem)), oar.break_even(problem, collective_solver=QUICK, seed=3)
    assert exact.exact == exact.individual.exact
    assert not found.exact
    assert exact.share - 0.03 <= found.share <= exact.share + 0.05
    assert found.goal_share == pytest.approx(exact.goal_share, abs=0.05)
    assert found.result.loss < found.individual.loss
    again = oar.break_even(problem, collective_solver=QUICK, seed=3)
    assert again.share == found.share


def test_where_the_goal_is_there_already_no_share_is_said_to_be_needed_for_it():
    found = two_groups(0, oar.SoftmaxRegression())
    label = oar.collective(found, solver=QUICK).audit.prediction_before
    already = replace(found, query=oar.Query(found.asked.points[0], label))
    said = oar.break_even(already, collective_solver=QUICK).explanation
    assert "0.0% are needed" not in said
    assert "the goal itself is reached before any of them moves" in said


def test_no_break_even_is_not_called_impossible():
    problem = two_groups(0, oar.SoftmaxRegression(), participants=np.arange(16) < 1)
    answer = oar.break_even(problem, collective_solver=QUICK)
    assert answer.share is None
    assert answer.status is oar.results.Status.NOT_FOUND
    with pytest.raises(ValueError, match="no break-even"):
        float(answer)


@pytest.mark.parametrize(
    ("ask", "options"),
    [
        (oar.minimal_budget, {"tolerance": 0.1}),
        (oar.minimal_budget, {"most": 3.0}),
        (oar.minimal_coalition, {"signal": "implicit"}),
        (oar.break_even, {"seed": 1}),
    ],
)
def test_options_of_a_search_are_refused_where_nothing_is_searched(ask, options):
    with pytest.raises(oar.errors.OptionError, match="computed, not searched"):
        ask(as_centroids(two_groups()), **options)


def test_what_cannot_be_asked_is_refused():
    problem = two_groups()
    with pytest.raises(oar.errors.DataError, match="tolerance"):
        oar.minimal_budget(problem, tolerance=2)


def three_groups(participants, **query):
    """Return nearest centroid with a goal of probability, of several classes or of several people."""
    features = np.array([[0, 0], [0, 0.2], [3, 0], [3, 0.2], [3, -0.2], [0, 3], [0.2, 3]], dtype=float)
    labels = np.array([0, 0, 1, 1, 1, 2, 2])
    asked = oar.Query(**({"features": np.array([0.9, 1.0]), "goal": 1} | query))
    action = oar.Perturb(1.0, participants=None if participants is None else labels == participants)
    return oar.Problem(oar.Population(features, labels), oar.NearestCentroid(), asked, action)


def test_a_probability_can_be_had_without_winning_a_duel():
    found = oar.minimal_budget(three_groups(2, probability=0.2))
    assert found.status is oar.results.Status.ACHIEVED
    assert 0.9 * found.value < found.at_least <= found.value
    never = oar.minimal_budget(three_groups(2, probability=0.3))
    assert never.status is oar.results.Status.IMPOSSIBLE
    # Whoever moves class 2 away for ever comes no nearer to class 1 than this.
    distances = [np.hypot(0.9, 0.9), np.hypot(2.1, 1.0)]
    assert 1 / (1 + np.exp(distances[1] - distances[0])) < 0.3


@pytest.mark.parametrize(
    "query", [{"goal": {1, 2}}, {"goal": oar.AnyBut(0)}, {"features": np.array([[0.9, 1.0], [1.0, 0.8]])}]
)
def test_budgets_are_found_for_other_goals_of_nearest_centroid(query):
    found = oar.minimal_budget(three_groups(None, **query), solver=QUICK)
    assert found.result is not None
    assert found.result.success
    assert found.at_least <= found.value


def test_the_search_for_fewer_members_ends_after_so_many_passes(monkeypatch):
    problem = two_groups(model=SoftmaxRegression(), size=30, budget=2.0)
    assert "where the search was ended" not in oar.minimal_coalition(problem, solver=QUICK).explanation
    monkeypatch.setattr("oar.questions.least.trials.PASSES", 1)
    ended = oar.minimal_coalition(problem, solver=QUICK)
    assert "by 0 plans for fewer, where the search was ended" in ended.explanation
    assert ended.result.success


def test_losses_that_are_0_by_rounding_prove_nothing():
    """A softmax is never sure, so that a loss of 0.0 is not the lowest there can be; a hinge's is."""
    rng, labels = np.random.default_rng(0), np.arange(12) % 2
    features = rng.normal(size=(12, 2)) + np.outer(3 * labels, [1.0, 0.0])
    query = oar.Query([500.0, 4.0], goal=1)
    for model, status in ((SoftmaxRegression(0.01), "not found"), (LinearSVM(), "impossible")):
        answer = oar.break_even(oar.Problem(oar.Population(features, labels), model, query, oar.Perturb(30.0)))
        assert answer.individual.loss == 0
        assert answer.status == status


def test_people_as_they_are_are_refitted_once_for_all_trials(monkeypatch):
    from oar.referee.witnesses import refits

    refit, seen = refits.refit, []

    def spied(model, people, rows):
        seen.append(bool((np.asarray(rows) == np.asarray(people.features)).all()))
        return refit(model, people, rows)

    monkeypatch.setattr(refits, "refit", spied)
    rng = np.random.default_rng(0)
    labels = np.arange(30) % 2
    people = oar.Population(rng.normal(size=(30, 2)) + labels[:, None], labels)
    problem = oar.Problem(people, oar.SoftmaxRegression(), oar.Query([0.0, 0.0], 1), oar.Perturb(0.2))
    trying = trials.ProblemTrials(problem)
    first, second = trying.solve(problem), trying.solve(trials.scaled(problem, 0.1))
    assert sum(seen) == 1
    assert len(seen) == 3
    monkeypatch.undo()
    alone = trials.ProblemTrials(problem).solve(trials.scaled(problem, 0.1))
    assert alone.audit == second.audit  # to the last bit
    assert first.audit.loss_before == second.audit.loss_before


def test_a_search_that_may_try_nothing_proves_nothing():
    labels = np.arange(12) % 2
    features = np.random.default_rng(1).normal(size=(12, 2)) + 1.5 * labels[:, None]
    asked = oar.Problem(
        oar.Population(features, labels), oar.SoftmaxRegression(0.1), oar.Query([0.3, 0.4], 1), oar.Perturb(0.5)
    )
    nothing = oar.minimal_budget(asked, most=0)
    assert nothing.status == "not found"
    assert not nothing.exact
    assert nothing.at_least <= oar.minimal_budget(asked).value


def labels_and_moves(*actions):
    labels = np.arange(10) % 2
    features = np.random.default_rng(0).normal(size=(10, 2)) + 1.5 * labels[:, None]
    people = oar.Population(features, labels)
    return oar.Problem(people, oar.SoftmaxRegression(0.1), oar.Query([0.1, 0.2], 1), list(actions))


def test_no_budget_is_needed_where_other_labels_do():
    found = oar.minimal_budget(labels_and_moves(oar.Perturb(3.0), oar.Relabel(most=3)))
    assert (found.value, found.exact) == (0.0, True)
    assert found.result.success
    assert not np.asarray(found.result.plan.moves()).any()


def test_a_number_that_is_its_own_bound_is_exact():
    found = oar.minimal_budget(labels_and_moves(oar.Relabel(most=3)))
    assert (found.value, found.at_least, found.exact) == (1.0, 1.0, True)
    assert "not proved" not in found.explanation

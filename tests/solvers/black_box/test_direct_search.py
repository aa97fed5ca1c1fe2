"""Direct search: within its trainings and its time, never worse than what it starts from, and by no lucky seed."""

import itertools
import time
from typing import ClassVar

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from support.black_boxes import CountedTree, crowd, problem, ring

import oar
from oar.errors import DataError, EstimatorError, OptionError
from oar.solvers import DirectSearch, Surrogate

GENTLE = Surrogate(models=[oar.models.SoftmaxRegression(0.05)])


@pytest.mark.parametrize("refits", [1, 2, 5, 12, 30])
@pytest.mark.parametrize("randomised", [None, True, False])
def test_no_more_trainings_than_allowed_counted_by_the_estimator_itself(refits, randomised):
    log = []
    box = oar.BlackBox(CountedTree(log), randomised=randomised)
    found = oar.solvers.propose_collective(problem(box), DirectSearch(refits=refits, start=GENTLE))
    assert len(log) <= refits
    assert found.calls.fits == len(log) == found.passes
    assert not found.finished
    assert "allow more with refits" in found.ended
    assert not found.exact
    assert found.gap == np.inf


def test_planning_and_audit_are_counted_apart_and_told():
    log = []
    asked = problem(oar.BlackBox(CountedTree(log), randomised=False), oar.Perturb(1.0))
    result = oar.collective(asked, solver=DirectSearch(refits=9, start=GENTLE))
    assert result.audit.movers
    assert result.calls.fits == len(log) == result.proposal.calls.fits + result.audit_calls.fits
    assert (result.proposal.calls.fits, result.audit_calls.fits) == (9, 2)
    assert "9 to plan, 2 to audit" in result.explanation


@pytest.mark.parametrize(("seed", "angle"), [(0, 0.6), (1, 0.6), (2, 0.3), (4, 0.3)])
def test_a_tree_on_turned_features_is_searched_better_than_surrogates_guess(seed, angle):
    people = ring(seed=seed)
    box = oar.BlackBox(CountedTree([], angle=angle), randomised=False)
    asked = problem(box, oar.Perturb(0.5), people, (1.3, 0.2), "in")
    guessed = oar.collective(asked, solver=GENTLE)
    searched = oar.collective(asked, solver=DirectSearch(refits=60, start=GENTLE))
    assert searched.loss < guessed.loss - 0.1
    assert searched.loss < searched.loss_before - 0.1
    assert not searched.audit.violations


@pytest.mark.parametrize("policy", ["classes", "signal"])
def test_never_worse_than_the_start_or_staying(policy):
    for seed in range(3):
        asked = problem(oar.BlackBox(CountedTree([], angle=0.5), randomised=False), people=crowd(seed=seed))
        guessed = oar.collective(asked, solver=GENTLE)
        searched = oar.collective(asked, solver=DirectSearch(refits=15, policy=policy, start=GENTLE))
        assert searched.loss <= min(guessed.loss, guessed.loss_before) + 1e-12
        assert searched.proposal.claimed_loss == pytest.approx(searched.loss, abs=1e-12)  # the same training again
        assert not searched.disagreement


@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_limits_are_kept_and_outsiders_stay(norm):
    budgets = np.linspace(0.0, 1.2, 80)
    members = np.arange(80) % 3 > 0
    action = oar.Perturb(budgets, norm=norm, participants=members)
    result = oar.collective(problem(oar.BlackBox(KNeighborsClassifier(9)), action), solver=DirectSearch(refits=12))
    moves = np.asarray(result.plan.moves())
    assert not result.audit.violations
    assert moves.any()
    assert not moves[~members].any()
    assert (np.linalg.norm(moves, ord=norm, axis=1) <= budgets * (1 + 1e-9)).all()


def test_the_same_seed_gives_the_same_bits_and_touches_no_global_state():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    one, two, other = (
        oar.collective(problem(oar.BlackBox(RandomForestClassifier(5))), solver=DirectSearch(refits=20, seed=seed))
        for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(one.plan.moves(), two.plan.moves())
    assert one.loss == two.loss
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    assert not np.array_equal(one.proposal.plan.moves(), other.proposal.plan.moves()) or one.loss == other.loss


def test_a_random_forest_is_judged_by_a_rate_over_seeds_of_its_own():
    box = oar.BlackBox(RandomForestClassifier(10), refits=8)
    result = oar.collective(problem(box, oar.Perturb(0.8)), solver=DirectSearch(refits=25))
    assert box.is_random(result.problem.people)
    assert result.audit.rate.refits == 8
    assert result.proposal.estimated
    assert not result.disagreement
    assert result.loss < result.loss_before


class NotedForest(RandomForestClassifier):
    """A forest whose trainings' seeds are noted."""

    seeds: ClassVar[list] = []

    def fit(self, rows, labels):
        self.seeds.append(self.random_state)
        return super().fit(rows, labels)


def test_a_generation_shares_its_seed_and_the_next_has_another():
    NotedForest.seeds.clear()
    box = oar.BlackBox(NotedForest(3), randomised=True)
    oar.solvers.propose_collective(problem(box), DirectSearch(refits=60, start=GENTLE))
    runs = [(seed, len(list(those))) for seed, those in itertools.groupby(NotedForest.seeds)]
    assert len({seed for seed, _ in runs}) == len(runs)  # no seed comes back: generations and finals have fresh ones
    generations = list(itertools.takewhile(lambda trainings: trainings >= 4, (count for _, count in runs)))
    finals = [count for _, count in runs[len(generations) :]]
    assert len(generations) > 2
    assert len(finals) >= 3
    assert min(finals) >= 2  # each for several finalists


class TestFailures:
    def test_in_the_middle_the_best_so_far_is_kept_and_it_is_said(self):
        log = []
        box = oar.BlackBox(CountedTree(log, breaks_at=10), randomised=False)
        found = oar.solvers.propose_collective(problem(box), DirectSearch(refits=40, start=GENTLE))
        assert len(log) == 10
        assert "the cluster is on fire" in found.ended
        assert "kept" in found.ended
        assert not found.finished
        whole = oar.collective(
            problem(oar.BlackBox(CountedTree([]), randomised=False)), solver=DirectSearch(9, start=GENTLE)
        )
        assert found.claimed_loss == pytest.approx(whole.loss)  # that of the nine trainings before

    def test_at_once_it_is_an_error(self):
        with pytest.raises(EstimatorError, match="on fire"):
            oar.collective(
                problem(oar.BlackBox(CountedTree([], breaks_at=1), randomised=False)), solver=DirectSearch(5)
            )


class Slow:
    """Takes its time."""

    def __init__(self, log, seconds):
        self.log, self.seconds = log, seconds

    def __call__(self, rows, labels):
        time.sleep(self.seconds)
        self.log.append(time.monotonic())
        return KNeighborsClassifier(5).fit(rows, labels)


def test_no_training_is_begun_that_would_end_after_the_time_limit():
    log, began = [], time.monotonic()
    settings = DirectSearch(refits=10_000, time_limit=0.5, start="nothing")
    found = oar.solvers.propose_collective(problem(oar.BlackBox(Slow(log, 0.05))), settings)
    assert 1 < len(log) < 11
    assert max(log) <= began + 0.5 + 0.1  # the last may take a little longer than the longest before it
    assert "time limit" in found.ended
    assert not found.finished


def test_a_time_limit_is_honoured_before_it_is_known_whether_training_is_random():
    log = []
    oar.solvers.propose_collective(problem(oar.BlackBox(Slow(log, 0.2))), DirectSearch(time_limit=0.3, start="nothing"))
    assert len(log) == 1


class Ignores:
    """Has a seed, and ignores it."""

    def __init__(self):
        self._rng = np.random.default_rng(0)

    def __call__(self, rows, labels, seed):
        some = self._rng.permutation(len(rows))[: len(rows) // 2]
        return DecisionTreeClassifier(max_depth=3).fit(rows[some], np.asarray(labels)[some])


class InPlace(KNeighborsClassifier):
    """Standardises what it is given, in place."""

    def fit(self, rows, labels):
        rows -= rows.mean(axis=0)
        return super().fit(rows, labels)


class Labels:
    """Has labels alone."""

    def fit(self, rows, labels):
        self._inner = KNeighborsClassifier(5).fit(rows, labels)
        return self

    def predict(self, rows):
        return self._inner.predict(rows)


@pytest.mark.parametrize(
    ("estimator", "words"),
    [(Ignores(), "It ignores its seed"), (InPlace(), "in place"), (Labels(), "label distance")],
)
def test_what_is_noticed_is_in_the_explanation(estimator, words):
    people = crowd()
    before = np.array(people.features)
    result = oar.collective(problem(oar.BlackBox(estimator, refits=4), people=people), solver=DirectSearch(refits=14))
    assert words in result.explanation
    np.testing.assert_array_equal(people.features, before)
    assert result.loss <= result.loss_before or result.proposal.estimated


def test_values_are_searched_too():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(100, 3))
    people = oar.Population(features, features @ [1.0, -1.0, 0.5])
    box = oar.BlackBox(DecisionTreeRegressor(max_depth=4, random_state=0), randomised=False)
    query = oar.Query([0.1, 0.2, 0.3], goal=2.0, within=0.3)
    result = oar.collective(oar.Problem(people, box, query, oar.Perturb(0.5)), solver=DirectSearch(refits=30))
    assert result.loss < result.loss_before - 0.1


def test_others_are_left_alone_where_they_must_be():
    members = np.arange(80) % 2 == 0
    asked = problem(
        oar.BlackBox(KNeighborsClassifier(7)), oar.Perturb(0.6, participants=members), keep=oar.Keep(changed=0.02)
    )
    result = oar.collective(asked, solver=DirectSearch(refits=30, start=GENTLE))
    assert not result.audit.violations
    assert result.loss < result.loss_before
    unheeding = problem(oar.BlackBox(KNeighborsClassifier(7)), asked.action)
    free = oar.collective(unheeding, solver=DirectSearch(refits=30, start=GENTLE))
    assert oar.questions.collateral(free).bystanders.changed > 0.02 * 40  # the limit binds


def test_the_most_useful_members_are_chosen_by_surrogates():
    asked = problem(oar.BlackBox(KNeighborsClassifier(7)), oar.Perturb(0.6, participants=oar.Best(10)))
    result = oar.collective(asked, solver=DirectSearch(refits=12))
    assert 0 < result.audit.movers <= 10
    assert not result.audit.violations
    with pytest.raises(OptionError, match=r"oar\.Best needs them"):
        oar.collective(asked, solver=DirectSearch(start="nothing"))


def test_joint_moves_are_at_least_as_good_as_either_start():
    box = oar.BlackBox(CountedTree([]), randomised=False)
    result = oar.joint(problem(box, oar.Perturb(0.3)), solver=DirectSearch(refits=40))
    assert not result.audit.violations
    assert result.loss < result.loss_before
    assert np.linalg.norm(result.plan.query_move) <= 0.3 * (1 + 1e-9)


class TestTables:
    def test_credit_limits_are_kept_by_either_policy(self):
        loans = oar.datasets.german_credit()
        some = oar.Population.from_frame(loans.frame.iloc[:200], loans.target, schema=loans.schema)
        row = loans.frame.iloc[1].drop("credit").to_dict()
        for policy in ("classes", "signal"):
            box = oar.BlackBox(KNeighborsClassifier(9))
            asked = oar.Problem(some, box, oar.Query(row, goal="good"), oar.Perturb(1.5, norm=1, limits=loans.limits))
            result = oar.collective(asked, solver=DirectSearch(refits=10, policy=policy))
            assert not result.audit.violations
            assert result.audit.movers > 0
            assert result.loss < result.loss_before

    def test_joint_recourse_is_refused_kindly(self):
        loans = oar.datasets.german_credit()
        row = loans.frame.iloc[1].drop("credit").to_dict()
        asked = oar.Problem(
            loans.population, oar.BlackBox(KNeighborsClassifier(9)), oar.Query(row, goal="good"), oar.Perturb(1.0)
        )
        with pytest.raises(OptionError, match=r"use oar\.collective for the members"):
            oar.joint(asked)


@pytest.mark.parametrize(
    ("solver", "error", "words"),
    [
        ("projected-gradient", OptionError, "does not apply here"),
        ("directsearch", OptionError, "direct-search"),
        (3, OptionError, r"oar\.solvers\.DirectSearch"),
    ],
)
def test_other_solvers_are_refused(solver, error, words):
    with pytest.raises(error, match=words):
        oar.collective(problem(oar.BlackBox(CountedTree([]))), solver=solver)


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(OptionError, match="signal: black box CountedTree can only be trained"):
        oar.collective(problem(oar.BlackBox(CountedTree([]))), signal="implicit")
    for bad, words in (
        ({"refits": 0}, "refits: must be a whole number"),
        ({"policy": "all"}, "policy"),
        ({"start": 3}, "start: must be"),
        ({"start": "nothing", "policy": "signal"}, "cannot start from 'nothing'"),
        ({"time_limit": -1}, "time_limit"),
        ({"seed": 0.5}, "seed"),
    ):
        with pytest.raises((OptionError, DataError), match=words):
            DirectSearch(**bad)
    with pytest.raises(OptionError, match="does not apply here"):
        oar.collective(
            oar.Problem(crowd(), oar.SoftmaxRegression(), oar.Query([0, 0], "yes"), oar.Perturb(1)), solver="surrogate"
        )


@pytest.mark.parametrize("estimator", [DecisionTreeClassifier(max_depth=3), KNeighborsClassifier(5)])
def test_what_exact_solutions_ask_before_a_search_counts_too(estimator):
    several = oar.Query([[-0.7, -0.5], [-0.4, -0.6]], goal="yes")
    asked = oar.Problem(crowd(), oar.BlackBox(estimator), several, oar.Perturb(0.4))
    found = oar.solvers.propose_collective(asked)
    assert found.solver == "direct-search"
    assert found.calls.fits == asked.model.calls.fits <= 60
    with pytest.raises(OptionError, match="leave the solver out, which then searches"):
        oar.solvers.propose_collective(asked, "exact")


def test_exact_solutions_come_first_where_they_are_known():
    result = oar.collective(problem(oar.BlackBox(KNeighborsClassifier(3))))
    assert result.proposal.solver == "exact"
    searched = oar.collective(problem(oar.BlackBox(KNeighborsClassifier(3))), solver="direct-search")
    assert result.loss <= searched.loss + 1e-12
    assert result.calls.fits == result.proposal.calls.fits + result.audit_calls.fits

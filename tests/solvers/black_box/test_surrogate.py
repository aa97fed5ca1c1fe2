"""Plans by surrogates: without a training of the black box, on any public data, within everyone's limits."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from support.black_boxes import CountedTree, crowd, problem, ring

import oar
from oar.errors import DataError, OptionError
from oar.models import LinearSVM, Scaled, SoftmaxRegression
from oar.plans.cards.response import People, best_responses
from oar.retraining.contribution import Contribution
from oar.solvers import Surrogate
from oar.solvers.black_box.answers import Answers, signals_at
from oar.solvers.black_box.surrogate import ensemble, themselves

SOFTMAX = SoftmaxRegression(0.05)
BOTH = (Scaled(SOFTMAX), Scaled(LinearSVM(0.05)))


def moves_of(result):
    return np.asarray(result.plan.moves())


def test_no_training_is_spent_on_planning():
    log = []
    found = oar.solvers.propose_collective(problem(oar.BlackBox(CountedTree(log))), "surrogate")
    assert not log
    assert found.calls.fits == found.calls.predictions == 0
    assert found.plan.each.any()
    assert found.estimated
    assert "predicts a goal loss" in found.note


def test_a_surrogate_that_is_the_black_box_has_its_white_box_plan():
    outside = oar.BlackBox(LogisticRegression(C=1 / (80 * 0.05), tol=1e-12, max_iter=1_000))
    by_surrogate = oar.collective(problem(outside), solver=Surrogate(models=SOFTMAX))
    known = oar.collective(problem(SOFTMAX))
    assert by_surrogate.loss == pytest.approx(known.loss, rel=1e-2)
    assert by_surrogate.loss < by_surrogate.loss_before - 0.3
    assert not by_surrogate.disagreement


@pytest.mark.parametrize("public", [0.4, "others"])
@pytest.mark.parametrize("models", [(SOFTMAX,), BOTH])
def test_signals_of_other_data_are_answered_within_the_members_own_limits(public, models):
    budgets = np.linspace(0.0, 0.8, 80)
    box = oar.BlackBox(LogisticRegression(C=0.25))
    asked = problem(box, oar.Perturb(budgets))
    public = crowd(50, seed=9) if public == "others" else public
    result = oar.collective(asked, solver=Surrogate(models=models, public=public, seed=2))
    lengths = np.linalg.norm(moves_of(result), axis=1)
    assert not result.audit.violations
    assert (lengths <= budgets * (1 + 1e-9)).all()
    assert lengths[1:].min() > 0
    assert result.loss < result.loss_before - 0.2
    whole = oar.collective(asked, solver=Surrogate(models=models))
    assert result.loss < whole.loss + 0.5 * (whole.loss_before - whole.loss)  # at least half of the gain is left


@pytest.mark.parametrize("searched", [False, True])
def test_as_many_others_are_not_the_people_themselves(searched):
    """A move that was planned for somebody else at the same position is nobody's: each has its own limits."""
    people, mine = crowd(60), np.arange(60) < 20
    order = np.random.default_rng(3).permutation(60)
    others = oar.Population(np.asarray(people.features)[order] + 0.3, people.labels[order])
    budgets = np.where(np.arange(60) < 10, 0.8, 0.1)
    asked = problem(oar.BlackBox(CountedTree([])), oar.Perturb(budgets, participants=mine), people)
    surrogate = Surrogate(models=SOFTMAX, public=others)
    solver = oar.solvers.DirectSearch(refits=6, start=surrogate) if searched else surrogate
    assert not oar.collective(asked, solver=solver).audit.violations


def test_the_most_useful_are_chosen_by_their_answers_to_as_many_others():
    people, others = crowd(60), crowd(60, seed=4)
    asked = problem(oar.BlackBox(CountedTree([])), oar.Perturb(0.5, participants=oar.Best(5)), people)
    result = oar.collective(asked, solver=Surrogate(models=SOFTMAX, public=others))
    assert not result.audit.violations
    assert moves_of(result).any(axis=1).sum() == 5


def test_people_are_themselves_with_other_labels_but_not_in_another_order():
    people, features = crowd(60), np.asarray(crowd(60).features)
    again = oar.Population(people.features, people.labels[::-1])
    assert themselves(people, people, alike=True)
    assert themselves(people, again)
    assert not themselves(people, again.contributing(np.ones(60), again.class_rows()), alike=True)
    assert not themselves(people, oar.Population(np.asarray(people.features)[::-1], people.labels))
    assert not themselves(people, oar.Population(features, people.labels))


def test_answers_are_best_responses():
    """A member's answer is the score's maximum over its ball, as cards find it."""
    people = crowd()
    asked = problem(ensemble((SOFTMAX,), None, 0), people=people)
    (signal,) = signals_at(asked, Contribution())
    answers = Answers.of(asked)
    moves = answers.to([signal], rounds=60)
    training = SOFTMAX.training(people)
    fit = training.fit(training.moved(None), training.start(), 1e-9)
    pull = training.goal(fit.parameters, asked.first_query, asked.goal_target)[1]
    given = training.in_given_units
    score = SOFTMAX.member_score(given(fit.parameters), given(training.solve(fit, pull, None, 1e-9)))
    targets = SOFTMAX.targets(people)
    who = People(np.asarray(people.features), targets, np.zeros((80, 2)), np.full(80, 0.4))
    best = best_responses(score, who, asked.allowance.norm, 0.0)
    reached, possible = (score(np.asarray(people.features) + each, targets)[0] for each in (moves, best))
    still = score(np.asarray(people.features), targets)[0]
    assert (reached - still >= 0.95 * (possible - still) - 1e-9).all()


@pytest.mark.parametrize("model", [SOFTMAX, Scaled(SOFTMAX), Scaled(LinearSVM(0.05)), Scaled(oar.models.MLP((3,)))])
def test_scores_heard_outside_are_those_of_the_training(model):
    people = crowd(40)
    asked = problem(ensemble((model,), None, 0), people=people)
    (signal,) = signals_at(asked, Contribution())
    training = asked.training()
    fit = training.fit(training.moved(None), training.start(), 1e-7)
    pull = training.goal(fit.parameters, asked.first_query, asked.goal_target)[1]
    slopes = training.score_gradients(fit.parameters, fit.features, training.solve(fit, pull, None, 1e-6))
    _, heard = signal(np.asarray(people.features), people.class_rows())
    np.testing.assert_allclose(heard, slopes, rtol=1e-4, atol=1e-6 * np.abs(slopes).max())


def test_from_the_second_turn_on_surrogates_are_bootstrapped():
    models = ensemble((SOFTMAX, Scaled(oar.models.MLP((3,)))), 5, seed=1)
    assert models.draws[:2] == (None, None)
    assert all(seed is not None for seed in models.draws[2:])
    assert [getattr(one, "model", one) for one in models.models[1::2]] == [
        oar.models.MLP((3,)),
        oar.models.MLP((3,), seed=1),
    ]
    assert ensemble((SOFTMAX,), 3, 1) == ensemble((SOFTMAX,), 3, 1) != ensemble((SOFTMAX,), 3, 2)


class TestWhatCannotRepresentTheGoal:
    def test_is_said_and_left_out_where_others_can(self):
        flat = SoftmaxRegression(1e4)  # so much penalty that it always predicts the largest class
        people = oar.Population(*_lopsided())
        asked = problem(oar.BlackBox(KNeighborsClassifier(5)), people=people, goal="rare")
        result = oar.collective(asked, solver=Surrogate(models=[flat, Scaled(SoftmaxRegression(1e-3))]))
        assert "never predicts 'rare'" in result.explanation
        assert "Planned for an ensemble of scaled softmax-regression," in result.explanation

    def test_is_said_where_there_is_no_other(self):
        people = oar.Population(*_lopsided())
        asked = problem(oar.BlackBox(KNeighborsClassifier(5)), people=people, goal="rare")
        result = oar.collective(asked, solver=Surrogate(models=SoftmaxRegression(1e4)))
        assert "it cannot represent the goal" in result.explanation
        assert "little is to be expected" in result.explanation

    def test_one_that_cannot_be_fitted_is_left_out(self):
        features = np.array([[0.0, 0], [0, 1], [5, 0], [5, 1]] * 5)
        people = oar.Population(features, np.where(features[:, 0] > 1, "yes", "no"))
        asked = problem(oar.BlackBox(KNeighborsClassifier(3)), people=people, query=(2, 0))
        alone = oar.collective(asked, solver=Surrogate(models=SoftmaxRegression(0.0)))
        assert "cannot be fitted" in alone.explanation
        assert "No surrogate could be fitted" in alone.explanation
        assert not moves_of(alone).any()
        both = oar.collective(asked, solver=Surrogate(models=[SoftmaxRegression(0.0), SOFTMAX]))
        assert moves_of(both).any()


def _lopsided():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 2))
    features[:6] += 2.5
    return features, np.where(np.arange(60) < 6, "rare", "usual")


def test_labels_are_distilled_by_one_training_and_one_question():
    log = []
    people = ring()
    asked = problem(oar.BlackBox(CountedTree(log), randomised=False), people=people, query=(1.2, 0.1), goal="in")
    found = oar.solvers.propose_collective(asked, Surrogate(distil=True))
    assert len(log) == 1
    assert found.calls.predictions == 1
    with pytest.raises(OptionError, match="distil: gives people other labels"):
        oar.collective(problem(oar.BlackBox(CountedTree([])), oar.Relabel(most=2)), solver=Surrogate(distil=True))


def test_credit_limits_are_kept_on_shares_of_a_table():
    loans = oar.datasets.german_credit()
    some = oar.Population.from_frame(loans.frame.iloc[:200], loans.target, schema=loans.schema)
    row = loans.frame.iloc[1].drop("credit").to_dict()
    for public in (1.0, 0.5):
        action = oar.Perturb(1.5, norm=1, limits=loans.limits)
        box = oar.BlackBox(make_pipeline(StandardScaler(), LogisticRegression()), sees="coordinates")
        asked = oar.Problem(some, box, oar.Query(row, goal="good"), action)
        result = oar.collective(asked, solver=Surrogate(public=public))
        assert not result.audit.violations
        assert result.audit.movers > 100
        assert result.loss < result.loss_before


def test_levers_are_planned_for_surrogates_too():
    asked = problem(oar.BlackBox(KNeighborsClassifier(5)), [oar.Relabel(most=4), oar.Withhold(most=3)])
    result = oar.collective(asked, solver=Surrogate(models=SOFTMAX))
    assert not result.audit.violations
    assert result.audit.relabelled == 4
    assert result.proposal.calls.fits == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"models": oar.NearestCentroid()}, "models: must be models"),
        ({"models": []}, "models: must be models"),
        ({"public": 0.0}, "public: must be a share"),
        ({"public": "all"}, "public: must be a share"),
        ({"number": 0}, "number: must be"),
        ({"distil": 1}, "distil"),
    ],
)
def test_bad_settings_are_refused(settings, words):
    with pytest.raises((DataError, OptionError), match=words):
        Surrogate(**settings)


def test_public_people_must_be_alike():
    box = oar.BlackBox(CountedTree([]))
    with pytest.raises(DataError, match="public: must have the people's features"):
        oar.collective(problem(box), solver=Surrogate(public=crowd(dimensions=3)))
    with pytest.raises(DataError, match="public: must have the people's classes"):
        oar.collective(problem(box), solver=Surrogate(public=ring()))
    with pytest.raises(DataError, match="models: must predict classes"):
        oar.collective(problem(box), solver=Surrogate(models=oar.models.Ridge()))

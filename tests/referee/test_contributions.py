"""The audit must catch a plan that lies about labels or leavers, and refit as others would."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from support.lever_problems import before_of, problem_of

import oar
from oar.models import GaussianNaiveBayes, SoftmaxRegression
from oar.plans import LeverPlan

MODELS = [oar.NearestCentroid(), SoftmaxRegression(0.1)]
SIZE = 12


def plan_of(problem, flips=(), away=(), moves=None, rows=None):
    targets = before_of(problem).targets.copy() if rows is None else rows
    for person in flips:
        targets[person] = np.roll(targets[person], 1)
    leaves = np.zeros(SIZE, dtype=bool)
    leaves[list(away)] = True
    moves = np.zeros((SIZE, 2)) if moves is None else moves
    return LeverPlan(problem, np.zeros(2), moves, targets=targets, away=leaves)


def refused(plan, *words):
    found = oar.audit(plan)
    assert not found.success
    for word in words:
        assert any(word in violation for violation in found.violations), found.violations
    return found


def test_offenders_are_called_by_the_index_of_their_table():
    features = pd.DataFrame({"x": [0.0, 0.2, 0.1, 2.0, 2.2, 2.1]}, index=[5, 4, 3, 2, 1, 0])
    people = oar.Population(features, pd.Series(["no"] * 3 + ["yes"] * 3, index=features.index))
    limits = {"most": 3, "participants": [False] * 6}
    action = [oar.Perturb(0.1), oar.Relabel(**limits), oar.Withhold(**limits)]
    asked = oar.Problem(people, oar.NearestCentroid(), oar.Query([0.9], "yes"), action)
    moves = pd.DataFrame({"x": [1.0]}, index=[3])
    found = oar.audit(asked, moves, labels={4: "yes"}, leavers=[5])
    assert [violation for violation in found.violations if violation.startswith("person")] == [
        "person 3 moves by 1, limit 0.1",
        "person 4 is relabelled without taking part",
        "person 5 leaves without taking part",
    ]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
class TestCheats:
    def problem(self, model, action):
        return problem_of(0, model, action, 2, SIZE)

    def test_an_honest_plan_passes(self, model):
        found = oar.audit(plan_of(self.problem(model, [oar.Relabel(most=2), oar.Withhold(most=2)]), [0, 3], [1, 2]))
        assert found.violations == ()
        assert (found.relabelled, found.leavers, found.movers) == (2, 2, 0)

    def test_too_many_flips(self, model):
        refused(plan_of(self.problem(model, oar.Relabel(most=2)), [0, 1, 2]), "3 labels are flipped, limit 2")

    def test_too_many_leavers(self, model):
        refused(plan_of(self.problem(model, oar.Withhold(most=1)), (), [0, 1]), "2 members leave, limit 1")

    def test_outsiders(self, model):
        mask = np.arange(SIZE) > 3
        asked = self.problem(model, [oar.Relabel(most=2, participants=mask), oar.Withhold(most=2, participants=mask)])
        refused(
            plan_of(asked, [0], [1]),
            "person 0 is relabelled without taking part",
            "person 1 leaves without taking part",
        )

    def test_levers_that_are_not_there(self, model):
        refused(plan_of(self.problem(model, oar.Withhold(most=2)), [0]), "person 0 is relabelled, and nobody may be")
        refused(plan_of(self.problem(model, oar.Relabel(most=2)), (), [0]), "person 0 leaves, and nobody may")

    def test_a_label_that_may_not_be_given(self, model):
        asked = self.problem(model, oar.Relabel(most=2, to=[1]))
        refused(plan_of(asked, [1]), "person 1 gets a label that may not be given")

    def test_a_label_that_does_not_exist(self, model):
        class Inventive(LeverPlan):
            def labels(self):
                return np.full(SIZE, 7)

        honest = plan_of(self.problem(model, oar.Relabel(most=SIZE)))
        refused(Inventive(**vars(honest)), "a label that does not exist is given")

    def test_labels_and_leavers_of_the_wrong_kind(self, model):
        class Sloppy(LeverPlan):
            def leavers(self):
                return np.zeros(3)

        honest = plan_of(self.problem(model, oar.Withhold(most=1)))
        refused(Sloppy(**vars(honest)), "leavers are not 12 times yes or no")
        rows = np.full((SIZE, 2), np.nan)
        refused(plan_of(self.problem(model, oar.Relabel(most=1)), rows=rows), "finite numbers")

    def test_a_label_between_classes_is_no_flip(self, model):
        rows = before_of(self.problem(model, oar.Relabel(most=1))).targets.copy()
        rows[0] = 0.5
        refused(plan_of(self.problem(model, oar.Relabel(most=1)), rows=rows), "flipped to a label between classes")

    def test_an_emptied_class(self, model):
        asked = self.problem(model, oar.Withhold(most=SIZE))
        found = refused(plan_of(asked, (), range(0, SIZE, 2)), "nobody is left in class 0")
        assert found.loss == found.loss_before
        refused(plan_of(asked, (), range(SIZE)), "nobody is left to train on")

    def test_moves_where_nobody_may_move(self, model):
        asked = self.problem(model, oar.Withhold(most=1))
        refused(plan_of(asked, moves=np.full((SIZE, 2), 0.1)), "person 0 moves by")


class TestSoftCheats:
    def rows(self, changes):
        rows = before_of(self.problem()).targets.copy()
        for person, row in changes.items():
            rows[person] = row
        return rows

    def problem(self, **options):
        return problem_of(0, SoftmaxRegression(0.1), oar.Relabel(soft=0.2, **options), 2, SIZE)

    def test_within_the_limit(self):
        assert oar.audit(plan_of(self.problem(), rows=self.rows({0: [0.8, 0.2]}))).violations == ()

    def test_too_far(self):
        plan = plan_of(self.problem(), rows=self.rows({0: [0.79, 0.21]}))
        refused(plan, "person 0 has its label moved by more than 0.2")

    def test_off_the_simplex(self):
        refused(plan_of(self.problem(), rows=self.rows({0: [1.1, -0.1]})), "shares are negative")
        refused(plan_of(self.problem(), rows=self.rows({0: [0.9, 0.2]})), "do not add up to 1")

    def test_outsiders_and_other_labels(self):
        mask = np.arange(SIZE) > 3
        refused(plan_of(self.problem(participants=mask), rows=self.rows({0: [0.9, 0.1]})), "without taking part")
        refused(plan_of(self.problem(to=[0]), rows=self.rows({0: [0.9, 0.1]})), "a label that may not be given")

    def test_targets_too_far(self):
        asked = problem_of(0, oar.models.Ridge(), oar.Relabel(soft=0.2), 2, SIZE)
        rows = before_of(asked).targets.copy()
        rows[3] += 0.2
        assert oar.audit(plan_of(asked, rows=rows)).violations == ()
        rows[3] += 0.01
        refused(plan_of(asked, rows=rows), "person 3 has its label moved by more than 0.2")


@pytest.mark.parametrize("action", [oar.Relabel(most=3), oar.Withhold(most=3), oar.Relabel(soft=0.3)], ids=repr)
def test_the_refit_is_what_scikit_learn_would_fit(action):
    """Changed labels and sample weights, given to scikit-learn by hand."""
    problem = problem_of(1, SoftmaxRegression(0.1), [oar.Perturb(0.1), action], 3, SIZE)
    result = oar.collective(problem)
    labels, moved = np.asarray(result.plan.labels()), problem.people.features + result.plan.moves()
    weights = np.where(result.plan.leavers(), 0.0, problem.people.weights)
    weights = weights / weights.sum()
    if labels.ndim == 2:
        moved, weights = np.repeat(moved, 3, axis=0), (weights[:, None] * labels).ravel()
        labels = np.tile(np.arange(3), SIZE)
    model = LogisticRegression(C=10.0, tol=1e-10, max_iter=10_000, solver="newton-cg").fit(moved, labels, weights)
    loss = -model.predict_log_proba(problem.query_features[None])[0, problem.goal]
    assert result.loss == pytest.approx(loss, abs=1e-7)
    assert result.loss < result.loss_before


def test_a_strike_is_what_scikit_learn_would_fit_without_them():
    problem = problem_of(1, oar.models.Ridge(0.1), oar.Withhold(most=3), 2, SIZE, weighted=False)
    result = oar.collective(problem)
    stay = ~result.plan.leavers()
    assert (~stay).sum() == 3
    model = Ridge(alpha=0.1 * stay.sum()).fit(problem.people.features[stay], problem.people.labels[stay])
    assert result.prediction == pytest.approx(float(model.predict(problem.query_features[None])[0]), abs=1e-9)


def test_bayes_without_the_leavers():
    problem = problem_of(2, GaussianNaiveBayes(0.0), [oar.Relabel(most=1), oar.Withhold(most=2)], 2, SIZE)
    result = oar.collective(problem)
    stay = ~result.plan.leavers()
    weights = problem.people.weights[stay]
    model = GaussianNB(var_smoothing=0.0).fit(problem.people.features[stay], result.plan.labels()[stay], weights)
    expected = -model.predict_log_proba(problem.query_features[None])[0, problem.goal]
    assert result.loss == pytest.approx(expected, rel=1e-7)

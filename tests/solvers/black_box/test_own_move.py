"""The query's own move against a black box: by questions alone, against brute force on a grid."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from support.black_boxes import CountedTree, crowd, problem

import oar
from oar.errors import OptionError
from oar.retraining.black_box import BlackBoxTraining
from oar.solvers import DirectSearch


def least_on_a_grid(asked, budget):
    asking = BlackBoxTraining(asked)
    box = asking.unmoved(0)
    steps = np.linspace(-budget, budget, 41)
    moves = np.array([(a, b) for a in steps for b in steps if a * a + b * b <= budget**2])
    said = box.says(asked.query_features + moves)
    return min(asked.wishes[0].loss(row) for row in said.outputs)


@pytest.mark.parametrize("seed", range(4))
def test_no_place_on_a_grid_is_better(seed):
    log = []
    asked = problem(oar.BlackBox(CountedTree(log, angle=0.4), randomised=False), oar.Perturb(0.6), crowd(seed=seed))
    result = oar.individual(asked)
    assert result.proposal.calls.fits == 1
    assert result.loss <= least_on_a_grid(asked, 0.6) + 1e-9
    assert np.linalg.norm(result.plan.query_move) <= 0.6 * (1 + 1e-9)
    assert not result.audit.violations
    assert not np.asarray(result.plan.moves()).any()


def test_a_convex_case_ends_where_the_white_box_does():
    people = crowd()
    outside = oar.BlackBox(LogisticRegression(C=1 / (80 * 0.05), tol=1e-12, max_iter=1_000))
    found = oar.individual(problem(outside, oar.Perturb(0.5), people))
    known = oar.individual(problem(oar.SoftmaxRegression(0.05), oar.Perturb(0.5), people))
    assert known.exact
    assert found.loss == pytest.approx(known.loss, abs=1e-4)


def test_random_training_is_averaged_over_a_few():
    box = oar.BlackBox(RandomForestClassifier(5), randomised=True, refits=4)
    result = oar.individual(problem(box, oar.Perturb(0.6)))
    assert result.proposal.calls.fits == 5
    assert result.proposal.estimated
    assert result.loss < result.loss_before


class Labels:
    def fit(self, rows, labels):
        self._inner = KNeighborsClassifier(5).fit(rows, labels)
        return self

    def predict(self, rows):
        return self._inner.predict(rows)


def test_labels_alone_will_do():
    result = oar.individual(problem(oar.BlackBox(Labels()), oar.Perturb(0.9)))
    assert result.success
    assert "label distance" in result.explanation


def test_whole_moves_within_credit_limits():
    loans = oar.datasets.german_credit()
    row = loans.frame[loans.frame["credit"] == "bad"].iloc[2].drop("credit").to_dict()
    some = oar.Population.from_frame(loans.frame.iloc[:300], loans.target, schema=loans.schema)
    box = oar.BlackBox(RandomForestClassifier(10, random_state=0), randomised=False)
    asked = oar.Problem(
        some, box, oar.Query(row, goal="good", budget=2.0), oar.Perturb(2.0, norm=1, limits=loans.limits)
    )
    result = oar.individual(asked)
    assert not result.audit.violations
    assert result.plan.query_move.any()
    assert result.loss < result.loss_before


def test_only_the_seed_is_a_setting():
    box = oar.BlackBox(CountedTree([]), randomised=False)
    assert oar.individual(problem(box), solver=DirectSearch(seed=3)).loss >= 0
    with pytest.raises(OptionError, match=r"only DirectSearch\(seed=…\) does anything"):
        oar.individual(problem(box), solver=DirectSearch(refits=5))
    with pytest.raises(OptionError, match="does not apply here"):
        oar.individual(problem(box), solver="surrogate")


@pytest.mark.parametrize(("budget", "reached"), [(0.3, False), (1.0, False), (2.5, True)])
def test_labels_alone_are_asked_for_a_generation_at_a_time(budget, reached):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(50, 2))
    people = oar.Population(features, (features.sum(axis=1) > 0).astype(int))
    box, query = oar.BlackBox(SVC(), randomised=False), oar.Query([-0.8, -0.6], goal=1)
    result = oar.individual(oar.Problem(people, box, query, oar.Perturb(budget)))
    calls = result.proposal.calls
    assert calls.predictions <= 80
    assert calls.rows <= 60_000
    assert result.success == reached
    assert result.proposal.claimed_loss == pytest.approx(result.loss)
    assert result.loss < result.loss_before - 0.8 * min(budget, 1.1)  # about as much as it moves

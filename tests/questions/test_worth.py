"""A defence's worth: leverage and accuracy before and after, against refits by hand."""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

import oar
from oar import defences


@pytest.fixture(scope="module")
def halves():
    data = oar.datasets.iris()
    order = np.random.default_rng(0).permutation(150)
    features, labels = np.asarray(data.features)[order], np.asarray(data.labels)[order]
    return oar.Population(features[:90], labels[:90]), oar.Population(features[90:], labels[90:])


def problem_of(people, model):
    return oar.Problem(people, model, oar.Query(people.features[people.labels == 0].mean(axis=0), 1), oar.Perturb(2.0))


def test_trimmed_centroids_against_means_by_hand(halves):
    people, others = halves
    problem = problem_of(people, oar.NearestCentroid())
    plan = oar.collective(problem)
    found = oar.questions.worth(problem, defences.TrimmedCentroids(0.1), held_out=others, plan=plan)

    def accuracy(means):
        distances = np.linalg.norm(others.features[:, None] - means, axis=2)
        return float((distances.argmin(axis=1) == others.labels).mean())

    own = [people.features[people.labels == code] for code in range(3)]
    assert found.score_before == pytest.approx(accuracy(np.array([rows.mean(axis=0) for rows in own])))
    assert found.score_after == pytest.approx(accuracy(np.array([stats.trim_mean(rows, 0.1) for rows in own])))
    assert found.before.total == oar.questions.leverage(problem).total
    assert found.after.total == oar.questions.leverage(problem, defences.TrimmedCentroids(0.1)).total
    assert found.plan_before.loss == pytest.approx(plan.loss)
    assert found.plan_before.success == plan.success
    moved = people.features + plan.plan.moves()
    means = np.array([stats.trim_mean(moved[people.labels == code], 0.1) for code in range(3)])
    distances = np.linalg.norm(means - problem.query_features, axis=1)
    assert found.plan_after.loss == pytest.approx(distances[1] + np.log(np.exp(-distances).sum()))
    assert found.plan_after.success == bool(distances.argmin() == 1)
    assert "accuracy" in str(found)
    assert "60 held-out people" in str(found)
    assert "goal reached by the plan" in found.table().index
    assert repr(found).startswith("Worth(TrimmedCentroids(share=0.1): leverage ")


def test_a_stronger_penalty_lowers_leverage_and_is_scikit_learns(halves):
    pytest.importorskip("jax")
    people, others = halves
    problem = problem_of(people, oar.SoftmaxRegression(l2=0.01))
    found = oar.questions.worth(problem, defences.StrongerPenalty(20), held_out=others)
    for score, l2 in ((found.score_before, 0.01), (found.score_after, 0.2)):
        fitted = LogisticRegression(C=1 / (90 * l2), tol=1e-10, max_iter=10_000).fit(people.features, people.labels)
        assert score == pytest.approx(fitted.score(others.features, others.labels))
    assert found.after.total < found.before.total
    assert found.plan_after is None


def test_without_held_out_people_people_are_cross_validated(halves):
    people, _ = halves
    problem = problem_of(people, oar.NearestCentroid())
    found = oar.questions.worth(problem, [defences.DistanceFilter(share=0.1), defences.ClippedInfluence(2.0)], folds=90)
    right = 0
    for out in range(90):  # leaving one out is the same whatever the seed
        rest = people.some(np.delete(np.arange(90), out))
        centroids = oar.NearestCentroid().fit(rest)
        right += int(oar.NearestCentroid().predict(centroids, people.features[out]) == people.labels[out])
    assert found.score_before == pytest.approx(right / 90)
    assert "90 folds" in str(found)


def test_folds_that_fit_the_time_are_scored(halves):
    people, _ = halves
    problem = problem_of(people, oar.NearestCentroid())
    found = oar.questions.worth(problem, defences.ClippedInfluence(2.0), folds=3, time_limit=0.0)
    assert found.scored == "1 of 3 folds"
    whole = oar.questions.worth(problem, defences.ClippedInfluence(2.0), folds=3, time_limit=600.0)
    assert whole.scored == "3 folds"
    assert whole.score_before == oar.questions.worth(problem, defences.ClippedInfluence(2.0), folds=3).score_before


def test_values_are_scored_by_their_squared_error():
    pytest.importorskip("jax")
    rng = np.random.default_rng(0)
    people = oar.Population(rng.normal(size=(20, 2)), rng.normal(size=20))
    problem = oar.Problem(people, oar.models.Ridge(0.1), oar.Query([0.1, 0.2], 1.0, within=0.1), oar.Perturb(1.0))
    found = oar.questions.worth(problem, defences.StrongerPenalty(1e9), held_out=people)
    assert found.score == "mean squared error"
    assert found.score_after == pytest.approx(np.var(people.labels), rel=1e-6)  # all that is left is the mean


def test_bad_input(halves):
    problem = problem_of(halves[0], oar.NearestCentroid())
    trimmed = defences.TrimmedCentroids(0.1)
    for arguments, words in (
        ((None, trimmed), "problem: must be"),
        ((problem, None), "defence: must be"),
        ((problem, trimmed, 3), "held_out: must be"),
        ((problem, trimmed, halves[1], 3), "plan: must be"),
        ((problem, trimmed, halves[1], None, 3), "folds: are for"),
        ((problem, trimmed, None, None, 1), "folds: must be"),
    ):
        with pytest.raises(oar.errors.OARError, match=words):
            oar.questions.worth(*arguments)

"""Slopes by trainings of a black box are, within their intervals, those of the same model when it is differentiated."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import oar

SIZE = 45


def problem_of(model, action=None):
    rng = np.random.default_rng(2)
    codes = np.arange(SIZE) % 3
    features = 2 * rng.normal(size=(3, 2))[codes] + rng.normal(size=(SIZE, 2))
    return oar.Problem(
        oar.Population(features, codes), model, oar.Query(features[0] + 0.2, 2), action or oar.Perturb(0.05)
    )


def logistic():
    return LogisticRegression(C=0.5, tol=1e-10, max_iter=2_000)


def test_slopes_of_classes_are_the_means_of_their_members():
    mask = np.arange(SIZE) < 40
    action = oar.Perturb(0.02, participants=mask)
    box = oar.BlackBox(logistic(), randomised=False)
    found = oar.questions.leverage(problem_of(box, action), trainings=60)
    assert box.calls.fits <= 60
    true = oar.questions.leverage(problem_of(logistic(), action))
    codes = np.arange(SIZE) % 3
    for code in range(3):
        mine = mask & (codes == code)
        mean = true.slopes[mine].mean(axis=0)
        np.testing.assert_allclose(found.slopes[mine], np.tile(mean, (mine.sum(), 1)), rtol=0.02, atol=1e-4)
        assert found.classes[code] <= true.classes[code] * 1.02
    assert (found.slopes[~mask] == 0).all()
    assert found.loss == pytest.approx(true.loss, rel=1e-4)
    assert found.margins.shape == (3, 2)
    table = found.table("feature")
    assert (table["margin"] < 0.2 * table["leverage"]).all()
    assert (found.table("class")["margin"] >= 0).all()
    assert "true trainings" in str(found)


def test_of_a_table_it_is_by_cost_and_in_the_allowed_direction():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(40, 10, 20), "income": rng.normal(50, 9, 20), "y": ["no", "yes"] * 10})
    frame["income"] += 9.0 * (frame["y"] == "yes")
    people, query = oar.Population.from_frame(frame, "y"), oar.Query(frame.drop(columns="y").iloc[0], "yes")
    action = oar.Perturb(0.05, limits=oar.Limits({"age": oar.Limit(direction="up")}))
    pipeline = oar.BlackBox(LogisticRegression(C=0.1, max_iter=5_000, tol=1e-10), randomised=False)
    found = oar.questions.leverage(oar.Problem(people, pipeline, query, action), trainings=40)
    true = oar.questions.leverage(
        oar.Problem(people, LogisticRegression(C=0.1, max_iter=5_000, tol=1e-10), query, action)
    )
    for code in range(2):
        mine = people.codes(0, 20) == code
        income = list(people.names).index("income")
        assert found.slopes[mine, income] == pytest.approx(true.slopes[mine, income].mean(), rel=0.05)
    assert (found.slopes[:, list(people.names).index("age")] <= 0).all()


def test_of_random_training_intervals_hold_what_many_trainings_say():
    forest = oar.BlackBox(RandomForestClassifier(n_estimators=5, max_depth=2))
    problem = problem_of(forest, oar.Perturb(0.8))
    few, many = (oar.questions.leverage(problem, trainings=number, seed=3) for number in (60, 400))
    first = [np.flatnonzero(np.arange(SIZE) % 3 == code)[0] for code in range(3)]
    apart = np.abs(few.slopes[first] - many.slopes[first])
    assert (apart <= few.margins + many.margins).all()
    assert many.margins.mean() < few.margins.mean()


def test_labels_and_leaving_of_a_class_are_means_over_random_members():
    action = [oar.Relabel(most=4), oar.Withhold(most=4)]
    box = oar.BlackBox(logistic(), randomised=False)
    found = oar.questions.leverage(problem_of(box, action), trainings=150)
    assert box.calls.fits <= 150
    true = oar.questions.leverage(problem_of(logistic(), action))
    codes = np.arange(SIZE) % 3
    for code in range(3):
        mine = codes == code
        np.testing.assert_allclose(
            found.labels[mine][0], true.labels[mine].mean(axis=0), rtol=0.35, atol=2 * found.label_margins[code].max()
        )
        assert abs(found.leaving[mine][0] - true.leaving[mine].mean()) <= 2 * found.label_margins[code, -1] + 1e-3
    assert (found.slopes == 0).all()
    assert np.isfinite(found.label_margins).all()


def test_what_is_not_known_in_time_is_nan_and_bad_numbers_are_refused():
    problem = problem_of(oar.BlackBox(logistic(), randomised=False))
    late = oar.questions.leverage(problem, time_limit=0)
    assert problem.model.calls.fits == 0
    assert np.isnan(late.slopes).all()
    assert np.isnan(late.total)
    assert np.isnan(late.loss)
    assert "The time was over" in late.note
    one = oar.questions.leverage(problem, trainings=1)
    assert np.isnan(one.margins).all()
    with pytest.raises(oar.errors.DataError, match="trainings: must be a whole number"):
        oar.questions.leverage(problem, trainings=0)
    with pytest.raises(oar.errors.OptionError, match="trainings: is for an oar.BlackBox"):
        oar.questions.leverage(problem_of(logistic()), trainings=5)
    with pytest.raises(oar.errors.OptionError, match="defence: must be none for a black box"):
        oar.questions.leverage(problem, oar.defences.DistanceFilter(share=0.1))
    broken = replace(problem, model=oar.BlackBox(fails, randomised=False))
    assert np.isnan(oar.questions.leverage(broken, trainings=4).slopes).all()


def fails(features, labels):
    raise ValueError("no")

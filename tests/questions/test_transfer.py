"""The report of transfer: predicted against true, plan by plan, each audited by the black box's own training."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from support.black_boxes import CountedTree, crowd, problem

import oar
from oar.errors import DataError, OptionError
from oar.questions import transfer
from oar.solvers import Surrogate

FAMILIES = {"softmax": oar.SoftmaxRegression(0.05), "svm": oar.models.LinearSVM(0.05)}


@pytest.fixture(scope="module")
def shifted():
    others = crowd(40, seed=7)
    return oar.Population(np.asarray(others.features) + 0.4, others.labels)


@pytest.fixture(scope="module")
def found(shifted):
    log = []
    asked = problem(oar.BlackBox(CountedTree(log), randomised=False), oar.Perturb(1.0))
    report = transfer(asked, FAMILIES, numbers=(1, 2), public=(0.3, 1.0, ("shifted", shifted)), seeds=(0, 1))
    return asked, report, log


def test_every_family_number_and_amount_has_its_plans(found):
    _, report, log = found
    table = report.table()
    assert len(table) == 2 * 2 * 3 * 2
    assert set(table["public"]) == {"30%", "100%", "shifted"}
    assert set(table["people"]) == {24, 80, 40}
    assert report.trainings == len(log) == table["trainings"].sum()
    assert np.isfinite(table[["predicted_loss", "loss"]]).all().all()


def test_each_row_is_what_the_plan_itself_gives(found):
    asked, report, _ = found
    row = next(one for one in report.rows if (one.family, one.number, one.public, one.seed) == ("svm", 2, "30%", 1))
    settings = Surrogate(models=[FAMILIES["svm"]], public=0.3, number=2, seed=1)
    again = oar.collective(asked, solver=settings)
    assert (row.loss, row.success, row.loss_before) == (again.loss, again.success, again.loss_before)
    assert row.predicted_loss == again.proposal.claimed_loss


def test_plans_that_fit_the_time_are_made():
    asked = problem(oar.BlackBox(CountedTree([]), randomised=False), oar.Perturb(1.0))
    report = transfer(asked, FAMILIES, numbers=(1, 2), public=1.0, time_limit=0.0)
    assert (len(report.rows), report.left_out) == (1, 3)
    assert str(report).endswith("the time was over before 3 more plans")
    assert transfer(asked, FAMILIES, numbers=1, public=1.0, effort="quick", time_limit=600.0).left_out == 0


def test_a_surrogate_that_is_the_black_box_predicts_the_truth():
    people = crowd()
    outside = LogisticRegression(C=1 / (80 * 0.05), tol=1e-12, max_iter=1_000)
    asked = problem(oar.BlackBox(outside), oar.Perturb(0.5), people)
    report = transfer(asked, {"itself": oar.SoftmaxRegression(0.05)}, numbers=(1,), public=(1.0,))
    (row,) = report.rows
    assert row.predicted_loss == pytest.approx(row.loss, abs=1e-6)
    assert row.predicted_success == row.success
    assert row.loss < row.loss_before


def test_random_training_has_rates():
    asked = problem(oar.BlackBox(RandomForestClassifier(5), refits=4), oar.Perturb(1.0))
    report = transfer(asked, FAMILIES["softmax"], numbers=(1,), public=(1.0,))
    (row,) = report.rows
    assert row.rate in {0.0, 0.25, 0.5, 0.75, 1.0}
    assert row.trainings == 8 + 3  # and three to find out that it is random


def test_it_shows_itself(found):
    _, report, _ = found
    assert "true loss" in str(report)
    assert str(report.trainings) in str(report)
    assert repr(report).startswith("Transfer(24 plans by surrogates")
    assert report._repr_html_().startswith("<pre")
    left, right = report.plot().axes
    assert left.get_xlabel() == "predicted by the surrogates"
    assert [label.get_text() for label in right.get_xticklabels()] == ["30%", "100%", "shifted"]
    assert len(report.summary()) == 12


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"numbers": (0,)}, "number: must be a whole number"),
        ({"numbers": ()}, "must each hold something"),
        ({"public": (1.5,)}, "public: must be shares"),
        ({"families": ["softmax"]}, "models: must be models"),
        ({"seeds": (-1,)}, "seed"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_trained(settings, words):
    log = []
    with pytest.raises((DataError, OptionError), match=words):
        transfer(problem(oar.BlackBox(CountedTree(log))), **settings)
    assert not log


def test_models_that_are_known_are_refused():
    with pytest.raises(DataError, match="BlackBox"):
        transfer(problem(oar.SoftmaxRegression()))


def test_nothing_that_was_asked_for_is_merged_or_dropped(shifted):
    asked = problem(oar.BlackBox(CountedTree([]), randomised=False), oar.Perturb(0.5), crowd(60))
    weak, strong = oar.SoftmaxRegression(10.0), oar.SoftmaxRegression(0.05)
    report = transfer(asked, [weak, strong], numbers=1, public=(shifted, crowd(50, seed=8), 0.01, 0.014), seeds=3)
    assert len(report.rows) == len(report.summary()) == 8
    assert {row.family for row in report.rows} == {repr(weak), repr(strong)}
    assert [(row.public, row.people) for row in report.rows[:4]] == [
        ("others 1", 40),
        ("others 2", 50),
        ("1%", 2),  # somebody of each class
        ("1.4%", 2),
    ]
    assert len({row.loss for row in report.rows[::4]}) == 2  # each family had its own plan
    assert str(report).count("others 2") == 2


def test_those_who_count_are_counted_where_all_others_stay():
    """That others weigh nothing is between us and the surrogates: the black box takes no weights."""
    asked = problem(
        oar.BlackBox(CountedTree([]), randomised=False), oar.Perturb(0.5, participants=oar.Best(4)), crowd(60)
    )
    (row,) = transfer(asked, [oar.SoftmaxRegression(0.05)], numbers=1, public=0.5, seeds=0).rows
    assert row.people == pytest.approx(30, abs=1)


@pytest.mark.parametrize("alone", [("name", crowd(30)), crowd(30)])
def test_public_data_may_be_single(alone):
    asked = problem(oar.BlackBox(CountedTree([]), randomised=False), oar.Perturb(0.5))
    (row,) = transfer(asked, oar.SoftmaxRegression(0.05), numbers=1, public=alone, seeds=0).rows
    assert row.people == 30


@pytest.mark.parametrize("argument", ["numbers", "public", "seeds"])
@pytest.mark.parametrize("wrong", [None, "all"])
def test_what_is_no_list_is_refused_kindly(argument, wrong):
    with pytest.raises(DataError, match=f"{argument}: must be one or several in a list, got"):
        transfer(problem(oar.BlackBox(CountedTree([]))), FAMILIES, **{argument: wrong})

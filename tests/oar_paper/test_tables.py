"""Accuracies, questions and pictures."""

import numpy as np
import pytest
import sklearn.neighbors
from support.figure_looks import assert_no_text_covers_another, assert_nothing_is_cut_off

import oar
from oar_paper.accuracy import accuracy_table, measure
from oar_paper.answers import answers
from oar_paper.case import iris_case, mnist_case
from oar_paper.embedding.strip import picture_strip
from oar_paper.embedding.strip_drawing import draw_picture_strip
from oar_paper.figure2.shares import study_budget


@pytest.fixture(scope="module")
def mnist():
    return mnist_case()


@pytest.fixture(scope="module")
def strip(mnist):
    return picture_strip(mnist, seed=0)


def test_accuracies(mnist):
    table = accuracy_table(oar.datasets.iris(), mnist.dataset)
    raw, petals, standardised, digits = table.rows
    assert [round(row.accuracy, 4) for row in (raw, petals, standardised)] == [0.9267, 0.96, 0.8533]
    assert digits.accuracy == pytest.approx(table.mnist_recorded["train"], abs=1e-12)
    assert 0.8 < digits.accuracy < 0.95
    assert [row.paper for row in table.rows] == [0.96, 0.96, 0.96, 0.83]
    assert [row.as_in_the_paper for row in table.rows] == [True, False, False, True]
    for row in table.rows:
        assert row.centroid_difference < 1e-12
        assert row.different_labels == 0


def test_a_witness_that_disagrees_is_reported(monkeypatch):
    class Crooked(sklearn.neighbors.NearestCentroid):
        def fit(self, features, labels):
            super().fit(features + 1.0, labels)
            return self

    monkeypatch.setattr(sklearn.neighbors, "NearestCentroid", Crooked)
    flowers = oar.datasets.iris()
    row = measure("Iris", flowers.features, flowers.labels, 0.96)
    assert row.centroid_difference == pytest.approx(1.0)
    assert row.different_labels > 10


def test_answers_on_iris():
    case = iris_case()
    found = answers(case)
    budget = study_budget(case)
    assert found.minimal_budget == pytest.approx(0.80207, abs=1e-5)
    assert found.budget == budget
    assert found.coalition == sum(found.coalition_by_class.values())
    assert set(found.coalition_by_class) == set(case.dataset.class_names)
    assert 0.99 < found.break_even < 1.0
    assert found.accuracy_before == pytest.approx(139 / 150)
    # What the moves do to the others, from scratch.
    moved = case.dataset.features + oar.collective(case.problem(budget)).plan.moves()
    means = np.array([moved[case.dataset.labels == code].mean(axis=0) for code in range(3)])
    nearest = np.linalg.norm(case.dataset.features[:, None] - means, axis=2).argmin(axis=1)
    assert found.accuracy_after == pytest.approx(np.mean(nearest == case.dataset.labels))


def test_the_strip_shows_members_of_every_digit(strip, mnist):
    assert set(strip.digits) == set(range(10))
    np.testing.assert_array_equal(strip.digits, mnist.dataset.labels[strip.members])
    assert strip.roles.count("goal") == strip.roles.count("source") == 2
    assert {digit for digit, role in zip(strip.digits, strip.roles, strict=True) if role == "goal"} == {1}
    np.testing.assert_allclose(strip.move_lengths, strip.budget)
    assert strip.before.shape == strip.after.shape == (12, 28, 28)
    assert min(strip.before.min(), strip.after.min()) >= 0
    assert max(strip.before.max(), strip.after.max()) <= 1
    assert (strip.mean_change > 0.005).all()


def test_the_strips_query_changes_its_prediction_without_moving(strip):
    assert (strip.prediction_before, strip.prediction, strip.success) == (2, 1, True)
    assert strip.probabilities_before.argmax() == 2
    assert strip.probabilities_after.argmax() == 1
    assert strip.probabilities_after.sum() == pytest.approx(1.0)
    assert -np.log(strip.probabilities_before[1]) == pytest.approx(strip.loss_before)
    assert -np.log(strip.probabilities_after[1]) == pytest.approx(strip.loss)


def test_the_strip_depends_on_the_seed_alone(strip, mnist):
    assert (picture_strip(mnist, seed=0).before == strip.before).all()
    assert (picture_strip(mnist, seed=1).members != strip.members).any()


def test_the_strip_is_whole_and_readable(strip, mnist):
    figure = draw_picture_strip(strip, mnist.dataset.class_names)
    assert len(figure.axes) == 2 + 3 * 12 + 1
    assert_nothing_is_cut_off(figure)
    assert_no_text_covers_another(figure)

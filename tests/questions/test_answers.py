"""Answers show themselves in a notebook, escaped."""

import numpy as np
import pytest

import oar


@pytest.fixture(scope="module")
def result():
    draw = np.random.default_rng(0)
    labels = np.repeat(["<b>no</b>", "yes"], 20)
    people = oar.Population(draw.normal(size=(40, 2)) + (labels == "yes")[:, None], labels)
    return oar.collective(oar.Problem(people, oar.NearestCentroid(), oar.Query([0.3, 0.2], "yes"), oar.Perturb(0.6)))


def test_everything_that_is_answered_shows_itself(result):
    shown = [
        result,
        result.audit,
        result.plan.robustness(defection=0.1, draws=3),
        oar.questions.credit(result),
        oar.questions.collateral(result, groups=result.problem.people.labels),
        oar.questions.power(result),
        oar.questions.alternatives(result.problem, n=2),
        oar.minimal_budget(result.problem),
        oar.minimal_coalition(result.problem),
        oar.break_even(result.problem),
    ]
    for one in shown:
        html = one._repr_html_()
        assert html.startswith("<")
        assert "<b>" not in html
        assert len(str(one)) > 20


def test_an_answer_reads_as_its_explanation(result):
    answer = oar.minimal_budget(result.problem)
    assert str(answer) == answer.explanation


def test_a_power_curve_ticks_what_succeeds(result):
    curve = oar.questions.power(result)
    assert str(curve).count("✓") == curve.success.sum()
    assert str(curve).count("✗") == (~curve.success).sum()

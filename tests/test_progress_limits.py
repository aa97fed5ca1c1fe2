"""Limits of time: what was found when it is over is audited, says so, and no number of steps ends a search before."""

import time

import numpy as np
import pytest

import oar
from oar.errors import DataError
from oar.models import LinearSVM, SoftmaxRegression
from oar.plans.result import Status
from oar.progress import deadline, is_late, limited_time
from oar.solvers import ProjectedGradient

RNG = np.random.default_rng(8)
CODES = np.arange(30) % 2
FEATURES = RNG.normal(size=(30, 2)) + 2.0 * CODES[:, None]
QUESTIONS = (oar.minimal_budget, oar.minimal_coalition, oar.break_even)


def problem(model=None, budget=0.3, **action):
    query = oar.Query(FEATURES[CODES == 0].mean(axis=0) + 0.8, 1)
    return oar.Problem(
        oar.Population(FEATURES, CODES), model or SoftmaxRegression(1e-2), query, oar.Perturb(budget, **action)
    )


def test_an_earlier_end_that_is_set_stays():
    assert deadline() == np.inf
    with limited_time(100.0):
        first = deadline()
        with limited_time(200.0):
            assert deadline() == first
        with limited_time(0.0):
            time.sleep(1e-3)
            assert is_late()
        assert not is_late()
        assert deadline(1.0) < first
    assert deadline() == np.inf


@pytest.mark.parametrize("limit", [-1.0, "1", True, float("nan")])
def test_what_is_no_number_of_seconds_is_refused(limit):
    for verb in (oar.individual, oar.collective, oar.joint, *QUESTIONS):
        with pytest.raises(DataError, match="time_limit"):
            verb(problem(), time_limit=limit)


@pytest.mark.parametrize("model", [SoftmaxRegression(1e-2), LinearSVM(1e-2), oar.NearestCentroid()])
def test_no_time_at_all_still_gives_audited_answers(model):
    asked = problem(model)
    for verb in (oar.individual, oar.collective, oar.joint):
        result = verb(asked, time_limit=0)
        assert result.audit.success == oar.audit(result.plan).success
        assert result.loss <= result.loss_before + 1e-12


def test_a_plan_that_had_no_time_says_so():
    result = oar.collective(problem(), time_limit=0)
    assert result.status is not Status.ACHIEVED or not result.proposal.finished
    assert "time limit was over" in result.explanation


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_that_had_no_time_prove_nothing_more_and_say_so(question):
    hard = problem(budget=0.02)
    found = question(hard, time_limit=0)
    assert found.status in (Status.NOT_FOUND, Status.ACHIEVED)
    assert "time was over" in found.explanation
    whole = question(hard)
    assert "time was over" not in whole.explanation


def test_time_ends_a_search_and_not_the_number_of_its_steps():
    asked = problem(budget=3.0, norm=1)
    few = oar.collective(asked, solver=ProjectedGradient(max_steps=2, restarts=0))
    assert few.proposal.steps <= 4
    timed = oar.solvers.EFFORTS["normal"].loop({"max_steps": 2, "tolerance": 1e-6, "restarts": 0}, timed=True)
    assert timed["max_steps"] > 10**6
    assert oar.collective(asked, time_limit=60.0).loss <= few.loss * (1 + 1e-9)


def test_a_budget_found_in_time_suffices_by_an_audit_of_its_own():
    found = oar.minimal_budget(problem(), time_limit=30.0)
    assert found.result.success
    assert oar.audit(found.result.plan).success
    assert found.at_least <= found.value


@pytest.mark.parametrize("question", QUESTIONS)
def test_effort_is_heard_by_questions(question):
    with pytest.raises(oar.errors.OptionError, match="effort"):
        question(problem(), effort="hard")
    quick, thorough = question(problem(), effort="quick"), question(problem(), effort="thorough")
    names = {oar.minimal_budget: "value", oar.minimal_coalition: "size", oar.break_even: "share"}
    least, most = getattr(thorough, names[question]), getattr(quick, names[question])
    assert least <= most * (1 + 1e-9)


def test_default_effort_finds_budgets_and_coalitions_near_those_of_thorough_effort():
    for seed in range(2):
        random = np.random.default_rng(seed)
        codes = np.arange(16) % 2
        features = random.normal(size=(16, 2)) + 1.5 * codes[:, None]
        people = oar.Population(features, codes)
        asked = oar.Problem(
            people, SoftmaxRegression(3e-2), oar.Query(features[codes == 0].mean(axis=0), 1), oar.Perturb(1)
        )
        usual, long = (oar.minimal_budget(asked, effort=effort).value for effort in ("normal", "thorough"))
        assert usual <= 1.05 * long
        larger = asked.with_action(budget=3 * long)
        usual, long = (oar.minimal_coalition(larger, effort=effort).size for effort in ("normal", "thorough"))
        assert usual <= long + 2

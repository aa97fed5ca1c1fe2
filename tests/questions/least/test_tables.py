"""The three questions on tables: answers are audited, keep every limit, and what is proved is below what is found."""

import numpy as np
import pytest
from hypothesis import given, settings
from support.question_problems import small_table
from support.random_tables import worlds as tables

import oar


@pytest.mark.parametrize("model", [oar.SoftmaxRegression(0.1), oar.NearestCentroid()])
def test_on_a_table_all_three_are_found_and_audited(model):
    problem = small_table(model=model)
    budget, coalition, share = oar.minimal_budget(problem), oar.minimal_coalition(problem), oar.break_even(problem)
    assert budget.result.success
    assert not budget.result.audit.violations
    assert budget.at_least <= budget.value
    assert coalition.result.success
    assert coalition.at_least <= coalition.size
    assert share.result.loss < share.individual.loss
    assert 0 < share.share <= 1
    assert isinstance(coalition.members.sum(), int | np.integer)  # a Series


@given(tables(most_rows=10, columns=2))
@settings(max_examples=4)
def test_on_random_tables_nothing_breaks_a_limit_or_what_is_proved(world):
    problem = world.problem(oar.SoftmaxRegression(l2=0.5), budget=1.0)
    answer = oar.minimal_budget(problem, tolerance=0.2)
    assert answer.status in (
        oar.results.Status.ACHIEVED,
        oar.results.Status.ALREADY,
        oar.results.Status.IMPOSSIBLE,
        oar.results.Status.NOT_FOUND,
    )
    if answer.status is oar.results.Status.ACHIEVED:
        world.budget = answer.value
        assert world.broken(answer.result) == []
        assert answer.at_least <= answer.value
    if answer.status is oar.results.Status.IMPOSSIBLE:
        assert not oar.collective(problem.with_action(budget=1e3)).success

"""What whole steps leave of a budget is not spent on changes that are too small to ask of anybody."""

import numpy as np
import pandas as pd
import pytest

import oar
from oar.models import Scaled, SoftmaxRegression


def table(budget, norm, size=120, seed=3):
    """Return a problem in which a late payment fewer costs almost a whole budget, and a ratio takes what is left."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"late": rng.integers(0, 6, size), "ratio": rng.gamma(2.0, 0.3, size)})
    score = -frame["late"] - frame["ratio"] + rng.normal(0, 1.0, size)
    people = oar.Population.from_frame(frame.assign(paid=np.where(score > -3, "yes", "no")), "paid")
    limits = oar.Limits(
        {"late": oar.Limit(unit=1, lower=0, step=1), "ratio": oar.Limit(unit=1, lower=0)},
    )
    query = oar.Query({"late": 5, "ratio": 1.2}, "yes")
    return frame, oar.Problem(people, Scaled(SoftmaxRegression()), query, oar.Perturb(budget, norm=norm, limits=limits))


@pytest.mark.parametrize(("budget", "norm"), [(1.004, 1), (1.00001, 2)])
def test_neither_plan_nor_card_asks_for_trifles(budget, norm):
    frame, problem = table(budget, norm)
    plan = oar.collective(problem).plan
    moves = plan.moves(frame, problem.people.labels)
    assert (np.abs(moves["late"]) >= 1).sum() > 20  # many take the whole step, and 0.004 of the budget is left
    ratios = np.abs(moves["ratio"])
    assert not ((ratios > 0) & (ratios < 0.01 * budget)).any()
    card = plan.card()
    asked = [card.respond(frame.iloc[place], problem.people.labels[place]) for place in range(len(frame))]
    changes = np.array([answer.after["ratio"] - frame["ratio"][place] for place, answer in enumerate(asked)])
    assert any(answer.after["late"] != frame["late"][place] for place, answer in enumerate(asked))
    assert not ((np.abs(changes) > 0) & (np.abs(changes) < 0.01 * budget)).any()


def test_small_changes_stay_where_a_link_needs_them():
    frame, problem = table(1.004, 1)
    action = problem.action
    linked = oar.Limits(action.limits.columns, links=["ratio <= 100 + late"])
    problem = oar.Problem(problem.people, problem.model, problem.query, oar.Perturb(1.004, norm=1, limits=linked))
    ratios = np.abs(oar.collective(problem).plan.moves(frame, problem.people.labels)["ratio"])
    assert ((ratios > 0) & (ratios < 0.01)).any()

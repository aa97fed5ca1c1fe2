"""Cards for other labels and leavers: everyone alone as all together, what a card keeps, and when there is none."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import oar
from oar.models import SoftmaxRegression
from oar.plans.cards.levers.rule import AWAY, LabelRule, Threshold
from oar.plans.cards.publish import FEWEST, LEAST
from oar.solvers import EFFORTS, default_effort


def problem_of(action, size=90, seed=0, table=False):
    rng = np.random.default_rng(seed)
    codes = np.arange(size) % 3
    features = rng.normal(0, 1.5, (3, 2))[codes] + rng.normal(size=(size, 2))
    people = oar.Population(features, codes)
    query = oar.Query(features.mean(axis=0), 1)
    if table:
        frame = pd.DataFrame(features, columns=["income", "age"]).assign(label=codes.astype(str))
        people = oar.Population.from_frame(frame, target="label")
        query = oar.Query(frame[["income", "age"]].mean(), "1")
    return oar.Problem(people, SoftmaxRegression(0.05), query, action)


ACTIONS = {
    "relabel": oar.Relabel(most=12),
    "withhold": oar.Withhold(most=12),
    "both": [oar.Relabel(most=8), oar.Withhold(most=8)],
    "moves and labels": [oar.Perturb(0.2), oar.Relabel(most=8)],
}


@pytest.mark.parametrize("table", [False, True], ids=["plain", "table"])
@pytest.mark.parametrize("action", ACTIONS)
def test_everyone_alone_does_what_the_audited_plan_does(action, table, tmp_path):
    with default_effort(EFFORTS["quick"]):
        result = oar.collective(problem_of(ACTIONS[action], table=table))
    plan, people = result.plan, result.problem.people
    plan.card().save(tmp_path / "card.json")
    card = oar.results.Card.load(tmp_path / "card.json")
    followed = plan.followed(card)
    audit = oar.audit(followed)
    assert not audit.violations  # at most so many, too
    assert audit.success >= result.success
    gain = result.loss_before - result.loss
    assert (result.loss_before - audit.loss) / gain >= max(LEAST, card.rule.keeps or 0) - 1e-6
    labels, away = np.array([people.classes[code] for code in followed.targets.argmax(axis=1)]), followed.leavers()
    rows = people.encoding.decode(np.asarray(people.features)) if table else np.asarray(people.features)
    acted = 0
    for person in range(people.size):
        mine = rows.iloc[person] if table else rows[person]
        answer = card.respond(mine, people.labels[person])
        assert answer.leaves == bool(np.asarray(away)[person])
        assert answer.label == labels[person] or answer.leaves
        move = answer.move.move if table else answer.move
        np.testing.assert_allclose(move, followed.each[person], atol=1e-6)
        acted += answer.leaves + answer.changed
    assert acted >= FEWEST


def test_a_rule_asks_for_what_is_farthest_above_its_threshold():
    rng = np.random.default_rng(1)
    values, codes = rng.normal(size=(200, 3)), rng.integers(0, 3, 200)
    rule = LabelRule((Threshold(0, 1, 0.5), Threshold(0, 2, 0.2), Threshold(0, AWAY, 0.1), Threshold(2, 0, 1.0)))
    for row, code, found in zip(values, codes, rule.decided(values, codes), strict=True):
        worth = {
            one: (0 if one.to == AWAY else row[one.to]) - row[code] for one in rule.thresholds if one.label == code
        }
        open_ = {one.to: gain - one.least for one, gain in worth.items() if gain >= one.least}
        assert found == max(open_, key=open_.get, default=code)


def test_no_kind_of_change_is_asked_of_a_few():
    with default_effort(EFFORTS["quick"]):
        plan = oar.collective(problem_of(oar.Relabel(most=FEWEST - 1))).plan
    with pytest.raises(oar.errors.DataError, match="would keep 0% of its gain.*a card must keep 90%"):
        plan.card()


def test_numbers_are_round_and_nobodys_own():
    with default_effort(EFFORTS["quick"]):
        result = oar.collective(problem_of(oar.Relabel(most=12)))
    card = result.plan.card()
    values = card.label_scores(card.seen(result.problem))
    for one in card.rule.thresholds:
        assert float(f"{one.least:.5g}") == one.least
        own = values[:, one.to] - values[np.arange(len(values)), result.problem.people.labels]
        assert np.abs(own - one.least).min() > 0
        passing = (own >= one.least) & (result.problem.people.labels == one.label)
        assert passing.sum() >= FEWEST
    assert card.rule.keeps in (None, *(round(0.1 * tenth, 1) for tenth in range(11)), 0.0, 0.2, 0.4, 0.6, 0.8)


def test_cards_of_moves_and_of_rules_are_not_mixed_up():
    with default_effort(EFFORTS["quick"]):
        moving, labels = (
            oar.collective(problem_of(action)).plan for action in (oar.Perturb(0.2), oar.Relabel(most=12))
        )
    with pytest.raises(oar.errors.DataError, match="must have a rule"):
        labels.followed(moving.card())
    with pytest.raises(oar.errors.DataError, match="one with a rule"):
        moving.followed(dataclasses.replace(labels.card(), budget=0.2))
    with pytest.raises(oar.errors.DataError, match="not shares of several"):
        labels.card().respond([0.0, 0.0], [0.5, 0.5, 0.0])

"""Cards for each round: everyone alone as all together, audited; what rounds share, and what is refused."""

import dataclasses
import json

import numpy as np
import pytest

import oar
from oar.models import SoftmaxRegression
from oar.online import ExponentialMeans, FullRefit, OnlineProblem, Stream
from oar.plans.cards.publish import LEAST, _bare
from oar.plans.cards.rounds import RoundsCard, in_rounds


def solved(model, rule, **more):
    rng = np.random.default_rng(0)
    codes = np.arange(90) % 3
    features = rng.normal(0, 1.5, (3, 2))[codes] + rng.normal(size=(90, 2))
    batches = [(features[start : start + 30], codes[start : start + 30]) for start in (0, 30, 60)]
    stream = Stream.of_batches(batches, **more.pop("stream", {}))
    query = oar.Query(features.mean(axis=0), 1)
    return oar.collective(OnlineProblem(stream, model, rule, query, oar.Perturb(0.3), **more))


KINDS = {
    "centroids": (oar.NearestCentroid(), ExponentialMeans(0.5)),
    "softmax": (SoftmaxRegression(0.05), FullRefit()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_everyone_answers_the_card_of_its_round(kind, tmp_path):
    result = solved(*KINDS[kind])
    plan, stream, people = result.plan, result.problem.stream, result.problem.people
    plan.card().save(tmp_path / "card.json")
    card = oar.results.Card.load(tmp_path / "card.json")
    assert isinstance(card, RoundsCard)
    assert {one.participants for one in card.cards} == {"everyone"}
    followed = plan.followed(card)
    audit = oar.audit(followed)
    assert not audit.violations
    assert audit.success >= result.success
    assert result.loss_before - audit.loss >= (LEAST - 0.02) * (result.loss_before - result.loss)
    for row in range(0, people.size, 7):
        mine = card.respond(people.features[row], people.labels[row], round=int(stream.when[row]))
        np.testing.assert_allclose(mine, followed.each[row], atol=1e-6)
    with pytest.raises(oar.errors.DataError, match="round: must be a whole number from 0 to 2, got 3"):
        card.respond(people.features[0], people.labels[0], round=3)


def test_budgets_for_all_rounds_together_are_spread_over_them():
    result = solved(*KINDS["softmax"], stream={"who": True}, shared=True)
    card = in_rounds(result.plan, _bare(result.plan))
    assert 0.1 < sum(one.budget for one in card.cards) <= 0.3 * (1 + 1e-12)
    for one in card.cards:  # in round steps
        assert one.budget / 0.06 == pytest.approx(round(one.budget / 0.06))
    assert not oar.audit(result.plan.followed(card)).violations


def test_a_damaged_card_of_rounds_is_refused(tmp_path):
    path = tmp_path / "card.json"
    solved(*KINDS["centroids"]).plan.card().save(path)
    content = json.loads(path.read_text())
    for rounds in ([], [content["rounds"][0] | {"version": 6}], "none", [content["rounds"][0], {}]):
        path.write_text(json.dumps(content | {"rounds": rounds}))
        with pytest.raises(oar.errors.StorageError, match="damaged"):
            oar.results.Card.load(path)
    other = content["rounds"][0] | {"goal": 2}
    path.write_text(json.dumps(content | {"rounds": [content["rounds"][0], other]}))
    with pytest.raises(oar.errors.StorageError, match="of different plans"):
        oar.results.Card.load(path)


def test_the_command_answers_the_card_of_a_round(tmp_path):
    from typer.testing import CliRunner

    from oar.cli import app

    card = solved(*KINDS["softmax"]).plan.card()
    card.each(lambda one: dataclasses.replace(one, features=("a", "b"))).save(tmp_path / "plan.json")
    with pytest.raises(oar.errors.DataError, match="must be of one refit here"):
        _ = card.single
    (tmp_path / "me.csv").write_text("a,b,label\n0.5,0.25,2\n")
    for number in (1, 3):
        said = CliRunner().invoke(
            app, ["respond", str(tmp_path / "plan.json"), str(tmp_path / "me.csv"), "--round", str(number)]
        )
        if number == 3:
            assert "round: must be a whole number from 0 to 2" in said.output
        else:
            assert said.exit_code == 0, said.output

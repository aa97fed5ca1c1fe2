import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from support.centroid_problems import random_world, seeds

import oar


def small(labels=("no", "no", "yes", "yes"), times=1, **action):
    people = oar.Population([[0.0, 0.0], [1.0, 1.0], [4.0, 4.0], [5.0, 6.0]] * times, list(labels) * times)
    action = {"budget": 0.5} | action
    return oar.Problem(people, oar.NearestCentroid(), oar.Query([1.0, 2.0], labels[-1]), oar.Perturb(**action))


@given(seeds)
def test_a_member_at_home_computes_the_very_move_of_the_plan(seed):
    """The move is that of the plan's directions with fewer digits, which a fresh refit finds as good, all but."""
    world = random_world(seed)
    people = oar.Population(np.tile(world.features, (5, 1)), [*world.labels] * 5, np.tile(world.weights > 0, 5) * 1.0)
    asked = world.problem(budget=0.7, participants=None)
    result = oar.collective(dataclasses.replace(asked, people=people))
    card = result.plan.card()
    followed = result.plan.followed(card)
    for person in np.flatnonzero(people.weights > 0):
        mine = card.respond(people.features[person], people.labels[person])
        np.testing.assert_array_equal(mine, followed.each[person])
    found = oar.audit(followed)
    assert not found.violations
    assert found.success >= result.success
    assert result.loss_before - found.loss >= 0.99 * (result.loss_before - result.loss) - 1e-9


def test_card_round_trip(tmp_path):
    for labels in (
        ["no", "no", "yes", "yes"],
        [1, 1, 2, 2],
        [True, True, False, False],
        [(1, "a")] * 2 + [(2, "b")] * 2,
    ):
        card = oar.collective(small(labels, 3, norm=np.inf)).plan.card()
        card.save(tmp_path / "plan.json")
        loaded = oar.results.Card.load(tmp_path / "plan.json")
        assert loaded.classes == card.classes
        assert [type(label) for label in loaded.classes] == [type(label) for label in card.classes]
        assert (loaded.norm, loaded.budget, loaded.goal, loaded.model) == (
            card.norm,
            card.budget,
            card.goal,
            card.model,
        )
        np.testing.assert_array_equal(loaded.directions, card.directions)
        np.testing.assert_array_equal(loaded.respond([0, 0], labels[0]), card.respond([0, 0], labels[0]))


def test_card_is_small_and_holds_nobodys_data(tmp_path):
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(500, 6)), rng.integers(0, 3, 500)
    query = rng.normal(size=6)
    problem = oar.Problem(
        oar.Population(features, labels), oar.NearestCentroid(), oar.Query(query, 1), oar.Perturb(0.5)
    )
    oar.collective(problem).plan.card().save(tmp_path / "plan.json")
    text = (tmp_path / "plan.json").read_text()
    assert len(text) < 4_000
    for value in [*features.ravel(), *query]:
        assert repr(float(value)) not in text


def test_own_budgets(tmp_path):
    card = oar.collective(small(times=3, budget=np.tile([0.1, 0.2, 0.3, 0.4], 3))).plan.card()
    card.save(tmp_path / "plan.json")
    card = oar.results.Card.load(tmp_path / "plan.json")
    assert card.budget is None
    with pytest.raises(oar.errors.DataError, match="no common budget, so give your own"):
        card.respond([0.0, 0.0], "no")
    assert 0.19 < np.linalg.norm(card.respond([0.0, 0.0], "no", budget=0.2)) <= 0.2


def test_respond_refuses_what_it_cannot_know():
    card = oar.collective(small(times=3)).plan.card()
    with pytest.raises(
        oar.errors.DataError, match=r"label: must be one of the card's classes \['no', 'yes'\], got 'maybe'"
    ):
        card.respond([0.0, 0.0], "maybe")
    with pytest.raises(oar.errors.DataError, match="features: must have 2 features"):
        card.respond([0.0], "no")
    with pytest.raises(oar.errors.DataError, match="features: must be finite"):
        card.respond([0.0, np.nan], "no")
    with pytest.raises(oar.errors.DataError, match="budget: must be finite and ≥ 0"):
        card.respond([0.0, 0.0], "no", budget=-1)


def test_respond_by_name():
    frame = pd.DataFrame({"a": [0.0, 1.0], "b": [3.0, 9.0]})
    problem = oar.Problem(
        oar.Population(pd.concat([frame] * 5, ignore_index=True), [0, 1] * 5),
        oar.NearestCentroid(),
        oar.Query([0.0, 4.0], 1),
        oar.Perturb(0.5),
    )
    card = oar.collective(problem).plan.card()
    mine = card.respond(pd.Series({"b": 3.0, "a": 0.0}), 0)
    assert list(mine.index) == ["a", "b"]
    np.testing.assert_array_equal(mine.to_numpy(), card.respond({"a": 0.0, "b": 3.0}, 0))
    with pytest.raises(oar.errors.DataError, match="missing 'b'"):
        card.respond({"a": 0.0, "c": 1.0}, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c[:-30], "damaged or truncated"),
        (lambda c: "[]", "is not an OAR card"),
        (lambda c: c.replace("oar-card", "other"), "is not an OAR card"),
        (lambda c: c.replace('"version": 1', '"version": 99'), "version 99"),
        (lambda c: c.replace('"norm": "2"', '"norm": "3"'), "norm: must be 1, 2"),
        (lambda c: c.replace('"budget": 0.5', '"budget": -1'), "budget"),
        (lambda c: c.replace('"goal": "yes"', '"goal": "maybe"'), "not one of the classes"),
        (lambda c: json.dumps(json.loads(c) | {"directions": [[9.0, 0.0], [0.0, 0.0]]}), "longer than the budget"),
        (lambda c: json.dumps(json.loads(c) | {"directions": [[0.1, 0.0]]}), 'directions" must be 2 rows'),
        (lambda c: json.dumps({k: v for k, v in json.loads(c).items() if k != "classes"}), "damaged"),
    ],
)
def test_damaged_cards_are_refused(tmp_path, change, message):
    path = tmp_path / "plan.json"
    oar.collective(small(times=3)).plan.card().save(path)
    path.write_text(change(path.read_text()))
    with pytest.raises(oar.errors.StorageError, match=message):
        oar.results.Card.load(path)


def test_missing_card_and_unwritable_place(tmp_path):
    with pytest.raises(oar.errors.StorageError, match="does not exist"):
        oar.results.Card.load(tmp_path / "none.json")
    (tmp_path / "file").write_text("")
    with pytest.raises(oar.errors.StorageError, match="cannot write"):
        oar.collective(small(times=3)).plan.card().save(tmp_path / "file" / "plan.json")


def test_labels_that_json_cannot_hold_are_refused_when_published(tmp_path):
    card = oar.collective(small([frozenset({1})] * 2 + [frozenset({2})] * 2, 3)).plan.card()
    with pytest.raises(oar.errors.DataError, match="a card can hold strings, numbers"):
        card.save(tmp_path / "plan.json")
    assert not list(tmp_path.iterdir())


def test_moves_for_other_people():
    plan = oar.collective(small()).plan
    moves = plan.moves([[9.0, 9.0]], ["no"])
    np.testing.assert_array_equal(moves[0], plan.moves()[0])
    np.testing.assert_allclose(plan.moves([[9.0, 9.0]], ["no"], budget=1.0), 2 * moves)
    np.testing.assert_allclose(plan.moves([[9.0, 9.0]] * 2, ["no"] * 2, budget=[1.0, 0.0]), [2 * moves[0], [0, 0]])


def test_moves_where_people_differ_must_be_for_the_same_people():
    plan = oar.collective(small(participants=np.array([True, False, True, False]))).plan
    moves = plan.moves()
    assert moves[[0, 2]].any(axis=1).all()
    assert not moves[[1, 3]].any()
    with pytest.raises(oar.errors.DataError, match="must be the plan's own 4 people"):
        plan.moves([[9.0, 9.0]], ["no"])


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        ([[0.0, 0.0]], ["maybe"], "labels: must be one of the classes"),
        ([[0.0]], ["no"], "features: must have 2 columns"),
        ([[0.0, 0.0]], ["no", "no"], "labels: must be one for each of the 1 people"),
        ([[0.0, np.nan]], ["no"], "features: must be finite"),
        ([[0.0, 0.0]], None, "must be given together"),
    ],
)
def test_moves_refuse_bad_people(features, labels, message):
    with pytest.raises(oar.errors.DataError, match=message):
        oar.collective(small()).plan.moves(features, labels)


def test_one_share_for_all_seeds_differ():
    masks = [small(participants=0.5, seed=seed).allowance.mask for seed in range(8)]
    assert all(mask.sum() == 2 for mask in masks)
    assert len({tuple(mask) for mask in masks}) > 1


@pytest.mark.parametrize("kind", ["few people", "one weight"])
def test_a_class_of_few_has_no_card(kind):
    """A direction would be learned from somebody's own row: four of a class, or one who counts for nearly all of it."""
    weights = np.ones(20) if kind == "few people" else np.where(np.arange(20) == 19, 100.0, 1.0)
    size = 4 if kind == "few people" else 10
    features = np.random.default_rng(0).normal(size=(20, 2)) + np.arange(20)[:, None] / 10
    people = oar.Population(features, np.where(np.arange(20) < 20 - size, "no", "yes"), weights)
    asked = oar.Problem(people, oar.NearestCentroid(), oar.Query([0.0, 0.0], "yes"), oar.Perturb(0.5))
    with pytest.raises(
        oar.errors.DataError, match=r"at least 5 people who count alike .* in class 'yes'; merge small classes"
    ):
        oar.collective(asked).plan.card()

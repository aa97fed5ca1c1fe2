"""Labellers and curators: what they choose, against brute force and refits by other code."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.actor_views import CENTROID, CLASSES, PROTOTYPES, SOFTMAX, loss_after, two_blobs, view_of

import oar
from oar.worlds import Curators, Labellers
from oar.worlds.protocol import Deed

QUERY = (0.8, 0.4)  # on the side of "no"
FASTER = [CENTROID, SOFTMAX]


def named(model: Any) -> str:
    return model.name


@pytest.mark.parametrize("model", [*FASTER, PROTOTYPES], ids=named)
def test_labels_that_are_changed_lower_the_loss(model: Any) -> None:
    actor = Labellers(QUERY, "yes", most=3, refits=6)
    view = view_of(model, actor, size=16)
    deed = actor.act(view)
    changed = (deed.codes != view.crowd.codes[view.mine]).sum()
    assert 1 <= changed <= 3
    assert deed.note["relabelled"] == changed
    after = loss_after(view, deed, QUERY, 1)
    assert after < loss_after(view, Deed(), QUERY, 1) - 1e-3
    assert after == pytest.approx(deed.note["foreseen"], rel=1e-6)


@pytest.mark.parametrize("model", FASTER, ids=named)
def test_two_labels_are_nearly_the_best_two(model: Any) -> None:
    actor = Labellers(QUERY, "yes", most=2)
    view = view_of(model, actor, size=10)
    own = view.crowd.codes

    def loss(people: tuple[int, ...]) -> float:
        codes = own.copy()
        codes[list(people)] = 1 - codes[list(people)]
        return loss_after(view, Deed(codes=codes), QUERY, 1)

    best = min(loss(some) for count in range(3) for some in combinations(range(10), count))
    before, found = loss(()), loss_after(view, actor.act(view), QUERY, 1)
    assert found <= best + 0.05 * (before - best)


def test_one_label_is_the_best_one_for_nearest_centroid() -> None:
    for seed in range(5):
        actor = Labellers(QUERY, "yes", most=1)
        view = view_of(CENTROID, actor, seed=seed, size=12)
        own = view.crowd.codes
        flips = [np.where(np.arange(12) == person, 1 - own, own) for person in range(12)]
        best = min(loss_after(view, Deed(codes=codes), QUERY, 1) for codes in flips)
        assert loss_after(view, actor.act(view), QUERY, 1) == pytest.approx(best)


@pytest.mark.parametrize("model", FASTER, ids=named)
def test_curators_lower_the_loss(model: Any) -> None:
    actor = Curators(QUERY, "yes", add=1, drop=1, share=0.5)
    view = view_of(model, actor, size=16)
    deed = actor.act(view)
    assert deed.note["added"] + deed.note["dropped"] >= 1
    after = loss_after(view, deed, QUERY, 1)
    assert after < loss_after(view, Deed(), QUERY, 1) - 1e-3
    assert after == pytest.approx(deed.note["foreseen"], rel=1e-6)


@pytest.mark.parametrize("model", FASTER, ids=named)
def test_each_step_of_curators_is_the_best_single_one(model: Any) -> None:
    pool = two_blobs(7, 8)
    labels = [CLASSES[code] for code in pool[1]]
    actor = Curators(QUERY, "yes", add=1, drop=1, pool=(pool[0], labels))
    view = view_of(model, actor, size=8)

    def loss(added: int | None, dropped: int | None) -> float:
        leaves = np.arange(8) == (-1 if dropped is None else dropped)
        deed = Deed(leaves=leaves, added=None if added is None else (pool[0][[added]], pool[1][[added]]))
        return loss_after(view, deed, QUERY, 1)

    # Greedily by brute force: the better of the best point to add and the best to drop, then the best of the other.
    add = min(range(8), key=lambda one: loss(one, None))
    drop = min(range(8), key=lambda one: loss(None, one))
    first_adds = loss(add, None) < loss(None, drop)
    expected = min(loss(add, one) if first_adds else loss(one, drop) for one in range(8))
    assert expected < loss(None, None)
    assert loss_after(view, actor.act(view), QUERY, 1) == pytest.approx(expected, rel=1e-6)


def test_curators_stop_when_nothing_helps() -> None:
    # All that could be added are points of the other class at the query itself.
    actor = Curators(QUERY, "yes", add=3, pool=([QUERY] * 4, ["no"] * 4))
    for model in FASTER:
        deed = actor.act(view_of(model, actor))
        assert deed.added is None
        assert deed.leaves is None


def test_they_can_turn_the_prediction() -> None:
    query = (0.3, 0.0)
    actor = Curators(query, "yes", add=20, pool=([query] * 20, ["yes"] * 20), refits=80)
    for model in FASTER:
        view = view_of(model, actor)
        assert model.predict(view.deployed.parameters, np.array(query)) == 0
        batch = _batch(view, actor.act(view))
        state = view.operator.retrain(view.deployed, batch, 0, None, np.random.default_rng(0))
        assert model.predict(state.parameters, np.array(query)) == 1


def _batch(view: Any, deed: Deed) -> oar.Population:
    features, codes = deed.added
    both = np.concatenate([view.crowd.features, features]), np.concatenate([view.crowd.codes, codes])
    return oar.Population.of_codes(*both, CLASSES)


@pytest.mark.parametrize("model", FASTER, ids=named)
def test_where_nothing_is_retrained_promises_have_to_do(model: Any) -> None:
    actor = Labellers(QUERY, "yes", most=2)
    view = view_of(model, actor, works=False)
    deed = actor.act(view)
    assert (deed.codes != view.crowd.codes).sum() == 2
    assert loss_after(view, deed, QUERY, 1) < loss_after(view, Deed(), QUERY, 1)


@settings(max_examples=15)
@given(
    seed=st.integers(0, 1000),
    model=st.sampled_from(FASTER),
    limits=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    refits=st.integers(1, 12),
)
def test_limits_hold_and_nothing_gets_worse(seed: int, model: Any, limits: tuple[int, int], refits: int) -> None:
    query = np.random.default_rng(seed).normal(size=2)
    labellers = Labellers(query, "yes", most=limits[0], share=0.5, refits=refits)
    curators = Curators(query, "no", add=limits[0], drop=limits[1], share=0.5, refits=refits)
    for actor, goal in ((labellers, 1), (curators, 0)):
        view = view_of(model, actor, seed=seed, size=12)
        deed = actor.act(view)
        assert deed.codes is None or (deed.codes != view.crowd.codes[view.mine]).sum() <= actor.caps.labels
        assert deed.leaves is None or deed.leaves.sum() <= actor.caps.leavers
        assert deed.added is None or len(deed.added[0]) <= actor.caps.added
        assert deed.note["refits"] <= refits
        assert loss_after(view, deed, query, goal) <= loss_after(view, Deed(), query, goal) + 1e-7
        again = actor.act(view_of(model, actor, seed=seed, size=12))
        assert str(again) == str(deed)


def test_the_last_of_a_class_stays() -> None:
    actor = Labellers(QUERY, "yes", most=50)
    view = view_of(CENTROID, actor, size=4)
    codes = actor.act(view).codes
    everyone = np.concatenate([view.past[0].codes(0, 4), codes])
    assert set(everyone) == {0, 1}


@pytest.mark.parametrize(
    ("kind", "wrong", "says"),
    [
        (Labellers, {"most": -1}, "most: must be a whole number ≥ 0"),
        (Labellers, {"most": 1, "share": 0.5, "count": 3}, "one of share and count"),
        (Labellers, {"most": 1, "query": [[1.0, 2.0]]}, "query: must be the features of one person"),
        (Labellers, {"most": 1, "query": "me"}, "query: must be the features of one person"),
        (Labellers, {"most": 1, "refits": 0}, "refits: must be a whole number ≥ 1"),
        (Curators, {"drop": 1, "pool": ([[0.0, 1.0]], ["no"])}, "pool: is what points are added from"),
        (Curators, {"add": 1, "pool": ([[0.0]], ["no"])}, "pool: must be finite features"),
        (Curators, {"add": 1, "pool": 3}, "pool: must be a pair"),
        (Curators, {"add": 1.5}, "add: must be a whole number"),
    ],
)
def test_wrong_settings_raise_kindly(kind: type, wrong: dict, says: str) -> None:
    with pytest.raises(oar.errors.OARError, match=says):
        kind(**({"query": QUERY, "goal": "yes"} | wrong))


def test_what_does_not_fit_the_world_raises() -> None:
    for actor, says in (
        (Labellers((0.0, 0.0, 0.0), "yes", most=1), "query: must have the 2 features that people have"),
        (Labellers(QUERY, "perhaps", most=1), "goal: must be one of the classes"),
        (Curators(QUERY, "yes", add=1, pool=([[0.0, 1.0]], ["perhaps"])), "pool labels: must be one of the classes"),
    ):
        with pytest.raises(oar.errors.DataError, match=says):
            actor.act(view_of(CENTROID, actor))


def test_labellers_by_count() -> None:
    actor = Labellers(QUERY, "yes", most=1, count=5)
    assert view_of(CENTROID, actor).mine.size == 5


def test_a_search_ends_when_the_time_is_over(monkeypatch):
    from oar.worlds.actors import choosing

    looks = iter([False] * 3)
    monkeypatch.setattr(choosing, "is_late", lambda: next(looks, True))
    found = choosing.Greedy.__new__(choosing.Greedy)
    found._spent, found.refits = 0, 60
    assert [found._may_try for _ in range(5)] == [True] * 3 + [False] * 2

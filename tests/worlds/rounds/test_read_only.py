"""Limits hold by the world's own doing: whatever an actor changes in place, nothing comes of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import oar
from oar.worlds import Caps, Collective, Deed, DoNothing, FromBatches, Operator, World, simulate
from oar.worlds.rounds.read_only import sealed

RNG = np.random.default_rng(0)
PEOPLE = [(RNG.normal(size=(12, 2)) + 2.0 * (np.arange(12) % 2)[:, None], np.arange(12) % 2) for _ in range(4)]
HISTORY = oar.Population(*PEOPLE[0], weights=np.ones(12))
GROUPS = [np.array(["left", None], dtype=object)[np.arange(12) % 2]] * 3  # no kind of text: an array of objects


def world(*others: Any, model: Any = None, total: float | None = None) -> World:
    return World(
        FromBatches(PEOPLE[1:], persons=True, groups=GROUPS),
        Operator(model or oar.NearestCentroid()),
        Collective("us", oar.Query([0.9, 0.0], goal=1), oar.Perturb(0.1), total=total, who="left"),
        others=others,
        labels="keep",
        history=HISTORY,
        holdout=PEOPLE[0],
    )


def told(one: Any) -> list[Any]:
    """Everything that a round has to tell, as numbers."""
    spent = one.spent["us"]
    parts = [one.crowd.features, one.crowd.codes, one.batch.features, one.batch.labels, one.batch.weights, one.origin]
    return [np.array(part) for part in (*parts, one.state.flat, one.shadow.flat, one.acts[0].mine, *spent, one.shift)]


def write(target: Any, values: Any) -> None:
    """Write to an array, by any means; what cannot be written to is left."""
    owners = [target]
    while isinstance(owners[-1].base, np.ndarray):
        owners.append(owners[-1].base)
    for array in reversed(owners):
        try:
            array.flags.writeable = True
        except ValueError:
            pass
    try:
        target[...] = values
    except ValueError:
        pass


def weigh(people: Any) -> None:
    people.weights = np.full(people.size, 9.0)


def swap(view: Any, part: str, value: Any) -> None:
    object.__setattr__(view, part, value)


ATTACKS: dict[str, Callable[[Any], None]] = {
    "features": lambda view: write(view.crowd.features, 100.0),
    "labels": lambda view: write(view.crowd.codes, 1),
    "persons": lambda view: write(view.crowd.persons, 77),
    "groups": lambda view: write(view.crowd.groups, "left"),
    "members": lambda view: write(view.mine, 11),
    "spent": lambda view: write(view.spent, -9.0),
    "all spent": lambda view: write(view.spent_by.__self__.totals, -9.0),
    "spent anew": lambda view: swap(view.spent_by.__self__, "totals", np.full(99, -9.0)),
    "model": lambda view: write(view.deployed.parameters.positions, 0.0),
    "vector": lambda view: write(view.deployed.flat, 0.0),
    "past": lambda view: [write(people.features, 50.0) for people in view.past],
    "past labels": lambda view: [write(people.labels, 0) for people in view.past],
    "past codes": lambda view: [write(people.codes(0, people.size), 0) for people in view.past],
    "past weights": lambda view: [weigh(people) for people in view.past],
    "memory": lambda view: [write(people.features, 50.0) for people in view.deployed.memory],
    "memory weights": lambda view: [weigh(people) for people in view.deployed.memory],
    "next batch": lambda view: write(view.arrivals.draw(1, view.rng).features, 50.0),
    "another crowd": lambda view: swap(view.crowd, "codes", np.ones(12, dtype=int)),
    "other members": lambda view: swap(view, "mine", np.arange(6, 12)),
}  # fmt: skip


def moving(view: Any) -> Deed:
    return Deed(moves=np.tile([0.06, 0.0], (view.mine.size, 1)))


@pytest.fixture(scope="module")
def honest() -> list[Any]:
    return [told(one) for one in simulate(world(), moving, rounds=2)]


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_nothing_that_is_handed_out_can_be_changed(attack: Callable[[Any], None], honest: list[Any]) -> None:
    def policy(view: Any) -> Deed:
        deed = moving(view)
        attack(view)
        return deed

    given = HISTORY.features.copy()
    for one, same in zip(simulate(world(), policy, rounds=2), honest, strict=True):
        for found, expected in zip(told(one), same, strict=True):
            assert_array_equal(found, expected)
    assert_array_equal(HISTORY.features, given)
    assert HISTORY.weights is not None
    assert_array_equal(HISTORY.weights, 1.0)


def test_a_total_cannot_be_won_back() -> None:
    def policy(view: Any) -> Deed:
        write(view.spent, 0.0)
        write(view.spent_by.__self__.totals, 0.0)
        swap(view.spent_by.__self__, "totals", np.zeros(99))
        return moving(view)

    with pytest.raises(
        oar.errors.DataError, match=r"in round 1: each moves in all rounds together at most 0.1, got 0.12"
    ):
        simulate(world(total=0.1), policy, rounds=2).table()


def test_a_buffer_that_is_used_again_rewrites_nothing(honest: list[Any]) -> None:
    buffer = np.zeros((12, 2))

    @dataclass
    class Later:
        """Acts after the policy and writes to what that has returned, and caps itself anew."""

        name: str = "later"
        caps: Caps = Caps()

        def members(self, crowd: Any, number: int, rng: np.random.Generator) -> Any:
            return []

        def act(self, view: Any) -> Deed:
            buffer[:] = 500.0
            return Deed()

    def policy(view: Any) -> Deed:
        buffer[: view.mine.size] = moving(view).moves
        return Deed(moves=buffer[: view.mine.size])

    rounds = list(simulate(world(Later()), policy, rounds=2))
    for one, same in zip(rounds, honest, strict=True):
        for found, expected in zip(told(one), same, strict=True):
            assert_array_equal(found, expected)
        assert_array_equal(one.acts[0].deed.moves, np.tile([0.06, 0.0], (one.acts[0].mine.size, 1)))


def test_who_reads_rounds_changes_no_other_run() -> None:
    made = world()
    for one in simulate(made, DoNothing(), rounds=2):
        for array in (one.crowd.features, one.crowd.codes, one.batch.features, one.spent["us"][1]):
            write(array, 10.0)
    assert_array_equal(next(simulate(made, DoNothing(), rounds=1)).crowd.features, PEOPLE[1][0])


def test_caps_are_read_before_anybody_acts() -> None:
    @dataclass
    class Raising:
        name: str = "raising"
        caps: Caps = Caps(budget=0.1)

        def members(self, crowd: Any, number: int, rng: np.random.Generator) -> Any:
            return [1]

        def act(self, view: Any) -> Deed:
            self.caps = Caps(budget=9.0)
            return Deed(moves=[[5.0, 0.0]])

    with pytest.raises(oar.errors.DataError, match="'raising' in round 0: each moves at most 0.1, got 5"):
        simulate(world(Raising()), DoNothing(), rounds=1).table()


def test_who_defects_is_not_the_policys_choice() -> None:
    def lengths(policy: Any) -> list[float]:
        us = Collective("us", oar.Query([0.9, 0.0], goal=1), oar.Perturb(0.1), defection=0.5, noise=0.2)
        made = World(
            FromBatches(PEOPLE[1:]), Operator(oar.NearestCentroid()), us, labels="keep", history=HISTORY,
            holdout=PEOPLE[0],
        )  # fmt: skip
        return next(simulate(made, policy, rounds=1)).acts[0].lengths.tolist()

    def drawing(view: Any) -> Deed:
        view.rng.random(3)
        return moving(view)

    assert lengths(moving) == lengths(drawing)


class Layer(NamedTuple):
    """A part of a model."""

    weights: Any


def test_models_of_many_parts_are_sealed_in_all_of_them() -> None:
    made = {"first": [np.ones((2, 3)), (np.zeros(0), Layer(np.ones(2)))], "rate": 0.1, "name": np.array("x")}
    kept = sealed(made)
    first, (nothing, layer) = kept["first"]
    assert isinstance(layer, Layer)
    for array in (first, nothing, layer.weights, kept["name"]):
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True
    assert sealed(kept)["first"][0] is first  # what is sealed is not copied again
    kept["rate"] = 7
    assert made["rate"] == 0.1
    objects = sealed(np.array([None, "a"], dtype=object))
    assert not objects.flags.writeable
    assert objects.tolist() == [None, "a"]


@pytest.mark.parametrize(
    ("deed", "says"),
    [
        (Deed(leaves=[False] * 5), r"leaves must be flags of shape \(6,\), got bool of shape \(5,\)"),
        (Deed(leaves=[0] * 6), "leaves must be flags"),
        (Deed(moves=[[0.0], [0.0, 1.0]]), "moves must be of shape"),
        (Deed(added=np.zeros(3)), "added must be a pair"),
        (Deed(added=([[0.0, 0.0]], 1)), "added features must be numbers of shape"),
        (Deed(note=3), "note must be a dict"),
    ],
)
def test_what_is_no_deed(deed: Any, says: str) -> None:
    with pytest.raises(oar.errors.DataError, match=f"'us' in round 0: {says}"):
        next(simulate(world(), lambda view: deed, rounds=1))


def test_lists_will_do() -> None:
    one = next(simulate(world(), lambda view: Deed(leaves=[False] * 6, moves=[[0.1, 0]] * 6, codes=None), rounds=1))
    assert one.actors["us"].moved == 6

"""Running worlds: lazily, the same for the same seed, each part with draws of its own; and what is refused."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import oar
from oar.defences import Defence
from oar.online import GradientSteps, Window
from oar.worlds import (
    Blobs,
    Caps,
    Collective,
    CompetingCollective,
    Deed,
    DoNothing,
    FromBatches,
    FromPopulation,
    Individually,
    OneShot,
    Operator,
    PlanOnce,
    Replan,
    State,
    World,
    simulate,
)

MEANS = [[0.0, 0.0], [2.0, 0.0]]
QUERY = oar.Query([0.9, 0.0], goal=1)
NEAREST = oar.NearestCentroid()


def us(**settings: Any) -> Collective:
    return Collective("us", QUERY, settings.pop("action", oar.Perturb(0.5)), **{"share": 0.5, **settings})


def world(collective: Any = None, *, operator: Any = None, arrivals: Any = None, **settings: Any) -> World:
    people = arrivals or Blobs(MEANS, 30)
    return World(people, operator or Operator(NEAREST), collective, **{"labels": "keep", **settings})


@dataclass
class Pushers:
    """The first people of every round, who all move by the same vector."""

    name: str = "pushers"
    count: int = 5
    size: float = 0.4
    caps: Caps = Caps(budget=0.5)

    def members(self, crowd: Any, number: int, rng: np.random.Generator) -> Any:
        return np.arange(self.count)

    def act(self, view: Any) -> Deed:
        return Deed(moves=np.full((view.mine.size, 2), self.size / np.sqrt(2)), note={"pushed": view.mine.size})


def test_nothing_runs_before_it_is_asked_for() -> None:
    drawn: list[int] = []

    class Counted(Blobs):
        def draw(self, number: int, rng: np.random.Generator) -> Any:
            drawn.append(number)
            return super().draw(number, rng)

    simulation = simulate(world(arrivals=Counted(MEANS, 10)), rounds=3)
    assert drawn == [0, 0]  # those of round 0, and the history: as they are needed to check what is asked
    assert next(simulation).number == 0
    assert drawn == [0, 0, 0]  # the holdout; those of round 0 are there
    assert simulation.table()["round"].tolist() == [0, 1, 2]
    assert drawn[3:] == [1, 1, 2, 2]  # the holdout of each round is drawn as its people are
    assert simulation.table()["round"].tolist() == [0, 1, 2]  # once more, without running anything
    assert list(simulation) == []


def test_the_same_seed_gives_the_same_bits() -> None:
    made = world(us(defection=0.2, noise=0.3, growth=0.1), others=[Pushers()])
    tables = [simulate(made, OneShot(), rounds=3, seed=seed).table() for seed in (5, 5, 6)]
    assert tables[0].equals(tables[1])
    assert not tables[0].equals(tables[2])


def test_another_actor_changes_nobody_elses_draws() -> None:
    alone, beside = (
        list(simulate(world(us(defection=0.3), others=others), OneShot(), rounds=2, seed=1))
        for others in ([], [Pushers(count=3)])
    )
    for one, other in zip(alone, beside, strict=True):
        assert_allclose(one.crowd.features, other.crowd.features)
        assert one.acts[0].mine.tolist() == other.acts[0].mine.tolist()
        assert (one.acts[0].lengths > 0).tolist() == (other.acts[0].lengths > 0).tolist()


def test_who_is_claimed_twice_belongs_to_the_first() -> None:
    for one in simulate(world(us(), others=[Pushers(count=20), Pushers("later", 30)]), DoNothing(), rounds=2):
        first, second, third = (act.mine for act in one.acts)
        everyone = np.concatenate([first, second, third])
        assert np.unique(everyone).size == everyone.size == 30
        assert set(second) == set(range(20)) - set(first)


def test_nobody_acts_means_one_world() -> None:
    for one in simulate(world(us()), DoNothing(), rounds=3):
        assert one.shadow is one.state
        assert (one.collateral, one.accuracy_fall, one.critical_mass) == (0.0, 0.0, {})


def test_others_acts_are_collateral_too() -> None:
    rounds = list(simulate(world(others=[Pushers(count=25, size=0.5)]), rounds=3))
    moved = ByOthers(rounds)
    assert rounds[0].actors["pushers"].note == {"pushed": 25}
    assert_allclose(rounds[-1].state.parameters.positions, moved.means)
    assert_allclose(rounds[-1].shadow.parameters.positions, moved.means_otherwise)
    table = simulate(world(others=[Pushers()], query=QUERY), rounds=1).by_actor()
    assert table["note_pushed"].tolist() == [5]


class ByOthers:
    """Class means of everything handed in, and of everybody who arrived, from the rounds' own batches."""

    def __init__(self, rounds: list[Any]) -> None:
        first = rounds[0].deployed.memory[0]
        handed = [(first.features, first.labels), *((one.batch.features, one.batch.labels) for one in rounds)]
        arrived = [(first.features, first.labels), *((one.crowd.features, one.crowd.codes) for one in rounds)]
        self.means, self.means_otherwise = (
            np.array([np.vstack([rows[labels == code] for rows, labels in parts]).mean(axis=0) for code in (0, 1)])
            for parts in (handed, arrived)
        )


def test_members_stay_members_as_adoption_grows() -> None:
    people = (np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2)
    arrivals = FromBatches([people] * 4, persons=True)
    made = world(us(share=0.25, growth=0.25), arrivals=arrivals, history=people, holdout=people)
    members = [set(one.acts[0].mine) for one in simulate(made, DoNothing(), rounds=4)]
    assert members[0] < members[1] < members[2] < members[3] == set(range(40))
    assert [len(some) for some in members[:3]] == pytest.approx([10, 20, 30], abs=3 * np.sqrt(40 / 4))


def test_members_of_a_group() -> None:
    arrivals = Blobs(MEANS, 40, groups=lambda rows, codes: np.where(rows[:, 1] > 0, "up", "down"))
    (one,) = simulate(world(us(share=1.0, who="up"), arrivals=arrivals), DoNothing(), rounds=1)
    assert one.acts[0].mine.tolist() == np.flatnonzero(one.crowd.features[:, 1] > 0).tolist()


def test_defectors_do_nothing_and_noise_stays_in_the_budget() -> None:
    plain, defected, noisy = (
        next(simulate(world(us(share=1.0, **part), arrivals=Blobs(MEANS, 400)), OneShot(), rounds=1)).acts[0]
        for part in ({}, {"defection": 0.3}, {"noise": 0.5})
    )
    assert_allclose(plain.lengths, 0.5)
    assert_allclose((defected.lengths == 0).mean(), 0.3, atol=0.06)
    assert_allclose(defected.deed.moves[defected.lengths > 0], plain.deed.moves[defected.lengths > 0])
    assert noisy.lengths.max() <= 0.5 * (1 + 1e-12)
    assert np.abs(noisy.deed.moves - plain.deed.moves).max() > 0.1


def test_defectors_hand_in_their_own_labels_and_do_not_leave() -> None:
    action = [oar.Relabel(most=400), oar.Withhold(most=400)]
    made = world(us(share=1.0, defection=0.3, action=action), arrivals=Blobs(MEANS, 400))

    def levers(view: Any) -> Deed:
        leaves = np.arange(view.mine.size) % 2 == 0
        return Deed(codes=1 - view.crowd.codes[view.mine], leaves=leaves)

    one = next(simulate(made, levers, rounds=1))
    act, done = one.acts[0], one.actors["us"]
    changed = act.deed.codes != one.crowd.codes
    assert done.relabelled == changed.sum() == pytest.approx(280, abs=4 * np.sqrt(0.21 * 400))
    assert act.deed.leaves.tolist() == (changed & (np.arange(400) % 2 == 0)).tolist()
    stays = ~act.deed.leaves
    assert one.batch.labels.tolist() == np.where(changed, 1 - one.crowd.codes, one.crowd.codes)[stays].tolist()


def test_stale_collectives_see_older_models() -> None:
    seen: list[tuple[int, Any, int]] = []

    def look(view: Any) -> Deed:
        seen.append((view.number, view.deployed.flat.tolist(), len(view.past)))
        return Deed()

    rounds = list(simulate(world(us(stale=2), arrivals=Blobs(MEANS, 20, drift=[1.0, 0.0])), look, rounds=4))
    deployed = [rounds[0].deployed.flat.tolist(), *(one.state.flat.tolist() for one in rounds)]
    assert [view[1] for view in seen] == [deployed[0], deployed[0], deployed[0], deployed[1]]
    assert [view[2] for view in seen] == [1, 1, 1, 2]


def test_a_total_is_shared_over_rounds() -> None:
    people = (np.random.default_rng(0).normal(size=(10, 2)), np.arange(10) % 2)
    arrivals = FromBatches([people] * 4, persons=True)
    made = world(us(share=1.0, total=1.2), arrivals=arrivals, history=people, holdout=people)
    table = simulate(made, OneShot(), rounds=4).table()
    assert_allclose(table["burden_max"], [0.5, 0.5, 0.2, 0.0], atol=1e-12)
    assert_allclose(table["heaviest"], [0.5, 1.0, 1.2, 1.2])

    def greedy(view: Any) -> Deed:
        return Deed(moves=np.tile([0.5, 0.0], (view.mine.size, 1)))

    with pytest.raises(
        oar.errors.DataError, match=r"'us' in round 2: each moves in all rounds together at most 1.2, got 1.5"
    ):
        simulate(made, greedy, rounds=4).table()


@pytest.mark.parametrize("labels", ["oracle", "relabel"])
def test_what_rounding_leaves_of_a_total_is_no_move(labels: str) -> None:
    """0.9 − 0.3 − 0.3 − 0.3 is not 0, and whoever stays keeps its label."""
    people = (np.random.default_rng(0).normal(size=(10, 2)), np.arange(10) % 2)
    arrivals = FromBatches([people] * 6, persons=True, label=lambda rows: 1 - (rows[:, 0] > 0).astype(int))
    actors = us(action=oar.Perturb(0.3), share=1.0, total=0.9)
    made = world(actors, arrivals=arrivals, history=people, holdout=people, labels=labels)

    def all_that_is_left(view: Any) -> Deed:
        left = np.minimum(0.3, 0.9 - view.spent)
        return Deed(moves=np.stack([left, np.zeros(view.mine.size)], axis=1))

    for acts in (OneShot(), all_that_is_left):
        rounds = list(simulate(made, acts, rounds=6))
        assert [one.actors["us"].moved for one in rounds] == [10, 10, 10, 0, 0, 0]
        assert rounds[-1].actors["us"].acting == 0
        assert np.array_equal(rounds[-1].batch.codes(0, 10), rounds[-1].on_record.codes)


def test_people_who_are_drawn_several_times_carry_no_more_than_the_budget_allows() -> None:
    people = (np.random.default_rng(0).normal(size=(3, 2)), [0, 1, 1])
    made = world(us(action=oar.Perturb(0.3), share=1.0), arrivals=FromPopulation(people, 12), history=people)
    rounds = list(simulate(made, OneShot(), rounds=2))
    assert_allclose([one.actors["us"].heaviest for one in rounds], [0.3, 0.6])


def test_a_person_who_is_there_twice_has_one_total() -> None:
    people = (np.random.default_rng(0).normal(size=(3, 2)), [0, 1, 1])
    made = world(us(share=1.0, total=0.5), arrivals=FromPopulation(people, 12), history=people)
    one = next(simulate(made, OneShot(), rounds=1))
    assert_allclose(one.spent["us"][1], 0.5)

    def each_as_far(view: Any) -> Deed:
        return Deed(moves=np.tile([0.3, 0.0], (view.mine.size, 1)))

    twice = np.bincount(one.crowd.persons).max()
    assert twice > 1
    with pytest.raises(
        oar.errors.DataError, match=rf"in all rounds together at most 0.5, got {0.3 * twice:.6g} for member"
    ):
        next(simulate(made, each_as_far, rounds=1))


def test_several_collectives_have_a_row_each() -> None:
    them = Collective("them", oar.Query([1.1, 0.0], goal=0), oar.Perturb(0.5), share=0.4)
    both = world([us(), them])
    table = simulate(both, {"us": OneShot(), "them": DoNothing()}, rounds=2).table()
    assert table["collective"].tolist() == ["us", "them", "us", "them"]
    assert (table["acting"] > 0).tolist() == [True, False, True, False]
    with pytest.raises(oar.errors.OptionError, match=r"one for each of the collectives \['us', 'them'\]"):
        simulate(both, {"us": OneShot()}, rounds=2)


def test_filtered_members_are_counted() -> None:
    class NoPushing(Defence):
        """Leaves out who is far to the right."""

        def prepared(self, people: Any, model: Any, parameters: Any, rng: np.random.Generator) -> Any:
            from oar.defences.base import Prepared

            kept = people.features[:, 1] < 1.0
            return Prepared(people.some(np.flatnonzero(kept)), kept)

    one = next(simulate(world(others=[Pushers(count=25)], operator=Operator(NEAREST, defence=NoPushing())), rounds=1))
    far = one.batch.features[:, 1] >= 1.0
    assert one.filtered == far.sum() > 0
    assert one.actors["pushers"].filtered == far[:25].sum()
    kept = one.batch.features[~far]
    with_history = np.vstack([one.deployed.memory[0].features, kept])
    labels = np.append(one.deployed.memory[0].labels, one.batch.labels[~far])
    assert_allclose(one.state.parameters.positions[0], with_history[labels == 0].mean(axis=0))


def test_leavers_labels_and_added_points() -> None:
    class Levers(Pushers):
        def act(self, view: Any) -> Deed:
            codes = view.crowd.codes[view.mine].copy()
            codes[0] = 1 - codes[0]
            leaves = np.arange(view.mine.size) >= view.mine.size - 2
            return Deed(codes=codes, leaves=leaves, added=(np.full((3, 2), 9.0), np.array([1, 1, 1])))

    one = next(simulate(world(others=[Levers(caps=Caps(labels=1, leavers=2, added=3))]), rounds=1))
    done = one.actors["pushers"]
    assert (done.relabelled, done.left, done.added, done.acting, done.moved) == (1, 2, 3, 3, 0)
    assert one.origin.tolist() == [0, 1, 2, *range(5, 30), -1, -1, -1]
    assert one.batch.labels[0] == 1 - one.crowd.codes[0]
    assert_allclose(one.batch.features[-3:], 9.0)


def broken(deed: Deed, told: str) -> Any:
    return pytest.param(deed, told, id=told[:24])


@pytest.mark.parametrize(
    ("deed", "told"),
    [
        broken(Deed(moves=np.full((15, 2), 0.36)), r"each moves at most 0.5, got 0.509117 for member 0 \(person"),
        broken(Deed(moves=np.zeros((3, 2))), r"moves must be numbers of shape \(15, 2\)"),
        broken(Deed(moves=np.full((15, 2), np.nan)), "moves must be finite"),
        broken(Deed(codes=np.ones(15, dtype=int)), "may have at most 0 other labels"),
        broken(Deed(codes=np.full(15, 7)), "codes must be class codes 0 to 1"),
        broken(Deed(leaves=np.ones(15, dtype=bool)), "may have at most 0 leavers, got 15"),
        broken(Deed(added=(np.zeros((1, 2)), np.array([0]))), "may have at most 0 added points, got 1"),
        broken(Deed(advice=(np.zeros((15, 2)), np.full(15, -2))), "advice codes must be class codes -1"),
    ],
)
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_the_world_refuses_what_exceeds_the_limits(deed: Deed, told: str, noise: float) -> None:
    simulation = simulate(world(us(noise=noise, share=1.0), arrivals=Blobs(MEANS, 15)), lambda view: deed, rounds=2)
    with pytest.raises(oar.errors.DataError, match=rf"'us' in round 0: {told}"):
        next(simulation)


def test_others_are_refused_too() -> None:
    with pytest.raises(oar.errors.DataError, match="'pushers' in round 0: each moves at most 0.5, got 0.8"):
        simulate(world(others=[Pushers(size=0.8)]), rounds=1).table()
    with pytest.raises(oar.errors.DataError, match="members must be different positions 0 to 29"):
        simulate(world(others=[Pushers(count=31)]), rounds=1).table()


class NaNs:
    """A rule that breaks in round 1."""

    name, reads = "broken", 1

    def update(self, update: Any) -> Any:
        return np.full(4, np.nan if update.number else 1.0)

    def pull_back(self, update: Any, after: Any, adjoint: Any) -> Any:
        raise NotImplementedError


def test_rules_that_break_and_streams_that_end() -> None:
    with pytest.raises(oar.errors.NumericsError, match="round 1, operator: .*not finite"):
        simulate(world(operator=Operator(NEAREST, NaNs())), rounds=3).table()
    people = ([[0.0, 0.0], [1.0, 1.0]], [0, 1])
    short = world(arrivals=FromBatches([people, people]), history=people, holdout=people)
    simulation = simulate(short, rounds=3)
    assert [next(simulation).number, next(simulation).number] == [0, 1]
    for _ in range(2):
        with pytest.raises(oar.errors.DataError, match="ends before round 2"):
            next(simulation)
        with pytest.raises(oar.errors.DataError, match="ends before round 2"):
            simulation.table()
    assert len(simulate(short, rounds=2).table()) == 2
    one_class = world(
        arrivals=FromBatches([people, ([[0.0, 0.0]], [0])]), history=people, holdout=people,
        operator=Operator(NEAREST, Window(1)),
    )  # fmt: skip
    with pytest.raises(oar.errors.DataError, match=r"round 1, operator: .*nobody of class 1"):
        simulate(one_class, rounds=2).table()
    whole = world(arrivals=FromBatches([people, ([[0.0, 0.0]], [0])]), history=people, holdout=people)
    assert len(simulate(whole, rounds=2).table()) == 2  # everything so far has every class
    steps = Operator(NEAREST, GradientSteps(0.5))
    assert len(simulate(world(operator=steps), rounds=2).table()) == 2


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (lambda: simulate(world(), rounds=0), "rounds: must be a whole number ≥ 1, got 0"),
        (lambda: simulate(world(), rounds=True), "rounds: must be"),
        (lambda: simulate("world", rounds=1), "world: must be"),
        (lambda: simulate(world(), rounds=1, seed=-1), "seed: must be"),
        (lambda: simulate(world(), DoNothing(), rounds=1), "this world has none"),
        (lambda: simulate(world(us()), rounds=1), "policy: must be one of"),
        (lambda: simulate(world(us()), "nothing", rounds=1), "policy: must be one of"),
        (lambda: simulate(world(us()), DoNothing, rounds=1), r"for 'us'; call it: DoNothing\(\)"),
        (lambda: simulate(world(us(growth=0.3)), DoNothing(), rounds=4), "got 1.4 in round 3 of 'us'"),
        (lambda: simulate(world(us(growth=-0.3)), DoNothing(), rounds=4), "got -0.4 in round 3 of 'us'"),
        (lambda: us(share=1.1), r"share: must be a share in \[0, 1\], got 1.1"),
        (lambda: us(defection=-0.1), "defection: must be a share"),
        (lambda: us(noise=2), "noise: must be a share"),
        (lambda: us(stale=-1), "stale: must be a whole number"),
        (lambda: us(growth=np.inf), "growth: must be a finite number"),
        (lambda: us(total=-1), "total: must be a number ≥ 0"),
        (lambda: world(us(total=0.5)), "total: is for people who come again, got 0.5 for 'us'"),
        (lambda: us(shares=0.1), "Did you mean 'share'"),
        (lambda: us(action=oar.Perturb(0.5, participants=0.5)), "say who takes part"),
        (lambda: us(action=oar.Perturb([0.5, 0.6])), "one budget for all"),
        (lambda: us(action=oar.Withhold(share=0.5)), "say how many by `most`"),
        (lambda: us(action=oar.Withhold(most=5), noise=0.5), "noise: is for moves, and nobody may move here"),
        (lambda: us(action=oar.Relabel(most=5), total=0.5), "total: is for moves, and nobody may move here"),
        (lambda: Collective("", QUERY, oar.Perturb(1.0)), "must be a word"),
        (lambda: world([us(), us()]), "got 'us' more than once; rename one"),
        (lambda: world(us(), others=[Pushers("us")]), "got 'us' more than once"),
        (lambda: world(us(), query=QUERY), "query: is for a world without"),
        (lambda: world("us"), "collective: must be"),
        (lambda: world(others=[3]), "others: must be actors, got a int without name"),
        (lambda: world(operator=NEAREST), "operator: must be one of"),
        (lambda: world(operator=Operator(oar.models.Ridge())), "must predict classes"),
        (lambda: world(operator=Operator(NEAREST, Window)), "rule: must be one of"),
        (lambda: world(arrivals=FromBatches([([[0.0], [1.0]], [0, 1])])), "history: must be given"),
        (lambda: world(us(who="nobody here")), r"groups \[0, 1\], got 'nobody here'"),
        (lambda: grouped(FromPopulation(FEW, 2, groups=["a", "b"])), r"groups \['a', 'b'\], got 'c' for 'us'"),
        (lambda: grouped(FromBatches([FEW, FEW], groups=[["a", "a"], ["b", "a"]])), r"groups \['a', 'b'\], got 'c'"),
        (lambda: simulate(world(operator=Operator(NEAREST, Window(5))), rounds=2), "newest 5 batches.*only 3"),
        (lambda: simulate(world(history=([[0.0]], [0])), rounds=1), "history: must have the arrivals' 2 features"),
        (lambda: simulate(world(query=oar.Query([0.0, 0.0], goal=7)), rounds=1), "goal: must be one of the classes"),
        (lambda: simulate(world(query=oar.Query(oar.Members([0]), goal=1)), rounds=1), "must be features in a world"),
    ],
)  # fmt: skip
def test_worlds_that_cannot_be(run: Any, told: str) -> None:
    with pytest.raises(oar.errors.OARError, match=told):
        run()


FEW = (np.array([[0.0, 0.0], [1.0, 1.0]]), [0, 1])


def grouped(arrivals: Any) -> Any:
    """Members are to come from group c, of a competitor."""
    them = CompetingCollective(us(who="c"), DoNothing())
    return simulate(world(others=[them], arrivals=arrivals, history=FEW, holdout=FEW), rounds=1)


def test_an_interrupted_simulation_is_not_a_short_one() -> None:
    def stopped(view: Any) -> Deed:
        if view.number:
            raise KeyboardInterrupt
        return Deed()

    simulation = simulate(world(us()), stopped, rounds=3)
    with pytest.raises(KeyboardInterrupt):
        simulation.table()
    with pytest.raises(oar.errors.DataError, match="interrupted in round 1 of 3; call simulate again"):
        simulation.by_actor()


def test_operators_may_look_ahead_through_responses() -> None:
    class Asking(Operator):
        """Asks how people would respond to what it has deployed, and to what it would deploy."""

        asked: tuple[Any, ...] = ()

        def retrain(self, state: State, batch: Any, number: int, respond: Any, rng: np.random.Generator) -> State:
            after = super().retrain(state, batch, number, respond, rng)
            self.asked = self.asked or (batch, respond(state), respond(after))  # later it is the world without anybody
            return after

    operator = Asking(NEAREST)

    def away(view: Any) -> Deed:
        way = view.deployed.parameters.positions[1] - view.deployed.parameters.positions[0]
        return Deed(moves=np.tile(0.5 * way / np.linalg.norm(way), (view.mine.size, 1)))

    next(simulate(world(us(share=1.0), operator=operator), away, rounds=1, critical_masses=False))
    same, now, then = operator.asked
    assert_allclose(same.features, now.features)
    assert np.abs(same.features - then.features).max() > 1e-3


def test_progress_is_shown_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    simulate(world(), rounds=2).table(progress=True)
    assert "round 2 of 2" in capsys.readouterr().err
    with pytest.raises(oar.errors.DataError, match="progress: must be True, False or None"):
        simulate(world(), rounds=2).table(progress=1)


@pytest.mark.parametrize("wrong", [{"share": 2}, {"noise": 2}, {"growth": "much"}, {"stale": 0.5}, {"total": -1}])
def test_settings_that_cannot_be_are_all_one_kind_of_error(wrong: Any) -> None:
    with pytest.raises(oar.errors.DataError, match=f"{next(iter(wrong))}: must be"):
        us(**wrong)
    with pytest.raises(oar.errors.DataError, match="adoption: must be"):
        oar.online.Reality(adoption=2)


def test_copies_of_a_person_add_up_and_it_is_said() -> None:
    """Of two people twelve are drawn, so that each is there several times."""
    made = world(us(share=1.0, total=0.9), arrivals=FromPopulation(FEW, 12))
    far = simulate(made, lambda view: Deed(moves=np.full((view.mine.size, 2), 0.2)), rounds=1)
    with pytest.raises(
        oar.errors.DataError, match="whoever is there several times in a round moves by all of its rows"
    ):
        next(far)


class Unbounded:
    """A rule that breaks down, and has no way back."""

    name, reads, remembers = "doubling", 1, False

    def update(self, update: Any) -> Any:
        return np.full(update.training.parameter_count, np.nan)


def test_a_rule_that_breaks_down_is_named() -> None:
    with pytest.raises(
        oar.errors.NumericsError, match="round 0, operator: doubling gives parameters that are not finite"
    ):
        next(simulate(world(operator=Operator(NEAREST, Unbounded())), rounds=1))
    with pytest.raises(
        oar.errors.OptionError, match="OneShot asks the rule for a signal, and doubling has no pull_back"
    ):
        next(simulate(world(us(), operator=Operator(NEAREST, Unbounded())), OneShot(), rounds=1))


@pytest.mark.parametrize("policy", [OneShot(), Individually(), PlanOnce(), Replan()], ids=str)
@pytest.mark.parametrize("action", [oar.Relabel(most=5), oar.Withhold(most=5), [oar.Perturb(0.5), oar.Relabel(most=5)]])
def test_policies_that_only_move_refuse_to_leave_other_actions_unused(policy: Any, action: Any) -> None:
    with pytest.raises(oar.errors.OptionError, match="is for an oar.Perturb(.*) alone, and would leave other actions"):
        next(simulate(world(us(action=action)), policy, rounds=2))


class Sneak:
    """Says that it may do more once it is trusted."""

    name = "sneak"

    def __init__(self) -> None:
        self.caps = Caps(budget=0.1)

    def members(self, crowd: Any, number: int, rng: Any) -> Any:
        return np.arange(crowd.size)

    def act(self, view: Any) -> Deed:
        self.caps = Caps(budget=1e9)
        return Deed(moves=np.full((view.mine.size, 2), 0.0 if view.number == 0 else 50.0))


def test_nobody_raises_its_own_limits_between_rounds() -> None:
    rounds = simulate(world(us(), others=[Sneak()]), DoNothing(), rounds=2)
    next(rounds)
    with pytest.raises(oar.errors.DataError, match="'sneak' in round 1"):
        next(rounds)

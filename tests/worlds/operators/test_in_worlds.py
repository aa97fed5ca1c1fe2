"""Operators and defences in a running world."""

import numpy as np
import pytest

import oar
from oar import defences
from oar.worlds import (
    Blobs,
    Caps,
    Collective,
    Deed,
    Operator,
    PerformativelyStable,
    StrategicAware,
    StrategicIndividuals,
    World,
)
from oar.worlds.people.random_streams import stream

ARRIVALS = Blobs([[0.0, 0.0], [2.0, 2.0]], per_round=40)
QUERY = oar.Query([0.9, 0.9], goal=1)


def ran(operator, budget=0.8, rounds=3, share=0.5):
    others = [StrategicIndividuals(share=share, goal=1, budget=budget)]
    return list(
        oar.simulate(World(ARRIVALS, operator, others=others, labels="keep", query=QUERY), rounds=rounds, seed=1)
    )


def test_a_stable_model_is_the_refit_to_what_it_causes():
    for one in ran(PerformativelyStable(oar.NearestCentroid(), tolerance=1e-9)):
        assert one.state.memory.converged
        assert one.state.memory.steps > 1


def test_what_is_recorded_under_a_stable_operator_is_what_its_model_was_learned_from():
    heaviest = 0.0
    for one in ran(PerformativelyStable(oar.NearestCentroid(), tolerance=1e-9)):
        act, told = one.acts[0], one.actors["strategic individuals"]
        moved = one.crowd.features.copy()
        moved[act.mine] += act.deed.moves
        np.testing.assert_allclose(one.batch.features, moved)
        np.testing.assert_allclose(one.state.flat, oar.NearestCentroid().fit(one.batch).positions.ravel())
        # They cross the boundary of the model that is deployed in the end, not of the one that was there before.
        gap = one.state.flat[2:] - one.state.flat[:2]
        ends = moved[act.mine[act.lengths > 0]] - one.state.flat.reshape(2, 2).mean(axis=0)
        np.testing.assert_allclose(ends @ gap, 0.0, atol=1e-6)
        assert told.moved == len(ends) > 0
        heaviest = max(heaviest, told.burden_max)
        assert told.heaviest == heaviest


def test_who_acts_in_an_answer_alone_has_acted():
    """Nobody acts on the first model, everybody on the next: there are two worlds, and the batch is the answer."""

    class Second:
        name, caps, seen = "second", Caps(budget=1.0), None

        def members(self, crowd, number, rng):
            return np.arange(crowd.size)

        def act(self, view):
            self.seen = view.deployed.flat if self.seen is None else self.seen
            waits = np.array_equal(self.seen, view.deployed.flat)
            return Deed(moves=np.full((view.mine.size, 2), 0.0 if waits else 0.5))

    operator = PerformativelyStable(oar.NearestCentroid(), most_steps=2)
    one = next(oar.simulate(World(ARRIVALS, operator, others=[Second()], labels="keep", query=QUERY), rounds=1))
    np.testing.assert_allclose(one.batch.features, one.crowd.features + 0.5)
    np.testing.assert_allclose(one.state.flat, one.shadow.flat + 0.5)
    assert one.actors["second"].moved == 40


@pytest.mark.parametrize("seed", [0, 2, 8])
def test_critical_mass_under_a_stable_operator_is_that_of_members_who_respond(seed):
    """Members go by what is deployed; for every number of them, the fixed point is computed with NumPy alone."""
    people = 12

    def way(means):
        return 1.2 * (means[0] - means[1]) / np.linalg.norm(means[0] - means[1])

    def policy(view):
        return Deed(moves=np.tile(way(view.deployed.parameters.positions), (view.mine.size, 1)))

    asks = oar.Query([0.75, 0.75], goal=1)
    us = Collective("us", asks, oar.Perturb(1.5))
    operator = PerformativelyStable(oar.NearestCentroid(), tolerance=1e-12)
    made = World(Blobs([[0.0, 0.0], [2.0, 2.0]], people), operator, us, labels="keep")
    one = next(oar.simulate(made, policy, rounds=1, seed=seed))
    order = stream(seed, "order", "us", 0).permutation(people)

    def reached(count):
        means = one.deployed.parameters.positions
        for _ in range(200):
            features = one.crowd.features.copy()
            features[order[:count]] += way(means)
            means = np.array([features[one.crowd.codes == code].mean(axis=0) for code in (0, 1)])
        away = np.linalg.norm(means - 0.75, axis=1)
        return away[1] < away[0]

    count = round(one.critical_mass["us"] * people)
    assert 0 < count < people
    assert reached(count)
    assert not reached(count - 1)


def test_distance_filter_and_calendar_in_the_plain_operator():
    defence = [defences.DistanceFilter(share=0.1), defences.Delayed(2)]
    rounds = ran(Operator(oar.NearestCentroid(), oar.online.Window(1), defence))
    assert [one.state.retrained for one in rounds] == [False, True, False]
    for one in rounds:
        codes = one.crowd.codes
        assert (~one.state.kept).sum() == sum(int(0.1 * (codes == code).sum()) for code in (0, 1))
    np.testing.assert_array_equal(rounds[1].state.flat, rounds[2].state.flat)


def test_trimmed_centroids_under_every_rule_that_refits():
    for rule in (oar.online.FullRefit(), oar.online.Window(2)):
        rounds = ran(Operator(oar.NearestCentroid(), rule, defences.TrimmedCentroids(0.2)))
        assert np.isfinite(rounds[-1].state.parameters.positions).all()
        assert rounds[-1].state.retrained


def test_who_expects_to_be_gamed_deploys_once():
    pytest.importorskip("jax")
    rounds = ran(StrategicAware(oar.SoftmaxRegression(), 0.8), share=1.0)
    assert len({one.state.flat.tobytes() for one in rounds}) == 1
    assert not rounds[-1].state.retrained
    assert rounds[0].state.memory.accuracy >= rounds[0].state.memory.plain

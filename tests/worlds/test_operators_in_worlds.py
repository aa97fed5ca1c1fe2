"""Operators and defences in a running world."""

import numpy as np
import pytest

import oar
from oar import defences
from oar.worlds import Blobs, Operator, PerformativelyStable, StrategicAware, World
from oar.worlds.actors import StrategicIndividuals

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

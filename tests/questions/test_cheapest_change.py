"""The cheapest change within a limit of time: what is found is true, what is proved stays proved, and it says so."""

import time

import numpy as np
import pandas
import pytest

import oar
from oar import models
from oar.limits import Limit, Limits
from oar.questions.least.trials import OUT_OF_TIME
from oar.solvers.cheapest import branch_and_bound, highs


def people(size=120, columns=4):
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.integers(0, 9, (size, columns)), columns=[f"c{number}" for number in range(columns)])
    frame["label"] = np.where(frame.sum(axis=1) + rng.normal(0, 2, size) > 4 * columns, "yes", "no")
    return oar.Population.from_frame(frame, target="label")


WHO = {f"c{number}": 1 for number in range(4)}
LIMITS = {
    "columns": {name: Limit(cost=1.0 + 0.37 * place) for place, name in enumerate(WHO)},
    "rules": ["if c0 >= 3 then c1 <= 5", "if c2 >= 4 then c3 >= 3"],
}


@pytest.fixture(scope="module")
def asked():
    limits = Limits(LIMITS["columns"], rules=LIMITS["rules"])
    return oar.Cheapest(people(), models.SoftmaxRegression(l2=1e-2), limits)


@pytest.mark.parametrize("cost", ["l1", "l2", "l0"])
def test_with_no_time_nothing_is_claimed_that_is_not_so(asked, cost):
    query = oar.Query(WHO, "yes")
    whole = asked.of(query, cost)
    assert whole.proved
    hurried = asked.of(query, cost, time_limit=0)
    assert hurried.bound <= whole.cost * (1 + 1e-6)
    assert hurried.cost >= whole.bound * (1 - 1e-6)
    assert hurried.status in (oar.results.Status.ACHIEVED, oar.results.Status.STOPPED_EARLY)
    assert hurried.proved or hurried.note.endswith((OUT_OF_TIME, "bound.")) and OUT_OF_TIME in hurried.note
    if hurried.certificate is not None:  # what is proved can still be computed again
        assert hurried.certificate.bound == hurried.bound
    assert asked.of(query, cost).cost == whole.cost  # and no limit stays


@pytest.mark.parametrize("after", [1, 2, 4, 8])
def test_a_proof_that_is_broken_off_stands_for_what_it_has(asked, after, monkeypatch):
    """The clock is past the limit after so many looks at it, as it may be anywhere."""
    query, looks = oar.Query(WHO, "yes"), iter(range(after))
    whole = asked.of(query, "l1")
    monkeypatch.setattr(branch_and_bound, "is_late", lambda: next(looks, None) is None)
    broken_off = asked.of(query, "l1")
    assert broken_off.bound <= whole.cost * (1 + 1e-6)
    assert broken_off.certificate.bound == broken_off.bound
    assert broken_off.cost >= whole.bound * (1 - 1e-6)


def test_impossible_stays_proved_however_short_the_time(asked):
    own = {name: Limit(immutable=True) for name in WHO}
    advice = asked.of(oar.Query(WHO, "yes"), own=own, time_limit=0)
    assert advice.status is oar.results.Status.IMPOSSIBLE
    assert advice.proved


def test_programmes_get_what_is_left(asked, monkeypatch):
    import scipy.optimize

    milp, given = scipy.optimize.milp, []

    def spied(*arguments, **named):
        given.append(named["options"]["time_limit"])
        return milp(*arguments, **named)

    monkeypatch.setattr(scipy.optimize, "milp", spied)
    asked.of(oar.Query(WHO, "yes"), "l2", time_limit=5.0)
    assert given
    assert max(given) <= 5.0 < highs.SECONDS
    given.clear()
    asked.of(oar.Query(WHO, "yes"), "l2", time_limit=0)
    assert not given


def test_a_search_ends_with_what_it_has():
    ready = oar.Cheapest(people(), models.GaussianNaiveBayes())
    query = oar.Query(WHO, "yes")
    whole = ready.of(query)
    began = time.monotonic()
    hurried = ready.of(query, time_limit=0)
    spent = time.monotonic() - began
    assert whole.success
    assert hurried.cost >= 0.999 * whole.cost or not hurried.success
    assert OUT_OF_TIME in hurried.explanation
    assert spent < 60


@pytest.mark.parametrize("limit", [-1, "soon", True])
def test_what_is_no_time_is_refused(asked, limit):
    with pytest.raises(oar.errors.DataError, match="time_limit: must be a number of seconds"):
        asked.of(oar.Query(WHO, "yes"), time_limit=limit)

"""Who is drawn stays drawn: of a share for ever, of a count unless lower lots come."""

from typing import Any

import numpy as np
import pytest

import oar
from oar.worlds import (
    AdvisedIndividuals,
    Blobs,
    Collective,
    CompetingCollective,
    Curators,
    DoNothing,
    FromPopulation,
    GradientMatching,
    Labellers,
    Operator,
    StrategicIndividuals,
    World,
    simulate,
)
from oar.worlds.people.random_streams import drawn_count, drawn_share, lots, stream

RNG = np.random.default_rng(0)
PEOPLE = (RNG.normal(size=(30, 2)) + 2.0 * (np.arange(30) % 2)[:, None], np.arange(30) % 2)
QUERY = (0.9, 0.2)


def collective(name: str, **settings: Any) -> Collective:
    return Collective(name, oar.Query(QUERY, 1), oar.Perturb(0.1), share=0.5, **settings)


ACTORS = {
    "collective": collective("us"),
    "competing": CompetingCollective(collective("them"), DoNothing()),
    "strategic": StrategicIndividuals(0.5, goal=1, budget=0.1),
    "advised": AdvisedIndividuals(0.5, goal=1, budget=0.1),
    "labellers": Labellers(QUERY, 1, most=0, share=0.5),
    "curators": Curators(QUERY, 1, drop=1, share=0.5, refits=1),
    "matching": GradientMatching(QUERY, 1, share=0.5, budget=0.1, steps=1, restarts=0),
}


@pytest.mark.parametrize("actor", ACTORS.values(), ids=ACTORS)
def test_who_comes_again_is_one_of_them_again(actor: Any) -> None:
    """30 people, of whom 40 rows arrive in a round: most are there twice, and again and again."""
    together = actor if isinstance(actor, Collective) else None
    made = World(
        FromPopulation(PEOPLE, 40), Operator(oar.NearestCentroid()), together,
        others=[] if together else [actor], labels="keep", history=PEOPLE,
    )  # fmt: skip
    member: dict[int, bool] = {}
    policy = DoNothing() if together else None
    for one in simulate(made, policy, rounds=4, critical_masses=False):
        mine = np.isin(np.arange(40), one.acts[0].mine)
        for person, belongs in zip(one.crowd.persons.tolist(), mine.tolist(), strict=True):
            assert member.setdefault(person, belongs) == belongs
    assert 8 <= sum(member.values()) <= 22


def test_shares_are_chances() -> None:
    crowd = Blobs([[0.0], [1.0]], 4000).draw(3, np.random.default_rng(0))
    some = np.arange(1000, 4000)
    drawn = drawn_share(0.2, some, crowd, np.random.default_rng(1))
    assert drawn.min() >= 1000
    assert (np.diff(drawn) > 0).all()
    assert drawn.size == pytest.approx(600, abs=4 * np.sqrt(0.16 * 3000))
    assert drawn_share(0.0, some, crowd, np.random.default_rng(1)).size == 0
    assert drawn_share(1.0, some, crowd, np.random.default_rng(1)).size == 3000
    found = lots(np.arange(20_000), 5)
    assert found.min() >= 0
    assert found.max() < 1
    np.testing.assert_allclose(np.histogram(found, 10, (0, 1))[0], 2000, rtol=0.1)


def test_counts_are_those_with_the_lowest_lots() -> None:
    crowd = Blobs([[0.0], [1.0]], 50).draw(0, np.random.default_rng(0))
    most, fewer = (drawn_count(count, np.arange(50), crowd, np.random.default_rng(1)) for count in (20, 8))
    assert (most.size, fewer.size) == (20, 8)
    assert set(fewer) < set(most)
    assert drawn_count(60, np.arange(50), crowd, np.random.default_rng(1)).size == 50


def test_names_that_crc32_cannot_tell_apart_have_their_own_lots() -> None:
    assert stream(0, "members", "plumless").integers(2**63) != stream(0, "members", "buckeroo").integers(2**63)

"""Label policies: the same advice stays valid or collapses with adoption, depending on them alone."""

from typing import Any

import numpy as np
import pytest

import oar
from oar.online import Window
from oar.worlds import Collective, FromPopulation, Individually, Operator, World, simulate

WEIGHTS = np.array([1.5, -1.0, 0.5, 0.0])


def credit(size: int = 400, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return a table of standardised features, and who repays: more than half do not."""
    rows = np.random.default_rng(seed).normal(size=(size, 4))
    return rows, repays(rows)


def repays(rows: np.ndarray) -> Any:
    return (rows @ WEIGHTS > 0.3).astype(int)


def validity(labels: str, adoption: float) -> float:
    """Return the share of advice, half a unit past the boundary, that holds after one refit."""
    people = credit()
    world = World(
        FromPopulation(people, 400, way="walk", label=repays),
        Operator(oar.SoftmaxRegression(l2=1e-3), Window(1)),
        Collective("applicants", oar.Query(np.zeros(4), goal=1), oar.Perturb(10.0), share=adoption),
        labels=labels,
        history=people,
        holdout=people,
    )
    (one,) = simulate(world, Individually(margin=0.5), rounds=1, critical_masses=False)
    assert one.actors["applicants"].moved > 0
    return one.validity


def test_advice_collapses_with_adoption_where_labels_stay() -> None:
    found = [validity("keep", adoption) for adoption in (0.02, 0.5, 1.0)]
    assert found[0] == 1.0
    assert 0.1 < found[1] < 0.9
    assert found[2] < 0.1


@pytest.mark.parametrize("labels", ["oracle", "relabel"])
def test_advice_stays_valid_where_labels_follow(labels: str) -> None:
    assert validity(labels, 1.0) > 0.99


def test_the_policy_is_never_implicit() -> None:
    parts = FromPopulation(credit(20), 5), Operator(oar.NearestCentroid())
    with pytest.raises(oar.errors.OptionError, match=r"labels: must say .*'keep'.*'oracle'.*'relabel'.*got none"):
        World(*parts)
    with pytest.raises(oar.errors.OptionError, match="Did you mean 'relabel'"):
        World(*parts, labels="relable")

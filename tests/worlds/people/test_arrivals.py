"""Who arrives: given people, drifting clouds, batches; the same for the same seed."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import oar
from oar.worlds import Blobs, FromBatches, FromPopulation
from oar.worlds.people.crowds import pooled

PEOPLE = (np.arange(12.0).reshape(6, 2), ["no", "yes", "no", "yes", "no", "yes"])
MEANS = [[0.0, 0.0], [4.0, 0.0]]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_walking_brings_everyone_once_and_then_ends() -> None:
    arrivals = FromPopulation(PEOPLE, 2, way="walk", groups=list("aabbcc"))
    crowds = [arrivals.draw(number, rng()) for number in range(3)]
    assert np.concatenate([crowd.persons for crowd in crowds]).tolist() == list(range(6))
    assert [crowd.groups.tolist() for crowd in crowds] == [["a", "a"], ["b", "b"], ["c", "c"]]
    assert [arrivals.classes[code] for code in crowds[1].codes] == ["no", "yes"]
    with pytest.raises(oar.errors.DataError, match=r"ends before round 3.* at most 3 rounds"):
        arrivals.draw(3, rng())


def test_resampled_people_are_somebody_and_drift() -> None:
    arrivals = FromPopulation(oar.Population(*PEOPLE), 50, drift=[1.0, -1.0])
    first, later = arrivals.draw(0, rng(1)), arrivals.draw(3, rng(1))
    assert_allclose(first.features, PEOPLE[0][first.persons])
    assert later.persons.tolist() == first.persons.tolist()
    assert_allclose(later.features - first.features, np.tile([3.0, -3.0], (50, 1)))
    assert arrivals.draw(0, rng(2)).persons.tolist() != first.persons.tolist()


def test_true_labels_are_asked_before_the_drift() -> None:
    def truth(rows: Any) -> Any:
        return np.where(rows[:, 0] > 5, "yes", "no")

    arrivals = FromPopulation(PEOPLE, 4, drift=[10.0, 0.0], label=truth)
    crowd = arrivals.draw(2, rng())
    rows = np.array([[24.0, 0.0], [26.0, 0.0]])
    assert arrivals.label(rows, crowd, np.arange(2), 2, rng()).tolist() == [0, 1]
    with pytest.raises(oar.errors.OptionError, match="'oracle' asks the arrivals for true labels"):
        FromPopulation(PEOPLE, 4).label(rows, crowd, np.arange(2), 2, rng())
    wrong = FromPopulation(PEOPLE, 4, label=lambda rows: ["perhaps"] * len(rows))
    with pytest.raises(oar.errors.DataError, match="labels among .*'perhaps'"):
        wrong.label(rows, crowd, np.arange(2), 2, rng())


def test_clouds_drift_in_place_and_balance() -> None:
    arrivals = Blobs(MEANS, 4000, spread=0.5, shares=[0.5, 0.5], drift=[[0.0, 1.0], [0.0, 0.0]], balance=[0.1, -0.1])
    crowd = arrivals.draw(3, rng())
    assert_allclose((crowd.codes == 0).mean(), 0.8, atol=0.03)
    assert_allclose(crowd.features[crowd.codes == 0].mean(axis=0), [0.0, 3.0], atol=0.05)
    assert_allclose(crowd.features[crowd.codes == 1].std(axis=0), [0.5, 0.5], atol=0.05)
    assert crowd.persons[0] == 12_000
    with pytest.raises(oar.errors.DataError, match="in round 6"):
        arrivals.draw(6, rng())


def test_the_most_probable_class_is_the_true_one() -> None:
    arrivals = Blobs(MEANS, 10, shares=[0.9, 0.1])
    crowd = arrivals.draw(0, rng())
    rows = np.array([[1.9, 0.0], [2.1, 0.0], [3.0, 0.0]])
    density = 0.5 * np.exp(-0.5 * ((rows[:, None] - np.array(MEANS)) ** 2).sum(axis=2)) * np.array([0.9, 0.1])
    assert arrivals.label(rows, crowd, np.arange(3), 0, rng()).tolist() == density.argmax(axis=1).tolist() == [0, 0, 1]


def test_batches_agree_on_classes_and_end() -> None:
    arrivals = FromBatches([([[0.0]], ["b"]), ([[1.0], [2.0]], ["a", "c"])])
    assert arrivals.classes == ("a", "b", "c")
    assert arrivals.draw(1, rng()).codes.tolist() == [0, 2]
    assert arrivals.draw(1, rng()).persons.tolist() == [1, 2]
    with pytest.raises(oar.errors.DataError, match=r"ends before round 2: it has 2 batches"):
        arrivals.draw(2, rng())


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: FromPopulation(PEOPLE, 0), "per_round: must be a whole number ≥ 1, got 0"),
        (lambda: FromPopulation(PEOPLE, 7, way="walk"), "at most the 6 people"),
        (lambda: FromPopulation(PEOPLE, 2, way="wlak"), "Did you mean 'walk'"),
        (lambda: FromPopulation(PEOPLE, 2, drift=[1.0]), "drift: must be 2 finite numbers"),
        (lambda: FromPopulation(PEOPLE, 2, groups=["a"]), "groups: must be one for each of the 6"),
        (lambda: FromPopulation(3, 2), "people: must be an oar.Population"),
        (lambda: Blobs([0.0, 1.0], 5), "means: must be"),
        (lambda: Blobs(MEANS, 5, shares=[0.5, 0.6]), "add up to 1"),
        (lambda: Blobs(MEANS, 5, spread=0.0), "spread: must be"),
        (lambda: Blobs(MEANS, 5, classes=["b", "a"]), "in sorted order"),
        (lambda: Blobs(MEANS, 5, drift=[1.0, 2.0, 3.0]), "drift: must be"),
        (lambda: FromBatches([]), "one for each round, got none"),
        (lambda: FromBatches([PEOPLE, ([[1.0]], ["no"])]), r"batches\[1\]: must have 2 features"),
        (lambda: FromBatches([PEOPLE], persons=[[-1] * 6]), "whole numbers ≥ 0"),
    ],
)
def test_arrivals_that_cannot_be(make: Any, told: str) -> None:
    with pytest.raises(oar.errors.OARError, match=told):
        make()


def test_batches_are_pooled_with_the_labels_that_they_have() -> None:
    rows = np.zeros((2, 1))
    for labels in ([0, 1], [False, True], [0.0, 1.0]):
        batch = oar.Population(rows, labels)
        both = pooled((batch, batch))
        assert both.classes == batch.classes
        assert [type(label) for label in both.classes] == [type(label) for label in batch.classes]
        assert both.labels.tolist() == labels * 2

"""The plain operator against refits by scikit-learn, and what it keeps from round to round."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import oar
from oar.defences import Delayed
from oar.online import ExponentialMeans, FullRefit, GradientSteps, Window
from oar.worlds import Blobs, FromBatches, Operator, World, simulate

MEANS = [[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]


def rounds(operator: Operator, size: int = 40, count: int = 3) -> list[Any]:
    return list(simulate(World(Blobs(MEANS, size), operator, labels="keep"), rounds=count))


def read(found: list[Any], batches: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return what a refit in the last round reads."""
    history = found[0].deployed.memory
    handed = [*history, *(one.batch for one in found)][0 if batches is None else -batches :]
    return np.vstack([one.features for one in handed]), np.concatenate([one.labels for one in handed])


# With 1,000 people a round passes are compiled, and everything so far is filled up.
@pytest.mark.parametrize(("size", "rule", "batches"), [(40, Window(2), 2), (1000, FullRefit(), None)])
def test_refits_are_those_of_scikit_learn(size: int, rule: Any, batches: int | None) -> None:
    from sklearn.linear_model import LogisticRegression

    found = rounds(Operator(oar.SoftmaxRegression(l2=0.01), rule), size)
    features, labels = read(found, batches)
    fitted = LogisticRegression(C=1 / (0.01 * len(labels)), tol=1e-10, max_iter=1000).fit(features, labels)
    own = found[-1].state.parameters
    assert_allclose(own[:, :-1], fitted.coef_, atol=1e-5)
    assert_allclose(own[:, -1] - own[:, -1].mean(), fitted.intercept_ - fitted.intercept_.mean(), atol=1e-5)


@pytest.mark.parametrize(("rule", "kept"), [(FullRefit(), 4), (Window(3), 2), (Window(1), 0), (GradientSteps(0.1), 0)])
def test_what_the_rule_reads_is_kept_and_no_more(rule: Any, kept: int) -> None:
    assert len(rounds(Operator(oar.NearestCentroid(), rule))[-1].state.memory) == kept


def test_means_that_forget() -> None:
    found = rounds(Operator(oar.NearestCentroid(), ExponentialMeans(0.3)))
    means = found[0].deployed.parameters.positions
    for one in found:
        own = [one.batch.features[one.batch.labels == code].mean(axis=0) for code in range(3)]
        means = 0.7 * means + 0.3 * np.array(own)
        assert_allclose(one.state.parameters.positions, means)


def test_without_a_refit_data_are_kept_and_nothing_changes() -> None:
    found = rounds(Operator(oar.NearestCentroid(), defence=Delayed(2)), count=4)
    assert [one.retrained for one in found].count(True) == 2
    for one in found:
        assert one.retrained or (one.shift == 0 and one.changed == 0)
    last = max(number for number, one in enumerate(found) if one.retrained)
    features, labels = read(found[: last + 1], None)
    assert_allclose(found[last].state.parameters.positions[0], features[labels == 0].mean(axis=0))


@pytest.mark.parametrize(
    "rule", [ExponentialMeans(0.5), Window(1), Window(2), GradientSteps(0.4), FullRefit()], ids=str
)
def test_what_arrives_while_nothing_is_updated_is_one_batch_to_the_next_update(rule: Any) -> None:
    """Two updates in six rounds are those of two rounds of thrice as many people."""
    shifts = np.array([0.0, 10.0, 20.0, 5.0, -5.0, 0.0])
    base = np.array([[0.0, 1.0], [2.0, 0.0], [0.5, 0.5], [1.5, -1.0]])
    codes, history = np.array([0, 1, 0, 1]), (np.array([[0.0, 0.0], [1.0, 1.0]]), [0, 1])
    batches = [(base + shift, codes) for shift in shifts]
    together = [tuple(np.concatenate(part) for part in zip(*some, strict=True)) for some in (batches[:3], batches[3:])]

    def found(given: Any, defence: Any) -> list[Any]:
        operator = Operator(oar.NearestCentroid(), rule, defence)
        world = World(FromBatches(given), operator, labels="keep", history=history, holdout=history)
        return list(simulate(world, rounds=len(given)))

    late, long = found(batches, Delayed(3)), found(together, None)
    assert [one.retrained for one in late] == [False, False, True] * 2
    for one, same in ((late[2], long[0]), (late[5], long[1])):
        assert_allclose(one.state.flat, same.state.flat)
    if isinstance(rule, ExponentialMeans):
        start, means = np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([[0.25, 0.75], [1.75, -0.5]]) + 10.0
        assert_allclose(late[2].state.parameters.positions, (start + means) / 2)
    assert rule.reads is None or len(late[-1].state.memory) == rule.reads - 1


class InPlace:
    """Half of the way towards zero, by changing what was deployed before."""

    name, reads, returns = "in place", 1, slice(None)

    def update(self, update: Any) -> Any:
        update.before[:] *= 0.5
        return update.before[self.returns]

    def pull_back(self, update: Any, after: Any, adjoint: Any) -> Any:
        raise NotImplementedError


def test_a_rule_that_works_in_place_changes_nothing_that_is_recorded() -> None:
    first, second, _ = rounds(Operator(oar.NearestCentroid(), InPlace()))
    assert_allclose(first.deployed.flat, 2 * first.state.flat)
    assert_allclose(first.shift, np.linalg.norm(first.state.flat))
    assert_allclose(second.deployed.parameters.positions, first.state.parameters.positions)
    assert_allclose(second.shift, 0.5 * first.shift)


def test_a_rule_of_the_wrong_length_is_refused_by_name() -> None:
    rule = InPlace()
    rule.returns = slice(1, None)
    with pytest.raises(
        oar.errors.DataError, match=r"round 0, the bank: rule: in place must return 6 parameters, got shape"
    ):
        rounds(Operator(oar.NearestCentroid(), rule, name="the bank"))


def test_rules_that_do_not_fit() -> None:
    with pytest.raises(oar.errors.OptionError, match="a scaler changes"):
        Operator(oar.models.Scaled(oar.SoftmaxRegression()), GradientSteps(0.1))
    with pytest.raises(oar.errors.OptionError, match=r"rule: must be one of oar.online's rules"):
        Operator(oar.NearestCentroid(), "full")
    assert len(rounds(Operator(oar.models.Scaled(oar.SoftmaxRegression()), FullRefit()), count=2)) == 2

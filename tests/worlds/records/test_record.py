"""Every number that is recorded of a tiny world, computed again with NumPy alone."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import oar
from oar.worlds import Collective, Deed, FromBatches, Operator, World, crowd_of, simulate
from oar.worlds.people.random_streams import stream

QUERY, BUDGET, NAME = np.array([1.1, 0.2]), 1.2, "us"


def drawn(seed: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return people of two classes, of whom both are there."""
    rng = np.random.default_rng(seed)
    codes = np.append([0, 1], rng.integers(2, size=size - 2))
    return rng.normal(size=(size, 2)) + 2.0 * codes[:, None] * np.array([1.0, 0.0]), codes


def towards_the_query(view: Any) -> Deed:
    """Members of class 1 go to the query, others away; all but the first are promised class 1 there."""
    rows, codes = view.crowd.features[view.mine], view.crowd.codes[view.mine]
    ways = np.where((codes == 1)[:, None], QUERY - rows, rows - QUERY)
    moves = 0.9 * BUDGET * ways / np.linalg.norm(ways, axis=1)[:, None]
    promised = np.ones(view.mine.size, dtype=int)
    promised[0] = -1
    return Deed(moves=moves, advice=(rows + moves, promised))


class ByHand:
    """Nearest centroid of everything so far."""

    def __init__(self, features: np.ndarray, codes: np.ndarray) -> None:
        self.features, self.codes = features, codes
        self.means = np.array([features[codes == code].mean(axis=0) for code in (0, 1)])

    def with_batch(self, features: np.ndarray, codes: np.ndarray) -> "ByHand":
        return ByHand(np.vstack([self.features, features]), np.append(self.codes, codes))

    def distances(self, rows: np.ndarray) -> np.ndarray:
        return np.array([[math.dist(row, mean) for mean in self.means] for row in rows])

    def predicted(self, rows: np.ndarray) -> np.ndarray:
        return self.distances(rows).argmin(axis=1)

    @property
    def loss(self) -> float:
        near, far = self.distances(QUERY[None])[0, 1], self.distances(QUERY[None])[0, 0]
        return math.log(1 + math.exp(near - far))

    @property
    def reached(self) -> bool:
        other, goal = self.distances(QUERY[None])[0]
        return bool(goal < other)


def check_critical_mass(
    found: float, seed: int, number: int, model: ByHand, batch: Any, mine: np.ndarray, moves: np.ndarray
) -> None:
    """Try the first m members of the order, for every m."""
    order = stream(seed, "order", NAME, number).permutation(mine.size)
    reached = []
    for count in range(mine.size + 1):
        features = batch[0].copy()
        features[mine[order[:count]]] += moves[order[:count]]
        reached.append(model.with_batch(features, batch[1]).reached)
    if reached[0] or not reached[-1]:
        assert_allclose(found, 0.0 if reached[0] else np.nan)
        return
    count = round(found * mine.size)
    assert reached[count]
    assert not reached[count - 1]
    if reached == sorted(reached):  # once enough, always enough
        assert count == reached.index(True)


# Of members, these worlds need 2/5 and 1/5, all 4 and more than all, more than all and 1/6, 4/5 and 3/5.
@pytest.mark.parametrize("seed", [14, 16, 18, 50])
@pytest.mark.parametrize("labels", ["keep", "relabel", "oracle"])
def test_every_number_of_two_rounds(seed: int, labels: str) -> None:
    history, batches = drawn(seed, 6), [drawn(seed + 10, 6), drawn(seed + 20, 6)]
    held, held_codes = drawn(seed + 30, 9)
    groups = np.array(["a", "b", "a", "a", "b", "b", "a", "b", "a"])
    world = World(
        FromBatches(batches, persons=True, label=lambda rows: (rows[:, 1] > 0).astype(int)),
        Operator(oar.NearestCentroid()),
        Collective(NAME, oar.Query(QUERY, goal=1), oar.Perturb(BUDGET), share=0.8),
        labels=labels,
        history=history,
        holdout=crowd_of((held, held_codes), groups),
    )
    simulation = simulate(world, towards_the_query, rounds=2, seed=seed)
    model = shadow = ByHand(*history)
    spent, advised, promised = np.zeros(6), [], []
    rounds = []
    for number, one in enumerate(simulation):
        rounds.append(one)
        rows, codes = batches[number]
        mine = one.acts[0].mine
        size = mine.size
        assert 3 <= size <= 6
        assert number == 0 or mine.tolist() == rounds[0].acts[0].mine.tolist()  # once a member, always one
        ways = np.where((codes[mine] == 1)[:, None], QUERY - rows[mine], rows[mine] - QUERY)
        moves = np.array([0.9 * BUDGET * way / math.hypot(*way) for way in ways])
        features, handed = rows.copy(), codes.copy()
        features[mine] += moves
        if labels == "relabel":
            handed[mine] = model.predicted(features[mine])
        elif labels == "oracle":
            handed[mine] = features[mine, 1] > 0
        assert_allclose(one.batch.features, features)
        assert one.batch.labels.tolist() == handed.tolist()
        after, later = model.with_batch(features, handed), shadow.with_batch(rows, codes)
        spent[mine] += 0.9 * BUDGET
        advised.append(features[mine][1:])
        promised.append(np.ones(size - 1))

        assert_allclose(one.state.parameters.positions, after.means)
        assert_allclose(one.shadow.parameters.positions, later.means)
        assert_allclose(one.outcomes[NAME].loss, after.loss)
        assert one.outcomes[NAME].prediction == int(after.reached)
        assert one.outcomes[NAME].success == after.reached
        assert_allclose(one.before[NAME].loss, model.loss)
        assert_allclose(one.shift, np.linalg.norm(after.means - model.means))
        said, otherwise = after.predicted(held), later.predicted(held)
        assert one.accuracy == (said == held_codes).mean()
        assert one.changed == (said != model.predicted(held)).mean()
        assert one.collateral == (said != otherwise).mean()
        assert_allclose(one.accuracy_fall, (otherwise == held_codes).mean() - (said == held_codes).mean())
        for group in "ab":
            part, told = groups == group, one.groups[group]
            assert told.people == part.sum()
            assert_allclose(told.accuracy, (said == held_codes)[part].mean())
            assert_allclose(told.changed, (said != otherwise)[part].mean())
            fall = (otherwise == held_codes)[part].mean() - (said == held_codes)[part].mean()
            assert_allclose(told.accuracy_fall, fall, atol=1e-15)
        valid = [(after.predicted(where) == what) for where, what in zip(advised, promised, strict=True)]
        assert_allclose(one.validity, np.concatenate(valid).mean())
        assert [(each.given, each.age, each.people) for each in one.advice] == [
            (given, number - given, size - 1) for given in range(number + 1)
        ]
        assert_allclose([each.valid for each in one.advice], [each.mean() for each in valid])
        done = one.actors[NAME]
        assert (done.members, done.acting, done.moved, done.filtered) == (size, size, size, 0)
        assert_allclose(
            [done.burden_mean, done.burden_max, done.burden_total, done.heaviest],
            [0.9 * BUDGET, 0.9 * BUDGET, 0.9 * size * BUDGET, spent.max()],
        )
        persons, totals = one.spent[NAME]
        assert persons.tolist() == np.flatnonzero(spent).tolist()
        assert_allclose(totals, spent[spent > 0])
        if labels == "keep":
            check_critical_mass(one.critical_mass[NAME], seed, number, model, batches[number], mine, moves)
        model, shadow = after, later
    check_table(simulation, rounds)


def check_table(simulation: Any, rounds: list[Any]) -> None:
    """The table repeats the rounds, column by column."""
    table = simulation.table()
    assert table["round"].tolist() == [0, 1]
    assert table["collective"].tolist() == [NAME, NAME]
    for column in ("accuracy", "accuracy_fall", "collateral", "validity", "shift", "changed", "retrained"):
        assert table[column].tolist() == [getattr(one, column) for one in rounds]
    for column in ("loss", "success", "prediction"):
        assert table[column].tolist() == [getattr(one.outcomes[NAME], column) for one in rounds]
    for column in ("members", "acting", "burden_mean", "burden_max", "burden_total", "heaviest", "filtered"):
        assert table[column].tolist() == [getattr(one.actors[NAME], column) for one in rounds]
    assert_allclose(table["critical_mass"], [one.critical_mass[NAME] for one in rounds])
    told = rounds[0].acts[0].mine.size - 1
    assert table["advice"].tolist() == [told, 2 * told]
    assert table["collateral_worst"].tolist() == [max(each.changed for each in one.groups.values()) for one in rounds]
    by_group = simulation.by_group()
    assert by_group["people"].tolist() == [5, 4, 5, 4]
    assert simulation.by_advice()["age"].tolist() == [0, 1, 0]
    assert simulation.by_actor()["burden_total"].tolist() == table["burden_total"].tolist()

"""Outcomes that depend on the deployed model's decisions: a tiny world, computed again with NumPy alone."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import oar
from oar.errors import DataError, OptionError
from oar.worlds import Caps, Collective, Deed, DoNothing, FromBatches, Operator, Replan, World, crowd_of, simulate
from oar.worlds.people.random_streams import stream

SIZE, SEED, SHIFT = 12, 5, np.array([0.7, 0.0])
QUERY = np.array([1.2, 0.0])


def drawn(seed: int, size: int = SIZE) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = np.append([0, 1], rng.integers(2, size=size - 2))
    return rng.normal(size=(size, 2)) + 2.0 * codes[:, None] * np.array([1.0, 0.0]), codes


HISTORY, BATCHES, HELD = drawn(52), [drawn(53), drawn(54), drawn(55)], drawn(9, 40)


class Loans(FromBatches):
    """Who is refused a loan has no chance to repay it, but for one in three, who finds one elsewhere."""

    def decided(self, crowd: Any, predicted: Any, number: int, rng: np.random.Generator) -> Any:
        got = (predicted == 1) | (rng.random(crowd.size) < 1 / 3)
        groups = np.where(predicted == 1, "granted", "refused")
        return dataclasses.replace(crowd, codes=np.where(got, crowd.codes, 0), groups=groups)


class Early:
    """The first two move before the decision."""

    name, caps, before_decision = "early", Caps(budget=1.0), True

    def members(self, crowd: Any, number: int, rng: Any) -> Any:
        assert set(crowd.groups) == {"everyone"}  # nothing is decided yet
        return np.array([0, 1])

    def act(self, view: Any) -> Deed:
        assert view.crowd.codes.tolist() == BATCHES[view.number][1].tolist()
        return Deed(moves=np.tile(SHIFT, (2, 1)))


def up(view: Any) -> Deed:
    """Members on record as class 1 go left, those of class 0 right."""
    signs = np.where(view.crowd.codes[view.mine] == 1, -1.0, 1.0)
    return Deed(moves=np.column_stack([0.6 * signs, np.zeros(view.mine.size)]))


class ByHand:
    """Nearest centroid of the newest batch alone."""

    def __init__(self, features: np.ndarray, codes: np.ndarray) -> None:
        self.means = np.array([features[codes == code].mean(axis=0) for code in (0, 1)])

    def predicted(self, rows: np.ndarray) -> np.ndarray:
        return np.linalg.norm(rows[:, None] - self.means, axis=2).argmin(axis=1)

    def recorded(self, number: int, applied: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return codes on record, and who was granted."""
        said = self.predicted(applied) == 1
        lucky = stream(SEED, "decided", number).random(SIZE) < 1 / 3
        return np.where(said | lucky, BATCHES[number][1], 0), said


def world(**changes: Any) -> World:
    given = {
        "arrivals": Loans(BATCHES),
        "operator": Operator(oar.NearestCentroid(), oar.online.Window(1)),
        "collective": Collective("us", oar.Query(QUERY, goal=1), oar.Perturb(0.6), who="granted"),
        "others": [Early()],
        "labels": "keep",
        "history": HISTORY,
        "holdout": crowd_of(HELD),
    }
    return World(**{**given, **changes})


def test_every_round_is_decided_by_the_model_that_is_deployed_in_its_own_world() -> None:
    model = shadow = ByHand(*HISTORY)
    differed, masses = False, []
    for number, one in enumerate(simulate(world(), up, rounds=3, seed=SEED)):
        rows = BATCHES[number][0]
        applied = rows.copy()
        applied[:2] += SHIFT
        codes, granted = model.recorded(number, applied)
        assert one.on_record.codes.tolist() == codes.tolist()
        assert one.crowd.codes.tolist() == BATCHES[number][1].tolist()
        early, us = one.acts  # who acts before the decision comes first, and is no member of anybody else
        assert early.name == "early"
        assert us.mine.tolist() == [row for row in np.flatnonzero(granted) if row > 1]
        features = applied.copy()
        features[us.mine, 0] += 0.6 * np.where(codes[us.mine] == 1, -1, 1)
        assert_allclose(one.batch.features, features)
        assert one.batch.labels.tolist() == codes.tolist()
        after = ByHand(features, codes)
        untouched, otherwise = shadow.recorded(number, rows)
        later = ByHand(rows, untouched)
        assert_allclose(one.state.parameters.positions, after.means)
        assert_allclose(one.shadow.parameters.positions, later.means)
        differed |= (otherwise != granted).any() and (untouched != codes).any()
        assert_allclose(one.collateral, (after.predicted(HELD[0]) != later.predicted(HELD[0])).mean())
        falls = (later.predicted(HELD[0]) == HELD[1]).mean() - (after.predicted(HELD[0]) == HELD[1]).mean()
        assert_allclose(one.accuracy_fall, falls)
        order = us.mine[stream(SEED, "order", "us", number).permutation(us.mine.size)]
        reached = []
        for count in range(order.size + 1):
            fewer = applied.copy()
            fewer[order[:count]] = features[order[:count]]
            reached.append(ByHand(fewer, codes).predicted(QUERY[None])[0] == 1)
        assert reached == sorted(reached)
        expected = reached.index(True) / order.size if reached[-1] else np.nan
        assert_allclose(one.critical_mass["us"], expected)
        masses.append(expected)
        model, shadow = after, later
    assert differed  # the shadow's own model decided otherwise
    assert any(0 < mass < 1 for mass in masses)


class Asks(Operator):
    """Writes down how people would respond to the model of the history, and trains on that."""

    def retrain(self, state: Any, batch: Any, number: int, respond: Any, rng: Any) -> Any:
        if number == 0:
            self.first = state
        return super().retrain(state, respond(self.first), number, respond, rng)


def test_who_asks_how_people_would_respond_hears_what_would_be_decided() -> None:
    first = ByHand(*HISTORY)
    operator = Asks(oar.NearestCentroid(), oar.online.Window(1))
    rounds = list(simulate(world(operator=operator), up, rounds=2, seed=SEED))
    rows = BATCHES[1][0]
    applied = rows.copy()
    applied[:2] += SHIFT
    codes, granted = first.recorded(1, applied)
    mine = [row for row in np.flatnonzero(granted) if row > 1]
    applied[mine, 0] += 0.6 * np.where(codes[mine] == 1, -1, 1)
    assert_allclose(rounds[1].state.parameters.positions, ByHand(applied, codes).means)
    assert_allclose(rounds[1].shadow.parameters.positions, ByHand(rows, first.recorded(1, rows)[0]).means)


def test_where_nobody_acts_there_is_one_world() -> None:
    rounds = list(simulate(world(others=[]), DoNothing(), rounds=3, seed=SEED))
    assert all(one.shadow is one.state and one.collateral == 0 for one in rounds)
    assert not any(one.actors["us"].acting for one in rounds)
    assert rounds[0].on_record.groups.tolist() != rounds[0].crowd.groups.tolist()


def test_plans_for_rounds_to_come_suppose_decisions_as_they_are_now() -> None:
    pytest.importorskip("jax")
    seen = []

    class Watched(Loans):
        def decided(self, crowd: Any, predicted: Any, number: int, rng: np.random.Generator) -> Any:
            seen.append(number)
            return super().decided(crowd, predicted, number, rng)

    ahead = Replan(horizon=2, goal_for="every")
    one = next(simulate(world(arrivals=Watched(BATCHES), others=[]), ahead, rounds=2, seed=SEED))
    assert 1 in seen  # the next round, of which there were no people yet
    assert one.actors["us"].moved > 0


def test_what_cannot_be_decided_is_refused() -> None:
    def returning(answer: Any) -> Any:
        found = Loans(BATCHES)
        found.decided = answer  # type: ignore[method-assign]
        return next(simulate(world(arrivals=found), up, rounds=1))

    for answer, complaint in (
        (lambda crowd, *_: None, "round 0: decided must return the Crowd of the 12 people who arrived, got an object"),
        (lambda crowd, *_: dataclasses.replace(crowd, features=crowd.features + 1), "with the features and persons"),
        (lambda crowd, *_: dataclasses.replace(crowd, codes=crowd.codes + 1), "a class code 0 to 1 for each of 12"),
    ):
        with pytest.raises(DataError, match=complaint):
            returning(answer)


def test_before_a_decision_there_are_no_labels_and_without_one_there_is_no_before() -> None:
    class Labels(Early):
        caps = Caps(labels=2)

        def act(self, view: Any) -> Deed:
            return Deed(codes=view.crowd.codes[view.mine])

    with pytest.raises(DataError, match="'early' in round 0: hands in labels before there are any on record"):
        next(simulate(world(others=[Labels()]), up, rounds=1))
    with pytest.raises(OptionError, match="'early' acts before a decision, and arrivals have none"):
        world(arrivals=FromBatches(BATCHES))

"""check_action passes sets that are convex, and finds every promise that is broken, with advice."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import oar
from oar.actions import Action
from oar.testing import ConformanceError, check_action


@dataclass(frozen=True, eq=False)
class Box(Action):
    """A box with sides of one's own."""

    sides: np.ndarray
    name: ClassVar[str] = "box"

    def reach(self, people):
        return float(np.linalg.norm(self.sides))

    def project(self, moves, who):
        return np.clip(moves, -self.sides, self.sides)

    def respond(self, directions, who):
        return np.where(directions > 0, self.sides, -self.sides)

    def violations(self, moves, who):
        return (np.abs(moves) - self.sides).max(axis=1)

    def scaled(self, share):
        return Box(share * self.sides, participants=self.participants, seed=self.seed)


SIDES = np.array([0.1, 0.5, 1.0])


@dataclass(frozen=True, eq=False)
class AtMostOne(Box):
    """At most one feature moves, which is not convex."""

    def project(self, moves, who):
        kept = np.clip(moves, -self.sides, self.sides)
        gains = moves**2 - (moves - kept) ** 2
        return np.where(gains == gains.max(axis=1, keepdims=True), kept, 0.0)

    def respond(self, directions, who):
        full = np.abs(directions) * self.sides
        return np.where(full == full.max(axis=1, keepdims=True), np.sign(directions) * self.sides, 0.0)

    def violations(self, moves, who):
        second = np.sort(np.abs(moves), axis=1)[:, -2]
        return np.maximum(second, super().violations(moves, who))


def broken(**methods):
    return type("Broken", (Box,), methods)(SIDES)


def test_a_box_passes():
    report = check_action(Box(SIDES))
    assert report.passed
    assert str(report).startswith("box: all 9 checks passed.")


def test_it_may_lack_scaled_and_some_may_stay():
    class Fixed(Box):
        scaled = None

    report = check_action(Fixed(SIDES, participants=0.5), np.random.default_rng(1).normal(size=(30, 3)))
    assert "no questions about budgets" in str(report)


@pytest.mark.parametrize(
    ("action", "failed", "said"),
    [
        (AtMostOne(SIDES), "nearest projections", "must be convex"),
        (broken(name=""), "interface", "Give it a name"),
        (broken(reach=lambda self, people: 0.0), "reach", "radius above 0"),
        (broken(reach=lambda self, people: 0.5), "feasible projections", "larger radius"),
        (broken(project=lambda self, moves, who: moves), "feasible projections", "agree to 1e-09"),
        (
            broken(project=lambda self, moves, who: 0.5 * np.clip(moves, -SIDES, SIDES)),
            "idempotent projections",
            "stay",
        ),
        (
            broken(respond=lambda self, directions, who: 0.9 * np.sign(directions) * SIDES),
            "farthest responses",
            "argmax",
        ),
        (
            broken(respond=lambda self, directions, who: 2 * np.sign(directions) * SIDES),
            "farthest responses",
            "allowed",
        ),
        (broken(violations=lambda self, moves, who: np.zeros(len(moves))), "violations", "audit knows nothing else"),
        (broken(scaled=lambda self, share: self), "scaled", "share · C"),
        (broken(project=lambda self, moves, who: moves[:2]), "staying", "finite numbers of shape"),
        (broken(project=lambda self, moves, who: 1 / 0), "staying", "mend it there"),
    ],
)
def test_what_is_broken_is_found(action, failed, said):
    report = check_action(action, raises=False)
    assert failed in [check.name for check in report.failed]
    assert any(said in f"{check.detail} {check.advice}" for check in report.failed if check.name == failed)
    with pytest.raises(ConformanceError):
        check_action(action)


def test_only_actions_are_checked():
    for wrong in (Box, oar.Perturb(1.0)):
        with pytest.raises(
            oar.errors.OptionError, match="must be an object of a class derived from oar.actions.Action"
        ):
            check_action(wrong)

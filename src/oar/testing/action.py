"""`check_action`: is an action of one's own a convex set, as loops and audits rely on?"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.own_action import Action, Who, asked
from oar.checks import is_text
from oar.errors import OptionError
from oar.people import Population
from oar.testing.report import Fault, Report, checked
from oar.typing import Features

Array = NDArray[np.float64]
PEOPLE, POINTS = 12, 400  # people who are asked about, and random points for each
SLACK = 1e-9  # of the reach: what the audit takes for rounding
CLOSE = 1e-7  # of the reach: by how much a random point may be nearer, or farther


def check_action(
    action: Any, features: Features | None = None, *, dimensions: int = 3, seed: int = 0, raises: bool = True
) -> Report:
    """Check an action of your own against random points, and say what it lacks.

    Args:
        action: what is checked, an `oar.actions.Action`.
        features: (n, d) people to check it on; None draws some.
        dimensions: d of drawn people.
        seed: what is drawn is drawn from this.
        raises: whether a failed check raises a ConformanceError, which lists all of them with advice; otherwise only
            the returned report does: `print` it.
    """
    if not isinstance(action, Action):
        got = (
            f"the class {action.__name__}" if isinstance(action, type) else f"an object of type {type(action).__name__}"
        )
        raise OptionError(f"action: must be an object of a class derived from oar.actions.Action, got {got}.")
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((PEOPLE, dimensions)) if features is None else np.asarray(features, dtype=np.float64)
    people = Population(rows, np.arange(len(rows)) % 2)
    return checked(str(action.name or type(action).__name__), ActionCase(action, people, rng), CHECKS, raises)


@dataclass
class ActionCase:
    """An action, people whose moves are asked about, and random points about their sets."""

    action: Action
    people: Population
    rng: np.random.Generator

    @cached_property
    def radii(self) -> Array:
        """How far each may move at the most."""
        return self.action.allowance(self.people).everyones(self.people.size)

    @cached_property
    def movers(self) -> NDArray[np.intp]:
        """Who may move."""
        return np.flatnonzero(self.radii > 0)

    @cached_property
    def who(self) -> Who:
        """The same as actions are asked about them."""
        return Who(np.asarray(self.people.features, dtype=np.float64)[self.movers], self.movers)

    @cached_property
    def points(self) -> Array:
        """(POINTS, m, d) random moves, from well inside everyone's ball to well outside."""
        shape = (POINTS, self.movers.size, self.people.dimensions)
        heading = self.rng.standard_normal(shape)
        heading /= np.linalg.norm(heading, axis=2, keepdims=True)
        return heading * self.rng.uniform(0, 2, (*shape[:2], 1)) * self.radii[self.movers, None]

    def said(self, method: str, values: Array) -> Array:
        """Return what the action says about these people."""
        return asked(self.action, method, values, self.who)

    def excess(self, moves: Array) -> float:
        """Return how far outside moves are at the most, in reaches."""
        return float((self.said("violations", moves) / self.radii[self.movers]).max())

    @cached_property
    def inside(self) -> Array:
        """(POINTS, m, d) random moves that are allowed, by projection."""
        return np.stack([self.said("project", moves) for moves in self.points])


def interface(case: ActionCase) -> str:
    """It has a name that a file can hold, and is a dataclass that can be changed a little."""
    kind = type(case.action)
    if not is_text(kind.name) or json.loads(json.dumps(kind.name)) != kind.name:
        raise Fault(f"its name is {kind.name!r}.", "Give it a name: a short text for reports and files.")
    nobody = np.zeros(case.people.size, dtype=bool)
    if not isinstance(dataclasses.replace(case.action, participants=nobody, seed=None), kind):
        raise Fault("participants cannot be changed.", "Derive a dataclass: @dataclass(frozen=True, eq=False).")
    return f"it is called {kind.name!r}."


def reach(case: ActionCase) -> str:
    """Somebody may move, and nobody infinitely far."""
    if not case.movers.size:
        raise Fault("its reach is 0 for everybody.", "Let reach return a radius above 0, or check it on other people.")
    return f"up to {case.radii.max():.4g}."


def staying(case: ActionCase) -> str:
    """To stay is allowed, and is its own projection."""
    stay = np.zeros((case.movers.size, case.people.dimensions))
    if case.excess(stay) > 0 or np.abs(case.said("project", stay)).max() > 0:
        raise Fault("staying is not allowed, or is projected elsewhere.", "Every set must hold the move 0.")
    return "everybody may stay."


def feasible(case: ActionCase) -> str:
    """What it projects to is allowed, and within the reach."""
    worst = max(map(case.excess, case.inside))
    if worst > SLACK:
        raise Fault(
            f"a projection is outside by {worst:.1e} of the reach.",
            f"Let project and violations agree to {SLACK:g}: the audit measures by violations alone.",
        )
    lengths = np.linalg.norm(case.inside, axis=2) / case.radii[case.movers]
    if lengths.max() > 1 + SLACK:
        raise Fault(
            f"an allowed move is {lengths.max():.6g} times the reach long.", "Let reach return a larger radius."
        )
    return f"{POINTS} projections of each are inside, to {max(worst, 0):.0e} of the reach."


def idempotent(case: ActionCase) -> str:
    """A projection is its own projection."""
    again = np.stack([case.said("project", moves) for moves in case.inside])
    off = float((np.linalg.norm(again - case.inside, axis=2) / case.radii[case.movers]).max())
    if off > CLOSE:
        raise Fault(
            f"a projection is moved by {off:.1e} of the reach when it is projected again.",
            "Moves that are allowed must stay as they are.",
        )
    return f"to {off:.0e} of the reach."


def nearest(case: ActionCase) -> str:
    """No allowed point is nearer than the projection: ⟨x − p, z − p⟩ ≤ 0 for every z in a convex set."""
    worst = 0.0
    for point, projected in zip(case.points, case.inside, strict=True):
        angles = np.einsum("nd,znd->zn", point - projected, case.inside - projected)
        worst = max(worst, float((angles.max(axis=0) / case.radii[case.movers] ** 2).max()))
    if worst > CLOSE:
        raise Fault(
            f"from a projection one can go nearer to the point within the set, by an angle of {worst:.1e}.",
            "project must return the nearest allowed move by ‖·‖₂, and the set must be convex: moves of at most k "
            "features, say, are not, and no loop with projections can use them.",
        )
    return f"no random point of the set is nearer, to {worst:.0e}."


def farthest(case: ActionCase) -> str:
    """No allowed point goes farther along a direction than the response, which is allowed itself."""
    worst = 0.0
    for heading in case.points:
        answer = case.said("respond", heading)
        if case.excess(answer) > SLACK:
            raise Fault(
                f"a response is outside by {case.excess(answer):.1e} of the reach.",
                "respond must return allowed moves.",
            )
        gained = np.einsum("nd,znd->zn", heading, case.inside).max(axis=0) - np.einsum("nd,nd->n", heading, answer)
        size = np.linalg.norm(heading, axis=1) * case.radii[case.movers]
        worst = max(worst, float((gained / np.where(size > 0, size, 1.0)).max()))
    if worst > CLOSE:
        raise Fault(
            f"a random point of the set goes farther than the response, by {worst:.1e} of the reach.",
            "respond must return argmax ⟨v, δ⟩ over the set: the gap is made of it, and would be below 0.",
        )
    return "no random point of the set goes farther, so gaps are at least 0."


def outside(case: ActionCase) -> str:
    """What is projected elsewhere is outside by its own measure."""
    far = np.linalg.norm(case.points - case.inside, axis=2) > CLOSE * case.radii[case.movers]
    excess = np.stack([case.said("violations", moves) for moves in case.points])
    if (excess[far] <= 0).any():
        raise Fault(
            f"{int((excess[far] <= 0).sum())} points that are projected elsewhere are not outside by violations.",
            "violations must be above 0 for every move that is not allowed: the audit knows nothing else.",
        )
    return f"{int(far.sum())} points outside are told as such."


def scaled(case: ActionCase) -> str:
    """Where it can be scaled, half of it is a half: points, and reach."""
    make = getattr(case.action, "scaled", None)
    if make is None:
        return "it has no scaled(share), so there are no questions about budgets."
    half = make(0.5)
    radii = half.allowance(case.people).everyones(case.people.size)
    moves = case.points[0]
    off = np.abs(asked(half, "project", moves, case.who) - 0.5 * case.said("project", 2 * moves)).max()
    if off > CLOSE * case.radii.max() or not np.allclose(radii, 0.5 * case.radii):
        raise Fault(
            "scaled(0.5) is not the set of half the size.",
            "Let scaled(share) return share · C, with participants, and a reach of that share.",
        )
    return "scaled(0.5) is half the set."


CHECKS = (
    ("interface", interface, ()),
    ("reach", reach, ("interface",)),
    ("staying", staying, ("reach",)),
    ("feasible projections", feasible, ("reach",)),
    ("idempotent projections", idempotent, ("feasible projections",)),
    ("nearest projections", nearest, ("feasible projections",)),
    ("farthest responses", farthest, ("feasible projections",)),
    ("violations", outside, ("feasible projections",)),
    ("scaled", scaled, ("feasible projections",)),
)

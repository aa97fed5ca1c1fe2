"""An action of your own: who may act, and within what convex set around where they stand.

A set C_i ∋ 0 of moves is told by three functions of many people at once: the nearest allowed move (`project`), the
allowed move that goes farthest along a direction (`respond`), and by how much a move is outside (`violations`). The
loop needs the first two; the audit asks the third alone. `reach` is a radius of a ball that holds the set: what is
proved impossible, or a bound, for that ball holds for the set within it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.actions.participation import Best, check_participants
from oar.actions.perturb import Perturb
from oar.actions.sets.norms import Allowance, Array, Norm
from oar.errors import DataError, OptionError
from oar.people import Population

SAME = 1e-9  # the share by which two budgets' ratios may differ


class Who(NamedTuple):
    """The people whose moves are asked about: their features (m, d), and their positions (m,) in the population."""

    features: Array
    positions: NDArray[np.intp]


@dataclass(frozen=True, eq=False, kw_only=True)
class Action:
    """Moves within a convex set of your own; derive a frozen dataclass from it, with the four methods below.

    A method `scaled(share)` that returns the same action with a set of that share, share · C, is for you to add: with
    it there are questions about budgets, such as `oar.minimal_budget`, whose budget is then the reach.

    Args:
        participants: who takes part, as in `oar.Perturb`, but not `oar.Best`.
        seed: with a share of participants: the seed of the draw (0 if left out).
    """

    name: ClassVar[str] = ""
    participants: Any = None
    seed: int | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without the people; call it from a `__post_init__` of your own."""
        check_participants(self.participants, self.seed, "Perturb")
        if isinstance(self.participants, Best):
            raise OptionError(
                "participants: oar.Best is for oar.Perturb, got it for an action of one's own; use a mask."
            )

    def reach(self, people: Population) -> Any:
        """Return how far anybody, or each (n,), may move at the most, as ‖δ‖₂: the set is within that ball."""
        raise self._lacks("reach", "a radius, or one for each person")

    def project(self, moves: Array, who: Who) -> Array:
        """Return the nearest allowed moves (m, d), by ‖·‖₂."""
        raise self._lacks("project", "the nearest allowed moves")

    def respond(self, directions: Array, who: Who) -> Array:
        """Return the allowed moves (m, d) with the largest inner products with these directions."""
        raise self._lacks("respond", "the allowed moves that go farthest")

    def violations(self, moves: Array, who: Who) -> Array:
        """Return by how much each move (m,) is outside its set, in units of moves; 0 or less inside."""
        raise self._lacks("violations", "by how much moves are outside")

    def _lacks(self, method: str, what: str) -> OptionError:
        return OptionError(f"{method}: must be a method of action {self.name!r} that returns {what}, got none.")

    def allowance(self, people: Population) -> Allowance:
        """Return balls that hold everybody's set."""
        return Perturb(self.reach(people), 2, self.participants, self.seed).allowance(people)


@dataclass(frozen=True, eq=False)
class ActionRegion:
    """Everybody's set of an own action, as loops over people ask for it; smaller radii are smaller copies of it."""

    action: Action
    who: Who
    full: Array  # (n,) the action's reach
    radii: Array  # (n,) how much of it may be used
    norm: Norm = field(default_factory=lambda: Norm.of(2))

    @staticmethod
    def of_people(action: Action, features: Array, radii: Array) -> ActionRegion:
        """Return the sets of n people, given as rows; whoever has a radius of 0 stays."""
        return ActionRegion(action, Who(features, np.arange(len(features))), radii, radii)

    def of(self, rows: Any) -> ActionRegion:
        """Return the sets of some of the people."""
        who = Who(self.who.features[rows], self.who.positions[rows])
        return dataclasses.replace(self, who=who, full=self.full[rows], radii=self.radii[rows])

    @property
    def movable(self) -> NDArray[np.intp]:
        """Which features somebody may move: nothing says that one may not."""
        return np.arange(self.who.features.shape[1])

    def along(self, columns: NDArray[np.intp]) -> ActionRegion:
        """Return the same: all features are movable."""
        return self

    def project(self, moves: Array) -> Array:
        """Return the nearest allowed moves."""
        share = self._share
        return share * asked(self.action, "project", moves / share, self.who)

    def farthest(self, directions: Array) -> tuple[Array, Array]:
        """Return the allowed moves that go farthest along these directions, and how far (n,)."""
        aims = self._share * asked(self.action, "respond", directions, self.who)
        return aims, np.einsum("nd,nd->n", directions, aims)

    @property
    def _share(self) -> Array:
        return (self.radii / self.full)[:, None]


def asked(action: Action, method: str, values: Array, who: Who) -> Array:
    """Return what an author's own code says about these people; raise where it cannot be that."""
    found = np.asarray(getattr(action, method)(values, who), dtype=np.float64)
    shape = values.shape[:1] if method == "violations" else values.shape
    if found.shape != shape or not np.isfinite(found).all():
        got = f"shape {found.shape}" if found.shape != shape else "numbers that are not finite"
        raise DataError(
            f"action: {method} of {action.name!r} must return finite numbers of shape {shape}, got {got}; "
            "oar.testing.check_action tells more."
        )
    return found


def with_changes(action: Action, allowance: Allowance, changes: dict[str, Any]) -> Action:
    """Return an own action with other participants, or with a reach that is the same share of everybody's."""
    others = {name: value for name, value in changes.items() if name in ("participants", "seed")}
    for name in changes.keys() - others.keys() - {"budget"}:
        raise OptionError(f"{name}: is a setting of oar.Perturb, and {action.name!r} is an action of one's own.")
    found = dataclasses.replace(action, **others)
    if "budget" not in changes:
        return found
    if not can_be_scaled(action):
        raise OptionError(
            f"action: must have a method scaled(share) for questions about budgets, got {action.name!r} without; "
            "let it return the action with that share of its set."
        )
    share = _share(np.asarray(changes["budget"]), allowance)
    return found if share == 1 else found.scaled(share)  # type: ignore[attr-defined]


def can_be_scaled(action: Action) -> bool:
    """Report whether an own action says what a share of its set is."""
    return callable(getattr(action, "scaled", None))


def _share(budget: Array, allowance: Allowance) -> float:
    """Return the common share of everybody's reach that budgets are; raise where they are not one share."""
    before = np.broadcast_to(allowance.budget, np.broadcast_shapes(budget.shape, np.shape(allowance.budget)))
    some = before > 0 if before.ndim == 0 else (before > 0) & allowance.acting(before.size)
    if not some.any():
        return 1.0
    shares = np.broadcast_to(budget, before.shape)[some] / before[some]
    if np.ptp(shares) > SAME * shares.max():
        raise OptionError("budget: of an action of one's own can only be one share of everybody's, got several.")
    return float(shares.max())

"""A collective in a world: its members, its query, and deviations from its plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.actions import Perturb, Relabel, Withhold
from oar.actions.choice import as_action, part_of
from oar.actions.perturb import is_single_budget
from oar.actions.sets.norms import Norm
from oar.checks import check_that, is_number, is_text, is_whole, with_near_names
from oar.errors import OptionError
from oar.problem import Query
from oar.tolerances import ROUNDING
from oar.typing import ActionLike, Label
from oar.worlds.people.random_streams import drawn_share
from oar.worlds.protocol import Array, Arrivals, Caps, Crowd, Deed, Mask, Rows, View
from oar.worlds.rounds.contributions import allowed, together


@with_near_names
@dataclass(frozen=True, eq=False)
class Collective:
    """A collective: arrivals who act together for a query.

    Args:
        name: under which it is recorded.
        query: an oar.Query: the query subject and the goal.
        action: what each member may do in a round: an oar.Perturb with one budget for all, an oar.Relabel or an
            oar.Withhold with `most`, or a list of them. A member with several rows in a round may use it for each row.
            `share` and `who` set the participants.
        share: the share of arrivals who are members in round 0: each is one if its own random number is below it, so
            the number of members varies. A person who comes again stays a member as long as adoption does not fall.
        growth: the growth of the share per round; adoption, share + growth · round, must stay in [0, 1].
        defection: the probability that a member does nothing, in each round.
        noise: the inaccuracy of moves: each move has a normal error, whose length (root mean square) is this share of
            the budget; moves are then shortened to the budget again.
        stale: the age, in rounds, of the model on which the collective acts.
        who: the arrivals' name for the members' group; `share` is then a share of it. None for everyone.
        total: the largest distance of each member over all rounds; None where rounds do not share a budget. For a
            person with several rows in a round, as after resampling, all rows count together.
    """

    name: str
    query: Query
    action: ActionLike
    share: float = 1.0
    growth: float = 0.0
    defection: float = 0.0
    noise: float = 0.0
    stale: int = 0
    who: Label | None = None
    total: float | None = None

    def __post_init__(self) -> None:
        check_that(is_text(self.name), "Collective name", "a word", self.name)
        for part in ("share", "defection", "noise"):
            value = getattr(self, part)
            check_that(is_number(value) and 0 <= value <= 1, part, "a share in [0, 1]", value)
        check_that(is_number(self.growth) and np.isfinite(self.growth), "growth", "a finite number", self.growth)
        check_that(is_whole(self.stale) and self.stale >= 0, "stale", "a whole number of rounds ≥ 0", self.stale)
        if self.total is not None:
            check_that(is_number(self.total) and 0 <= self.total < np.inf, "total", "a number ≥ 0, or None", self.total)
            object.__setattr__(self, "total", float(self.total))
        object.__setattr__(self, "action", as_action(self.action))
        _ = self.caps
        if part_of(self.action, Perturb) is None:
            for part, usual in (("noise", 0.0), ("total", None)):
                if getattr(self, part) != usual:
                    raise OptionError(f"{part}: is for moves, and nobody may move here; leave it out.")

    @property
    def caps(self) -> Caps:
        """Its limits in a round."""
        moves = part_of(self.action, Perturb) or Perturb(0.0)
        labels = part_of(self.action, Relabel) or Relabel(most=0)
        leaving = part_of(self.action, Withhold) or Withhold(most=0)
        if moves.participants is not None or moves.limits is not None:
            raise OptionError(
                "action: in a world the collective's share and group say who takes part, and features are plain "
                f"numbers, got {moves!r}; leave participants and limits out."
            )
        for lever in (labels, leaving):
            if lever.most is None or lever.participants is not None:
                raise OptionError(
                    f"action: must say how many by `most` in a world, and leave participants out, got {lever!r}."
                )
        if not is_single_budget(moves.budget):
            raise OptionError("action: must have one budget for all in a world, got one for each person.")
        return Caps(
            budget=float(moves.budget),
            norm=moves.norm,
            labels=labels.most or 0,
            leavers=leaving.most or 0,
            total=self.total,  # type: ignore[arg-type]  # it reads None itself
        )

    def only_moves(self, policy: str) -> None:
        """Raise unless members may only move; `policy` uses moves alone."""
        if part_of(self.action, Perturb) is not self.action:
            raise OptionError(
                f"policy: {policy} is for an oar.Perturb(…) alone, and would leave other actions of {self.name!r} "
                f"unused, got {self.action!r}; leave them out, or give a policy of your own that uses them."
            )

    def adoption(self, number: int) -> float:
        """Return the share of members in a round; raise where it leaves [0, 1]."""
        adoption = self.share + self.growth * number
        if not -ROUNDING <= adoption <= 1 + ROUNDING:
            raise OptionError(
                f"growth: adoption share + growth · round must stay in [0, 1], got {adoption:g} in round {number} of "
                f"{self.name!r} (share {self.share:g}, growth {self.growth:g}); choose a smaller growth."
            )
        return float(min(max(adoption, 0.0), 1.0))

    def members(self, crowd: Crowd, number: int, rng: np.random.Generator) -> Rows:
        """Return its members: the eligible people whose uniform draw is below the adoption.

        A person's draw is fixed, so that with growing adoption members stay members.
        """
        able = np.flatnonzero(self.may(crowd))
        return drawn_share(self.adoption(number), able, crowd, rng)

    def may(self, crowd: Crowd) -> Mask:
        """Return who of the crowd is eligible, (n,): everybody, or the people of its group."""
        if self.who is None:
            return np.ones(crowd.size, dtype=bool)
        return np.array([group == self.who for group in crowd.groups.tolist()], dtype=bool)


Policy = Callable[["CollectiveView"], Deed]


@dataclass(frozen=True, eq=False, kw_only=True)
class CollectiveView(View):
    """The view of a collective's policy: an actor's view, and the facts that planning needs.

    Attributes:
        collective: the collective that acts: its query, action and adoption.
        arrivals: the arrivals of the world, for planning later rounds.
        labels: the label policy for those who move.
        rounds: the number of rounds.
    """

    collective: Collective
    arrivals: Arrivals
    labels: str
    rounds: int


def is_policy(value: Any) -> bool:
    """Report whether this is a policy: a function of a view, or something that begins as one in every simulation."""
    return not isinstance(value, type) and (callable(value) or hasattr(value, "begin"))


class CollectiveActor:
    """A collective that follows a policy: an actor of the world."""

    def __init__(self, collective: Collective, policy: Any, setting: Mapping[str, Any]) -> None:
        """Policies that remember begin afresh; `setting` is what they may know: arrivals, labels and rounds."""
        self.collective, self.setting = collective, setting
        self.policy: Policy = policy.begin() if hasattr(policy, "begin") else policy
        self.name, self.caps, self.members = collective.name, collective.caps, collective.members
        self.stale = collective.stale

    def act(self, view: View) -> Deed:
        """Return the members' deed: the policy's, with defection and noise."""
        rng = view.rng.spawn(1)[0]  # whatever the policy draws, or does to its own, the same people fall short
        shared = {part.name: getattr(view, part.name) for part in dataclasses.fields(View)}
        asked = self.policy(CollectiveView(**shared, **self.setting, collective=self.collective))
        deed, _ = allowed(self.name, self.caps, asked, view)  # before noise, which is shortened to the budget
        defection, noise = self.collective.defection, self.collective.noise
        if defection:
            stays = np.asarray(rng.random(view.mine.size) < defection)
            deed = deed.if_only(~stays, view.crowd.codes[view.mine])
        if noise and deed.moves is not None:
            errors = rng.standard_normal(deed.moves.shape) * (noise * self.caps.budget / np.sqrt(deed.moves.shape[1]))
            moved = np.asarray(deed.moves.any(axis=1))
            moves = deed.moves + np.where(moved[:, None], errors, 0.0)
            deed = dataclasses.replace(deed, moves=within(moves, self.caps, view))
        return deed


def within(moves: Array, caps: Caps, view: View) -> Array:
    """Return moves (m, d) shortened to the round's budget and to the rest of the total."""
    return Norm.of(caps.norm).project(moves, room_of(caps, view))


def room_of(caps: Caps, view: View) -> Array:
    """Return how far each (m,) may still move in this round; several rows of a person share the rest of its total."""
    left = np.maximum(caps.total - view.spent, 0.0)
    return np.minimum(caps.budget, left / together(np.ones(view.mine.size), view))

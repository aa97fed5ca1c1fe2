"""A competing collective, which acts for another query or another goal.

`World(collective=[one, other])` has several collectives, each with a policy, and records the outcome of each. A
competing collective is one of the `others`, for whom only deeds are recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from oar.actions import Perturb
from oar.actions.choice import part_of, parts_of
from oar.checks import check_kind, check_that, with_near_names
from oar.errors import OptionError
from oar.plans import LeverPlan
from oar.problem import Problem
from oar.progress import check_time_limit
from oar.recourse import collective as planned
from oar.typing import SignalLike, SolverLike
from oar.worlds.actors.common import handed_in_before, handed_in_now, population
from oar.worlds.collective import Collective, CollectiveActor, CollectiveView, is_policy, within
from oar.worlds.policies.planned import Replan
from oar.worlds.protocol import Caps, Deed, Rows, View


@with_near_names
@dataclass(frozen=True)
class PlanAnew:
    """A policy: members do what `oar.collective` plans for a refit to everything so far, this round included.

    Labels and withheld data are planned too, which `Replan` does not do. The operator's actual update rule is not used.

    Args:
        solver: as in `oar.collective`.
        signal: as in `oar.collective`.
        time_limit: as in `oar.collective`, for each plan.
    """

    solver: SolverLike = "auto"
    signal: SignalLike = "auto"
    time_limit: float | None = None

    def __post_init__(self) -> None:
        check_time_limit(self.time_limit)

    def __call__(self, view: CollectiveView) -> Deed:
        """Plan this round."""
        if not view.mine.size:
            return Deed()
        before, now = handed_in_before(view), handed_in_now(view, Deed())
        members = len(before.codes) + view.mine
        mask = np.zeros(len(before.codes) + len(now.codes), dtype=bool)
        mask[members] = True
        people = population(before.joined(now), view.crowd)
        action = view.collective.action
        parts = [replace(part, participants=mask) for part in parts_of(action)]
        problem = Problem(people, view.operator.model, view.collective.query, parts)
        limit = self.time_limit
        result = planned(problem, solver=self.solver, signal=self.signal, time_limit=limit, progress=False)
        plan: Any = result.plan
        moves = codes = leaves = None
        if part_of(action, Perturb) is not None:
            moves = within(np.asarray(plan.moves(), dtype=np.float64)[members], view.collective.caps, view)
        if isinstance(plan, LeverPlan):
            codes = plan.targets[members].argmax(axis=1).astype(np.intp)
            codes = None if (codes == view.crowd.codes[view.mine]).all() else codes
            leaves = plan.away[members] if plan.away[members].any() else None
        return Deed(moves=moves, codes=codes, leaves=leaves, note={"planned": float(result.loss)})


@with_near_names
@dataclass(frozen=True, eq=False)
class CompetingCollective:
    """Another collective, among the other actors; `name`, `caps`, `stale` and `members` are the collective's.

    Args:
        collective: its members, query, action and defection.
        policy: its policy, as for any collective. None means `Replan()` if members may only move, and `PlanAnew()` if
            they may change labels or leave.
    """

    collective: Any
    policy: Any = None
    name: str = field(init=False, repr=False)
    caps: Caps = field(init=False, repr=False)
    stale: int = field(init=False, repr=False)
    members: Callable[..., Rows] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_kind("collective", self.collective, Collective, "an oar.worlds.Collective(…)")
        known = self.policy is None or is_policy(self.policy)
        check_that(known, "policy", "a function of a view, such as PlanAnew()", self.policy)
        for part in ("name", "caps", "stale", "members"):
            object.__setattr__(self, part, getattr(self.collective, part))

    def in_world(self, setting: Mapping[str, Any]) -> CollectiveActor:
        """Return its actor for one simulation, with the view of a collective."""
        policy = self.policy
        if policy is None:
            policy = Replan() if isinstance(self.collective.action, Perturb) else PlanAnew()
        return CollectiveActor(self.collective, policy, setting)

    def act(self, view: View) -> Deed:
        """Raise: it acts in a world only."""
        raise OptionError(
            "CompetingCollective: acts in a simulation alone; use its in_world(…) to see what it would do."
        )

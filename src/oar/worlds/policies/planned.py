"""Policies that plan: once for all rounds, on expected people; or anew in every round, on the people present.

Plans assume that members' labels stay and that nobody else acts. The world records the actual outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oar.actions import Perturb
from oar.checks import check_that, choose, is_whole, with_near_names
from oar.errors import DataError
from oar.models import Centroids
from oar.online import FullRefit, OnlineProblem, Rollout, Stream
from oar.online.bound_training import bind, shares_units
from oar.online.problem import GOAL_FOR
from oar.online.stream import HISTORY
from oar.progress import check_time_limit
from oar.recourse import collective
from oar.solvers import ProjectedGradient
from oar.typing import SolverLike
from oar.worlds.collective import CollectiveView, room_of, within
from oar.worlds.people.crowds import pooled, register_of
from oar.worlds.people.labels import depends_on_decisions, once_decided
from oar.worlds.people.random_streams import drawn_share
from oar.worlds.policies.immediate import acting_rule, read_before
from oar.worlds.protocol import Array, Crowd, Deed, Rows

A_FEW_STEPS = ProjectedGradient(max_steps=10, tolerance=1e-3, restarts=0)


@with_near_names
@dataclass(frozen=True)
class Replan:
    """The policy of planning again in every round (receding horizon), on the data that the operator's rule will read.

    Args:
        horizon: the number of planned rounds, this one included; the people of later rounds are drawn from the
            arrivals.
        goal_for: "last": the goal is for the model after the last of these rounds; "every": after each of them.
        solver: as in `oar.collective`; None for "auto" where that is exact and quick (nearest centroid), and otherwise
            for a few steps of projected gradient: the world records the outcome.
        time_limit: as in `oar.collective`, for each plan; that of `oar.worlds.simulate` holds beside it.
    """

    horizon: int = 1
    goal_for: str = "last"
    solver: SolverLike | None = None
    time_limit: float | None = None

    def __post_init__(self) -> None:
        check_time_limit(self.time_limit)
        whole = is_whole(self.horizon) and self.horizon >= 1
        check_that(whole, "horizon", "a whole number of rounds ≥ 1", self.horizon)
        choose("goal_for", self.goal_for, GOAL_FOR)

    def __call__(self, view: CollectiveView) -> Deed:
        """Plan, and return this round's part."""
        view.collective.only_moves("Replan")
        if not _able(view):
            return Deed()
        ahead = min(self.horizon, view.rounds - view.number)
        problem = problem_ahead(view, ahead, self.goal_for, real=True)
        found = _planned(problem, self.solver, self.time_limit)
        moves = found.plan.each[problem.stream.rows(0)][view.mine]
        return Deed(moves=moves, note={"promised": found.loss})


@with_near_names
@dataclass(frozen=True)
class PlanOnce:
    """The policy of planning all rounds in advance, on expected people, and following the plan's signals.

    For nearest centroid, and behind a scaler, all members of a class make the plan's average move of that class and
    round. For other models they respond to the round's signals (θ, v) with the move that raises their own score most,
    with the average length of their class in the plan.

    Args:
        goal_for: "last": the goal is for the model after the last round; "every": after each round.
        solver: as in `oar.collective`; None for "auto" where that is exact and quick (nearest centroid), and otherwise
            for a few steps of projected gradient: the world records the outcome.
        time_limit: as in `oar.collective`, for each plan; that of `oar.worlds.simulate` holds beside it.
    """

    goal_for: str = "last"
    solver: SolverLike | None = None
    time_limit: float | None = None

    def __post_init__(self) -> None:
        check_time_limit(self.time_limit)
        choose("goal_for", self.goal_for, GOAL_FOR)

    def begin(self) -> Callable[[CollectiveView], Deed]:
        """Return the policy for one simulation: it plans when it is first asked, and then follows the plan."""
        made: list[tuple[int, _Signals]] = []

        def followed(view: CollectiveView) -> Deed:
            view.collective.only_moves("PlanOnce")
            if not _able(view):
                return Deed()
            if not made:
                problem = problem_ahead(view, view.rounds - view.number, self.goal_for, real=False)
                found = _planned(problem, self.solver, self.time_limit)
                made.append((view.number, _Signals(problem, found.plan.each, found.loss)))
            first, signals = made[0]
            return signals.answered(view, view.number - first)

        return followed


class _Signals:
    """A plan's signals for members whom it has not seen, round by round.

    With δ_i the moves of the m planned members of class c in round t, the signals are

        D_c = Σ_i δ_i / m   (the average move)        a_c = Σ_i ‖δ_i‖ / m   (their average length)
    """

    def __init__(self, problem: OnlineProblem, each: Array, promised: float) -> None:
        self._problem, self._promised = problem, promised
        people, classes = problem.stream.people, len(problem.stream.people.classes)
        allowance = problem.allowance
        radii, lengths = allowance.everyones(people.size), allowance.norm.length(each)
        codes = people.codes(0, people.size)
        shape = (problem.stream.rounds, classes)
        place = np.where(problem.stream.when >= 0, problem.stream.when * classes + codes, shape[0] * classes)

        def summed(values: Array) -> Array:
            found = np.bincount(place, weights=values, minlength=shape[0] * classes + 1)
            return np.asarray(found[:-1].reshape(shape), dtype=np.float64)

        members = np.maximum(summed((radii > 0).astype(np.float64)), 1.0)
        self._far = summed(lengths) / members
        self._average = np.stack([summed(column) for column in each.T], axis=2) / members[:, :, None]
        walk = Rollout(problem)
        path = walk.forward(each)
        scores = shares_units(problem.model) and not isinstance(walk.deployed(path.parameters[-1]), Centroids)
        self._by_class = not scores
        self._signals = () if self._by_class else walk.gradient(path, each).signals
        self._readers = [1 / walk.rows(number).size for number in range(problem.rounds)]

    def _heard(self, number: int) -> list[tuple[float, Array, Array]]:
        """Return the signals that concern who arrives in a round, each with its w̄: of all updates that read them."""
        reads = self._problem.rule.reads
        last = self._problem.rounds if reads is None else min(number + reads, self._problem.rounds)
        return [
            (self._readers[later], at, signal) for later in range(number, last) for at, signal in self._signals[later]
        ]

    def answered(self, view: CollectiveView, number: int) -> Deed:
        """Return what the members of a round do."""
        caps, codes = view.collective.caps, view.crowd.codes[view.mine]
        note = {"promised": self._promised}
        if self._by_class:
            return Deed(moves=within(self._average[number][codes], caps, view), note=note)
        people = register_of(view.crowd).people(view.crowd.features[view.mine], codes)
        training = bind(view.operator.model, people)
        features = training.moved(None)
        slopes = np.zeros((view.mine.size, training.dimensions))
        for share, at, signal in self._heard(number):
            slopes += share * training.score_gradients(at, features, signal)
        far = np.minimum(self._far[number][codes], room_of(caps, view))
        return Deed(moves=caps.norm.maximise(slopes, far), note=note)


def _planned(problem: OnlineProblem, solver: Any, time_limit: float | None) -> Any:
    """Return a plan for the problem, audited."""
    if solver is None:
        solver = "auto" if problem.model.plain_means else A_FEW_STEPS
    return collective(problem, solver=solver, time_limit=time_limit, progress=False)


def _able(view: CollectiveView) -> bool:
    """Report whether there is anybody who could do anything."""
    return bool(view.mine.size) and view.collective.caps.budget > 0


def _expected(view: CollectiveView, number: int) -> Crowd:
    """Return expected arrivals of a round, with decisions as of the present model."""
    crowd = view.arrivals.draw(number, view.rng)
    if not depends_on_decisions(view.arrivals):
        return crowd
    model, features = view.operator.model, crowd.features
    return once_decided(view.arrivals, model, view.deployed, crowd, features, number, view.rng)


def _expected_members(view: CollectiveView, crowd: Crowd, number: int) -> Rows:
    """Return the members among expected arrivals: present members stay members, the others are drawn.

    Planners do not know people's uniform draws. The draw of a person who is present and not a member is not below the
    adoption a; it is below a' > a, of a later round, with probability (a' − a)/(1 − a). A member's draw is below a' < a
    with probability a'/a.
    """
    collective, everyone = view.collective, np.arange(crowd.size)
    here, mine = (np.isin(crowd.persons, some) for some in (view.crowd.persons, view.crowd.persons[view.mine]))
    now, then = collective.adoption(view.number), collective.adoption(number)
    joining = max(then - now, 0.0) / (1 - now) if now < 1 else 0.0
    members = np.isin(everyone, collective.members(crowd, number, view.rng)) & ~here
    staying = min(then / now, 1.0) if now > 0 else 1.0
    for share, some in ((joining, here & ~mine & collective.may(crowd)), (staying, mine)):
        members[drawn_share(share, np.flatnonzero(some), crowd, view.rng)] = True
    return np.flatnonzero(members)


def problem_ahead(view: CollectiveView, ahead: int, goal_for: str, *, real: bool) -> OnlineProblem:
    """Return the online problem of this round and the `ahead` − 1 next ones.

    The people of later rounds are drawn from the arrivals, and so are those of this round unless it is `real`: then
    they are the actual arrivals. In later rounds the collective's share are members, including present members who
    return. If the collective has a `total`, all rows of a person share the rest of it. The problem assumes that labels
    stay, that nobody else acts, and that the operator has no defence besides its model.

    All earlier batches that are still read count as one: a window that moves on leaves them together.
    """
    caps, collective = view.collective.caps, view.collective
    register, batches, budgets, persons = register_of(view.crowd), [], [], []
    for number in range(view.number, view.number + ahead):
        here = real and number == view.number
        crowd = view.crowd if here else _expected(view, number)
        members = view.mine if here else _expected_members(view, crowd, number)
        batches.append(register.of_crowd(crowd))
        budgets.append(np.where(np.isin(np.arange(crowd.size), members), caps.budget, 0.0))
        persons.append(crowd.persons)
    before, rule, shared = read_before(view), acting_rule(view), caps.total < np.inf
    if rule.reads is not None and rule.reads > 1 + ahead:
        rule = FullRefit()  # the window reads all that there is
    # Rounds' people, and after them who was there before; classes are the world's, also those that all lack.
    sizes, rest = [batch.size for batch in batches], sum(batch.size for batch in before)
    stream = Stream(pooled((*batches, *before)), np.repeat([*range(ahead), HISTORY], [*sizes, rest]))
    if shared:  # of the history everyone is somebody else
        known = np.concatenate(persons)
        stream = replace(stream, who=np.append(known, int(known.max(initial=0)) + 1 + np.arange(rest)))
    # How far persons may still move in all remaining rounds; ∞ where rounds do not share a budget.
    left = [np.maximum(caps.total - view.spent_by(some), 0.0) for some in persons]
    try:
        return OnlineProblem(
            stream,
            view.operator.model,
            rule,
            collective.query,
            [Perturb(np.minimum(each, most), norm=caps.norm) for each, most in zip(budgets, left, strict=True)],
            goal_for=goal_for,
            shared=np.concatenate([*left, np.zeros(rest)]) if shared else False,
            start=view.deployed.parameters if shares_units(view.operator.model) else None,
        )
    except DataError as reason:
        since = f" (Rounds are counted from round {view.number}, in which this is planned.)" if view.number else ""
        raise DataError(f"{reason}{since}") from None

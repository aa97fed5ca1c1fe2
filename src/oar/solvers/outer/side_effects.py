"""Plans that must leave others alone (`oar.Keep`).

The best plan without the limit comes first; if it keeps it, that is the answer. Otherwise people whose predictions it
changed are made *anchors*: their loss at what was predicted of them before is added to the queries', with a growing
weight λ, and whoever changes next becomes an anchor too, until the limit is kept. Moves may also be made smaller: with
less of everyone's budget everything changes less. Of all plans that keep the limit, nobody's moving among them, the one
with the least goal loss counts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from oar.goals.keep import Anchors
from oar.models.training import Array
from oar.plans import Proposal
from oar.plans.refits import Refits, effects
from oar.problem import Problem
from oar.retraining.side_effects import Effects, Mask
from oar.solvers.registry import ForDescent, Task

WEIGHTS = (0.3, 1.0, 3.0, 10.0, 30.0)  # λ, in units of the goal's own loss
SMALLER = (0.75, 0.5, 0.25, 0.1, 0.03)  # of everyone's budget
MOST_ANCHORS = 500
ENDED = "Limits on what may change for others were kept by trying; less strict ones allow better plans."


class _Anchored:
    """People who were changed, with the targets that they are to keep."""

    def __init__(self, problem: Problem, told: Effects) -> None:
        self._problem, self._limits = problem, problem.kept.limits  # type: ignore[union-attr]
        self._rows: list[Array] = []
        self._targets: list[Array] = []
        self._seen: set[tuple[str, int]] = set()
        self.add(told)

    def add(self, told: Effects) -> None:
        """Take in whose prediction changed, and who is predicted less well than before."""
        problem, keep = self._problem, self._limits
        if told.before.ndim == 1:
            classes = np.eye(len(problem.people.classes))
            seen = told.seen
            loses = seen.had & ~seen.has & (seen.moves | seen.stays)
            if keep.lost is not None:  # kept where its own move leads
                self._take("there", loses, told.places, classes[told.before])
            if keep.changed is not None or keep.worse is not None:
                self._take("people", seen.stays & seen.changed, problem.people.rows, classes[told.before])
        rows, labels, before, after = told.scored
        if problem.regresses:
            worse = ((after - labels) ** 2).sum(axis=1) > ((before - labels) ** 2).sum(axis=1)
        else:
            wanted = labels.argmax(axis=1)
            worse = (before == wanted) & (after != wanted)
        if keep.worse is not None:
            self._take("scored", worse, rows, labels)

    def _take(self, kind: str, who: Mask, rows: Any, labels: Any) -> None:
        """Take in those (n,), of rows and labels, who are not known yet; not more than there may be."""
        room = MOST_ANCHORS - len(self._rows)
        fresh = np.array(
            [one for one in np.flatnonzero(who) if (kind, int(one)) not in self._seen][:room], dtype=np.intp
        )
        self._seen.update((kind, int(one)) for one in fresh)
        self._rows += list(rows[fresh])
        self._targets += list(labels[fresh])

    def weighing(self, weight: float) -> Anchors:
        """Return them, counting so much."""
        targets = np.array(self._targets)
        rows = getattr(self._problem.model, "target_rows", lambda given: given)(targets)
        return Anchors(np.array(self._rows), np.ascontiguousarray(rows), weight)


class WithoutSideEffects(ForDescent):
    """Plans that must leave others alone: people whose predictions change become anchors."""

    name, requires = "side effects", frozenset({"side effects"})
    serves = ForDescent.serves | {"parts", "rounds"}

    def propose(self, task: Task, settings: Any) -> Proposal:
        """Ask for plans with anchors, and with smaller budgets, until the limits are kept."""
        within, problem = self.inside(task), task.problem

        def plan(problem: Problem, anchors: Anchors | None) -> Proposal:
            return task.ask(problem=problem, anchors=anchors, starts=(), within=within)

        free = plan(problem, None)
        told = effects(free.plan)
        if told is None or not told.broken:
            return free
        still = free.plan.still()
        stay = Refits(still)
        # that nobody moves, with the loss that follows from the training itself
        found = [replace(free, plan=still, claimed_loss=stay.verdict(stay.before).loss)]
        anchors = _Anchored(problem, told)
        for weight in WEIGHTS:
            one = plan(problem, anchors.weighing(weight * max(abs(free.claimed_loss), 1.0)))
            refits = Refits(one.plan)  # what was minimised is the sum with its anchors' loss
            one = replace(one, claimed_loss=refits.verdict(refits.planned).loss)
            told = effects(one.plan)
            if told is None:
                continue
            if not told.broken:
                found.append(one)
                break
            anchors.add(told)
        radii = problem.allowance.everyones(problem.people.size)
        for share in SMALLER if problem.moves else ():
            less = plan(problem.with_action(budget=share * radii), None)
            told = effects(less.plan)
            if told is not None and not told.broken:
                found.append(replace(less, plan=replace(less.plan, problem=problem)))
                break
        best = min(found, key=lambda one: one.claimed_loss)
        return replace(
            best,
            gap=np.inf,
            exact=False,
            finished=False,
            ended=ENDED,
            suffices="",
            steps=sum(one.steps for one in (free, *found)),
        )

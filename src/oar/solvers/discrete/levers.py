"""Collective recourse by other labels and strikes, alone and together with moves.

Labels and leavers are chosen by `greedy` and `soft_labels`. Where members may move as well, the solver for moves
and the levers take turns: moves for the people as they are labelled and present, then levers for the people as they
have moved, from the labels and leavers of the turn before and with less effort than at first. It goes from the moves
alone and from the levers alone, unless one of them does little beside the other, and everything found on the way is
kept in mind, single levers included: what is returned is the best of it by true refits, so several levers are never
worse than any one of them.

The loss is not convex in moves, and which members to choose is a combinatorial question: nothing is proved to be
optimal and nothing to be impossible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from oar.actions import Perturb
from oar.actions.choice import Levers, part_of
from oar.errors import NumericsError, OptionError
from oar.models import Ensemble
from oar.people.wording import counted
from oar.plans import LeverPlan, Proposal
from oar.problem import Problem
from oar.progress import OnStep, silent
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import OwnTraining
from oar.solvers.discrete.greedy import Effort, LeverSearch, LeverSearchEnd
from oar.solvers.discrete.ground import (
    EMPTY,
    CentroidGround,
    Ground,
    OpenChanges,
    RefittedGround,
    applied,
    changes_of,
    no_members_ask,
)
from oar.solvers.discrete.soft_labels import LeverProposal, soften
from oar.solvers.registry import IN_MEMORY, Task, Wrapper, current_effort

ROUNDS = 3  # turns of moves and levers
WORTH_IT = 1e-3  # of the loss: what a turn must gain to be followed by another
LITTLE = 0.1  # of the other's gain: from moves or levers that gain less alone no turns are taken
LATER = 4  # turns have one in so many of the refits that the levers have at first
NUMBERS = 4_000  # outputs of all people together, up to which a refit is quick
TIGHT = 1e-9  # the gradient norm of refits that are compared
ROUGH = 1e-6  # the same, of models that only stand in for a black box
PLENTY = 500  # refits from which on a search is repeated from another first change
ENDED = (
    "Many refits were spent, and the last changes were made in batches; a smaller limit is searched more thoroughly."
)
OPEN_ENDED = "Changes of labels ended before their certificate closed; several runs with smaller limits may help."


class LeverSolver:
    """One problem's levers: pulls them on people who have moved, and keeps every state that was judged."""

    def __init__(self, problem: Problem, propose_moves: Callable[[Problem], Proposal], on_step: OnStep) -> None:
        no_members_ask(problem)
        self.problem, self.levers, self._on_step = problem, problem.levers, on_step
        self._propose_moves = propose_moves
        self.before = Contribution.of(problem.people, problem.regresses).with_moves(None)
        self.retraining = OwnTraining(problem, ROUGH if isinstance(problem.model, Ensemble) else TIGHT, EMPTY)
        self._exact = problem.model.plain_means and problem.plain
        self.soft = problem.levers.relabel.soft is not None
        usual = _effort(problem)
        self.effort = replace(usual, refits=max(1, round(current_effort().refits * usual.refits)))
        self._least = problem.model.least_loss
        self._as_given = self._ground(self.before)
        self.unmoved = LeverProposal(self.before, self._as_given.loss({}), gap=np.inf)

    def _ground(self, start: Contribution) -> Ground:
        return (CentroidGround if self._exact else RefittedGround)(self.retraining, start)

    def pulled(self) -> list[LeverProposal]:
        """Return what the levers reach on people who stay: each lever alone, and both, in turns from either."""
        if self.soft:
            soft = self._softened(self.unmoved, self.effort)
            if not self.levers.withhold.given:
                return [soft]
            strike = self._struck(self.unmoved, self.effort)
            return [soft, strike, self._struck(soft, self.effort), self._softened(strike, self.effort)]
        return [self._state(self.before, one) for one in self._anew(self._as_given, self.effort)]

    def pulled_further(self, state: LeverProposal) -> list[LeverProposal]:
        """Return what the levers reach from labels and leavers that were good before people moved."""
        later = Effort(max(1, self.effort.refits // LATER), self.effort.shortlist, 1)
        if self.soft:
            soft = self._softened(state, later)
            return [soft, self._struck(soft, later)] if self.levers.withhold.given else [soft]
        start, changes = self.before.with_moves(state.given.moves), changes_of(state.given, self.before)
        ground = self._ground(start)
        if not changes:
            return [self._state(start, one) for one in self._anew(ground, later)]
        return [self._state(start, self._search(ground, self.levers, later).refined(changes))]

    def moved(self, state: LeverProposal) -> LeverProposal:
        """Return the state with the best moves for its labels and leavers; leavers have no need to move."""
        problem, given = self.problem, state.given
        changed = not given.beyond(self.before).only_moves
        people = given.handed_in(problem.people, problem.regresses) if changed else problem.people
        perturb = part_of(problem.with_action().action, Perturb)  # with the participants that were drawn
        try:
            plan = self._propose_moves(replace(problem, people=people, action=perturb)).plan
        except NumericsError:  # a model that cannot be moved from here can still be left as it is
            return state
        moved = given.with_moves(plan.contribution().moves).leavers_stay()
        given = moved if moved.parts[0].any() else given.with_moves(None)
        # By a true refit, from scratch where training has many minima
        return replace(state, given=given, loss=self._ground(given).loss({}))

    def in_turns(self, start: LeverProposal, moves_next: bool) -> list[LeverProposal]:
        """Return the states that moves and levers reach in turns, as long as every turn gains something."""
        found, best = [], start
        for _ in range(2 * ROUNDS):
            before = best.loss
            reached = [self.moved(best)] if moves_next else self.pulled_further(best)
            found += reached
            best = min([best, *reached], key=lambda state: state.loss)
            moves_next = not moves_next
            if not best.loss < before - WORTH_IT * abs(before):
                break
        return found

    def _anew(self, ground: Ground, effort: Effort) -> list[LeverSearchEnd]:
        """Return what each lever reaches alone, and then both from there."""
        each = (Levers(relabel=self.levers.relabel), Levers(withhold=self.levers.withhold))
        found = [self._search(ground, some, effort).run() for some in each if some.given]
        if len(found) > 1:
            found += [self._search(ground, self.levers, effort).refined(one.changes) for one in found]
        return found

    def _search(self, ground: Ground, levers: Levers, effort: Effort) -> LeverSearch:
        open_ = OpenChanges(levers, ground.start, self.problem.regresses)
        return LeverSearch(ground, open_, effort, self._on_step, self._least)

    def _state(self, start: Contribution, pulled: LeverSearchEnd) -> LeverProposal:
        given = applied(pulled.changes, start)
        return LeverProposal(given, pulled.loss, np.inf, pulled.finished, len(pulled.changes))

    def _softened(self, state: LeverProposal, effort: Effort) -> LeverProposal:
        """Soften the labels of a state further."""
        limits, given, most = self.levers.relabel, self.before.parts[1], max(10, effort.refits // 20)
        return soften(self.retraining, limits, given, state.given, most, self._on_step)

    def _struck(self, state: LeverProposal, effort: Effort) -> LeverProposal:
        """Choose who leaves, from those who have left, with the labels of a state."""
        start = replace(state.given, weights=self.before.weights)
        search = self._search(self._ground(start), Levers(withhold=self.levers.withhold), effort)
        away = changes_of(state.given, start)
        return self._state(start, search.refined(away) if away else search.run())


def solve(problem: Problem, propose_moves: Callable[[Problem], Proposal], on_step: OnStep = silent) -> Proposal:
    """Return the best labels, leavers and moves found; `propose_moves` solves a problem of moves alone."""
    levering, people = LeverSolver(problem, propose_moves, on_step), problem.people
    best, note = levering.unmoved, "The refit did not converge."
    if best.loss < np.inf:
        best = _best(levering)
        refits = counted(levering.retraining.refits, "refit was", "refits were")
        note = f"{refits} made to choose labels and leavers."
    else:
        levering.retraining.check()  # says why, where that is known
        best = replace(best, loss=np.nan, finished=False)
    moves, targets, weights = best.given.over(levering.retraining.before)
    soft, away = levering.soft, (weights == 0) & (people.row_weights > 0)
    return Proposal(
        plan=LeverPlan(problem, np.zeros(people.dimensions), moves, targets=targets, away=away),
        solver="frank-wolfe labels" if soft else "greedy exchange",
        claimed_loss=best.loss,
        gap=best.gap if soft and not levering.levers.withhold.given and best.given.moves is None else np.inf,
        exact=False,
        finished=best.finished,
        steps=best.steps,
        passes=levering.retraining.passes,
        ended=OPEN_ENDED if soft else ENDED,
        note=note,
    )


def _best(levering: LeverSolver) -> LeverProposal:
    """Return the best state of all that moves and levers reach, alone and in turns."""
    unmoved = levering.unmoved
    found = [unmoved, *levering.pulled()]
    if levering.problem.moves:
        starts = levering.moved(unmoved), min(found, key=lambda state: state.loss)
        found.append(starts[0])
        gains = [unmoved.loss - start.loss for start in starts]
        for start, gain, moves_next in zip(starts, gains, (False, True), strict=True):
            if gain >= LITTLE * max(gains):
                found += levering.in_turns(start, moves_next)
    return min(found, key=lambda state: state.loss)


def _effort(problem: Problem) -> Effort:
    """Say how much may be tried: a refit takes a millisecond with few people and a linear model, or much longer.

    It depends on the people and the model, not on the limits, so that larger limits go on where smaller ones ended.
    """
    if problem.model.plain_means and problem.plain:
        numbers = problem.people.size * len(problem.people.classes) * problem.people.dimensions
        refits = int(np.clip(2e8 / numbers, 100, 4_000))
        return Effort(refits, 1, 2 if refits >= PLENTY else 1)
    if not problem.model.convex:
        return Effort(40, 6, 1)
    if isinstance(problem.model, Ensemble):  # which only says where to look
        return Effort(int(np.clip(1e5 / problem.people.size, 5, 100)), 8, 1)
    model = problem.model.unscaled
    most = 2_000 if model.quick else 1_000 if model.closed_form is not None else 600
    outputs = problem.people.size * (1 if problem.regresses else len(problem.people.classes))
    refits = int(np.clip(most * NUMBERS / max(outputs, NUMBERS), 50, most))
    return Effort(refits, int(np.clip(refits // 30, 6, 64)), 2 if refits >= PLENTY else 1)


class OtherLevers(Wrapper):
    """Other labels and strikes, by turns with moves."""

    name, requires, serves = "levers", frozenset({"levers"}), IN_MEMORY

    def propose(self, task: Task, settings: Any) -> Proposal:
        """Choose labels and leavers, and ask for moves in between."""
        if task.problem.keep is not None:
            task.problem.only_moves("a plan that must leave others alone")
        for name, value in (("solver", task.solver), ("signal", task.signal)):
            if value != "auto" and not task.problem.moves:
                raise OptionError(f"{name}: is for moves, and nobody may move here; leave it out, got {value!r}.")
        return solve(task.problem, lambda moves: task.ask(problem=moves, starts=()), task.on_step)

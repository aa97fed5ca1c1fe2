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
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oar.actions import Perturb
from oar.actions.choice import Levers, part_of
from oar.errors import NumericsError, OptionError
from oar.models import Ensemble
from oar.models.linear.losses import Linear
from oar.models.wrap.scaled import unscaled
from oar.plans import LeverPlan, Proposal
from oar.problem import Problem
from oar.progress import OnStep
from oar.solvers.discrete.greedy import Effort, LeverSearch, LeverSearchEnd
from oar.solvers.discrete.ground import LEAVE, Changes, Ground, OpenChanges, applied, given_rows, given_weights
from oar.solvers.discrete.ground_centroids import CentroidGround
from oar.solvers.discrete.ground_refits import CountedRefits, RefittedGround
from oar.solvers.discrete.soft_labels import SoftLimits, soften
from oar.solvers.settings import current_effort

Array = NDArray[np.float64]
ROUNDS = 3  # turns of moves and levers
WORTH_IT = 1e-3  # of the loss: what a turn must gain to be followed by another
LITTLE = 0.1  # of the other's gain: from moves or levers that gain less alone no turns are taken
LATER = 4  # turns have one in so many of the refits that the levers have at first
NUMBERS = 4_000  # outputs of all people together, up to which a refit is quick
PLENTY = 500  # refits from which on a search is repeated from another first change
ENDED = (
    "Many refits were spent, and the last changes were made in batches; a smaller limit is searched more thoroughly."
)
OPEN_ENDED = "Changes of labels ended before their certificate closed; several runs with smaller limits may help."


@dataclass(frozen=True, eq=False)
class LeverProposal:
    """Moves (n, d) or None, labels (n, k), weights (n,), the loss of a true refit, and how the search for it ended."""

    moves: Array | None
    rows: Array
    weights: Array
    loss: float
    gap: float = np.inf
    finished: bool = True
    steps: int = 0


class LeverSolver:
    """One problem's levers: pulls them on people who have moved, and keeps every state that was judged."""

    def __init__(self, problem: Problem, on_step: OnStep | None) -> None:
        """Fit the model to the people as they are."""
        assert problem.levers is not None
        if problem.asked.members is not None:
            raise OptionError("query: members who move with their data can be asked about only where moves are all.")
        self.problem, self.levers, self._on_step = problem, problem.levers, on_step
        self.rows, self.weights = given_rows(problem), given_weights(problem)
        self.refitting = None if problem.model.plain_means and problem.plain else CountedRefits(problem)
        self._looks = 0  # of grounds that are left
        usual = _effort(problem)
        self.effort = replace(usual, refits=max(1, round(current_effort().refits * usual.refits)))
        self._least = problem.model.least_loss
        self._as_given = self._ground(self.rows, None)
        self.unmoved = LeverProposal(None, self.rows, self.weights, self._as_given.loss({}), gap=np.inf)

    @property
    def refits(self) -> int:
        """True refits so far; for nearest centroid, looks at the losses of all single changes."""
        return self._looks if self.refitting is None else self.refitting.refits

    @property
    def passes(self) -> int:
        """How often all the data were read."""
        return self._looks if self.refitting is None else self.refitting.passes

    def _ground(self, rows: Array, moves: Array | None) -> Ground:
        if self.refitting is None:
            return CentroidGround(self.problem, moves)
        return RefittedGround(self.refitting, rows, moves)

    def judged(self, state: LeverProposal) -> LeverProposal:
        """Return a state with the loss of a true refit, from scratch where training has many minima."""
        if self.refitting is None:
            self._looks += 1
            return replace(state, loss=self._ground(self.rows, state.moves).loss(self._changes(state)))
        found = self.refitting.at(self.refitting.features(state.moves), state.rows, state.weights)
        return replace(state, loss=np.inf if found is None else found.loss)

    def pulled(self) -> list[LeverProposal]:
        """Return what the levers reach on people who stay: each lever alone, and both together."""
        relabel = self.levers.relabel
        if relabel is not None and relabel.soft is not None:
            return self._softly()
        return [self._state(None, self.rows, one) for one in self._anew(self._as_given, self.effort)]

    def pulled_further(self, state: LeverProposal) -> list[LeverProposal]:
        """Return what the levers reach from labels and leavers that were good before people moved."""
        relabel, withhold = self.levers.relabel, self.levers.withhold
        later = Effort(max(1, self.effort.refits // LATER), self.effort.shortlist, 1)
        if relabel is not None and relabel.soft is not None:
            soft = self._softened(state, later)
            return [soft] if withhold is None else [soft, self._struck(soft, later)]
        ground, changes = self._ground(self.rows, state.moves), self._changes(state)
        if not changes:
            return [self._state(state.moves, self.rows, one) for one in self._anew(ground, later)]
        found = self._search(ground, self.levers, later).refined(changes)
        self._count(ground)
        return [self._state(state.moves, self.rows, found)]

    def _anew(self, ground: Ground, effort: Effort) -> list[LeverSearchEnd]:
        """Return what each lever reaches alone, and then both from there."""
        each = (Levers(self.levers.relabel, None), Levers(None, self.levers.withhold))
        found = [self._search(ground, some, effort).run() for some in each if some.relabel or some.withhold]
        if len(found) > 1:
            found += [self._search(ground, self.levers, effort).refined(one.changes) for one in found]
        self._count(ground)
        return found

    def _count(self, ground: Ground) -> None:
        if self.refitting is None:
            self._looks += ground.refits

    def _changes(self, state: LeverProposal) -> Changes:
        """Return the flips and leavers of a state."""
        flipped = np.flatnonzero((state.rows != self.rows).any(axis=1))
        away = np.flatnonzero((state.weights == 0) & (self.weights > 0))
        return {int(one): int(state.rows[one].argmax()) for one in flipped} | {int(one): LEAVE for one in away}

    def _search(
        self, ground: Ground, levers: Levers, effort: Effort | None = None, rows: Array | None = None
    ) -> LeverSearch:
        open_ = OpenChanges(levers, self.rows if rows is None else rows, self.weights, self.problem.regresses)
        return LeverSearch(ground, open_, effort or self.effort, self._on_step, self._least)

    def _state(self, moves: Array | None, rows: Array, pulled: LeverSearchEnd) -> LeverProposal:
        changed, weights = applied(pulled.changes, rows, self.weights)
        return LeverProposal(moves, changed, weights, pulled.loss, np.inf, pulled.finished, len(pulled.changes))

    def _softly(self) -> list[LeverProposal]:
        """Soften labels; with strikes, take turns from either."""
        soft = self._softened(self.unmoved, self.effort)
        if self.levers.withhold is None:
            return [soft]
        strike = self._struck(self.unmoved, self.effort)
        return [soft, strike, self._struck(soft, self.effort), self._softened(strike, self.effort)]

    def _softened(self, state: LeverProposal, effort: Effort) -> LeverProposal:
        """Soften the labels of a state further."""
        assert self.refitting is not None
        assert self.levers.relabel is not None
        limits, features = SoftLimits(self.levers.relabel, self.rows), self.refitting.features(state.moves)
        most = max(10, effort.refits // 20)
        found = soften(self.refitting, limits, state.rows, state.weights, features, most, self._on_step)
        return LeverProposal(state.moves, found.rows, state.weights, found.loss, found.gap, found.finished, found.steps)

    def _struck(self, state: LeverProposal, effort: Effort) -> LeverProposal:
        """Choose who leaves, from those who have left, with the labels of a state."""
        ground = self._ground(state.rows, state.moves)
        search = self._search(ground, Levers(None, self.levers.withhold), effort, state.rows)
        away = {person: what for person, what in self._changes(state).items() if what == LEAVE}
        return self._state(state.moves, state.rows, search.refined(away) if away else search.run())


def solve(problem: Problem, propose_moves: Callable[[Problem], Proposal], on_step: OnStep | None = None) -> Proposal:
    """Return the best labels, leavers and moves found; `propose_moves` solves a problem of moves alone."""
    levering = LeverSolver(problem, on_step)
    if levering.refitting is not None and not levering.unmoved.loss < np.inf:
        levering.refitting.check()  # says why, where that is known
    if not levering.unmoved.loss < np.inf:
        return _proposal(
            levering, replace(levering.unmoved, loss=np.nan, finished=False), "The refit did not converge."
        )
    found = [levering.unmoved, *levering.pulled()]
    if part_of(problem.action, Perturb) is not None:
        by_levers = min(found, key=lambda state: state.loss)
        by_moves = _moved(levering, levering.unmoved, propose_moves)
        found.append(by_moves)
        gains = [levering.unmoved.loss - start.loss for start in (by_moves, by_levers)]
        for start, gain, moves_next in zip((by_moves, by_levers), gains, (False, True), strict=True):
            if gain >= LITTLE * max(gains):
                found += _turns(levering, start, moves_next, propose_moves)
    best = min(found, key=lambda state: state.loss)
    return _proposal(levering, best, "")


def _turns(
    levering: LeverSolver, start: LeverProposal, moves_next: bool, propose_moves: Callable[[Problem], Proposal]
) -> list[LeverProposal]:
    """Return the states that moves and levers reach in turns, as long as every turn gains something."""
    found, best = [], start
    for _ in range(2 * ROUNDS):
        before = best.loss
        reached = [_moved(levering, best, propose_moves)] if moves_next else levering.pulled_further(best)
        found += reached
        best = min([best, *reached], key=lambda state: state.loss)
        moves_next = not moves_next
        if not best.loss < before - WORTH_IT * abs(before):
            break
    return found


def _moved(levering: LeverSolver, state: LeverProposal, propose_moves: Callable[[Problem], Proposal]) -> LeverProposal:
    """Return the state with the best moves for its labels and leavers; leavers have no need to move."""
    problem, changed = levering.problem, state.rows is not levering.rows or state.weights is not levering.weights
    people = problem.people
    perturb = part_of(problem.with_action().action, Perturb)  # with the participants that were drawn
    if changed:
        kind = "values" if problem.regresses else "shares"
        people = people.contributing(state.weights, **{kind: state.rows})
    try:
        plan = propose_moves(replace(problem, people=people, action=perturb)).plan
    except NumericsError:  # a model that cannot be moved from here can still be left as it is
        return state
    moves = np.array(plan.moves(), dtype=np.float64)  # a copy: a DataFrame may lend its own
    moves[state.weights == 0] = 0.0
    return levering.judged(replace(state, moves=moves if moves.any() else None))


def _proposal(levering: LeverSolver, state: LeverProposal, note: str) -> Proposal:
    problem, people = levering.problem, levering.problem.people
    moves = np.zeros((people.size, people.dimensions)) if state.moves is None else state.moves
    relabel = levering.levers.relabel
    soft = relabel is not None and relabel.soft is not None
    away = (state.weights == 0) & (levering.weights > 0)
    return Proposal(
        plan=LeverPlan(problem, np.zeros(people.dimensions), moves, targets=state.rows, away=away),
        solver="frank-wolfe labels" if soft else "greedy exchange",
        claimed_loss=state.loss,
        gap=state.gap if soft and levering.levers.withhold is None and state.moves is None else np.inf,
        bound=problem.model.least_loss,
        exact=False,
        impossible=False,
        finished=state.finished,
        steps=state.steps,
        passes=levering.passes,
        ended=OPEN_ENDED if soft else ENDED,
        note=note or f"{levering.refits:,} refits were made to choose labels and leavers.",
    )


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
    model = unscaled(problem.model)
    quick = isinstance(model, Linear)
    most = 2_000 if quick else 1_000 if model.closed_form is not None else 600
    outputs = problem.people.size * (1 if problem.regresses else len(problem.people.classes))
    refits = int(np.clip(most * NUMBERS / max(outputs, NUMBERS), 50, most))
    return Effort(refits, int(np.clip(refits // 30, 6, 64)), 2 if refits >= PLENTY else 1)

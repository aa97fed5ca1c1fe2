"""Collective recourse by other labels and strikes, alone and together with moves.

Labels and leavers are chosen by `levers_greedy` and `soft_labels`. Where members may move as well, the solver for moves
and the levers take turns: moves for the people as they are labelled and present, then levers for the people as they
have moved. It goes once from the moves alone and once from the levers alone, and everything found on the way is kept in
mind, single levers included: what is returned is the best of it by true refits, so several levers are never worse than
any one of them.

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
from oar.errors import NumericsError
from oar.models import NearestCentroid
from oar.models.linear import Linear
from oar.models.scaled import unscaled
from oar.plans import LeverPlan, Proposal
from oar.problem import Problem
from oar.progress import OnStep
from oar.solvers.lever_centroids import CentroidGround
from oar.solvers.lever_ground import Ground, Open, applied, given_rows, given_weights
from oar.solvers.lever_refits import RefittedGround, Refitting
from oar.solvers.levers_greedy import Effort, LeverSearch, Pulled
from oar.solvers.soft_labels import soften

Array = NDArray[np.float64]
ROUNDS = 3  # turns of moves and levers
WORTH_IT = 1e-6  # of the loss: what a round must gain to be followed by another
NUMBERS = 4_000  # outputs of all people together, up to which a refit is quick
PLENTY = 1_000  # refits from which on a search is repeated from another first change
ENDED = (
    "Many refits were spent, and the last changes were made in batches; a smaller limit is searched more thoroughly."
)
OPEN_ENDED = "Changes of labels ended before their certificate closed; several runs with smaller limits may help."


@dataclass(frozen=True, eq=False)
class State:
    """Moves (n, d) or None, labels (n, k), weights (n,), the loss of a true refit, and how the search for it ended."""

    moves: Array | None
    rows: Array
    weights: Array
    loss: float
    gap: float = np.inf
    finished: bool = True
    steps: int = 0


class Levering:
    """One problem's levers: pulls them on people who have moved, and keeps every state that was judged."""

    def __init__(self, problem: Problem, on_step: OnStep | None) -> None:
        """Fit the model to the people as they are."""
        assert problem.levers is not None
        self.problem, self.levers, self._on_step = problem, problem.levers, on_step
        self.rows, self.weights = given_rows(problem), given_weights(problem)
        self.refitting = None if isinstance(problem.model, NearestCentroid) else Refitting(problem)
        self._looks = 0  # of grounds that are left
        self.effort = _effort(problem)
        self.unmoved = State(None, self.rows, self.weights, self._ground(self.rows, None).loss({}), gap=np.inf)

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

    def judged(self, state: State) -> State:
        """Return a state with the loss of a true refit, from scratch where training has many minima."""
        if self.refitting is None:
            leavers = {int(person): -1 for person in np.flatnonzero((state.weights == 0) & (self.weights > 0))}
            flips = {
                int(one): int(state.rows[one].argmax()) for one in np.flatnonzero((state.rows != self.rows).any(axis=1))
            }
            self._looks += 1
            return replace(state, loss=self._ground(self.rows, state.moves).loss(flips | leavers))
        found = self.refitting.at(self.refitting.features(state.moves), state.rows, state.weights)
        return replace(state, loss=np.inf if found is None else found.loss)

    def pulled(self, moves: Array | None) -> list[State]:
        """Return what the levers reach on people who moved so: each lever alone, and both together."""
        relabel, withhold = self.levers.relabel, self.levers.withhold
        if relabel is not None and relabel.soft is not None:
            return self._softly(moves)
        ground = self._ground(self.rows, moves)
        alone = [Levers(relabel, None), Levers(None, withhold)] if relabel and withhold else [self.levers]
        found = [self._searched(ground, some, lambda search: search.run()) for some in alone]
        if len(alone) > 1:
            best = min(found, key=lambda one: one.loss)
            found.append(self._searched(ground, self.levers, lambda search: search.refined(best.changes)))
            found.append(self._searched(ground, self.levers, lambda search: search.run()))
        if self.refitting is None:
            self._looks += ground.refits
        return [self._state(moves, self.rows, one) for one in found]

    def _searched(self, ground: Ground, levers: Levers, run: Callable[[LeverSearch], Pulled]) -> Pulled:
        open_ = Open(levers, self.rows, self.weights, self.problem.regresses)
        return run(LeverSearch(ground, open_, self.effort, self._on_step))

    def _state(self, moves: Array | None, rows: Array, pulled: Pulled) -> State:
        changed, weights = applied(pulled.changes, rows, self.weights)
        return State(moves, changed, weights, pulled.loss, np.inf, pulled.finished, len(pulled.changes))

    def _softly(self, moves: Array | None) -> list[State]:
        """Soften labels; with strikes, take turns from either."""
        soft, withhold = self._softened(moves, self.weights), self.levers.withhold
        if withhold is None:
            return [soft]
        strike = self._struck(moves, self.rows)
        return [soft, strike, self._struck(moves, soft.rows), self._softened(moves, strike.weights)]

    def _softened(self, moves: Array | None, weights: Array) -> State:
        assert self.refitting is not None
        assert self.levers.relabel is not None
        features, most = self.refitting.features(moves), max(10, self.effort.refits // 20)
        found = soften(self.refitting, self.levers.relabel, self.rows, weights, features, most, self._on_step)
        return State(moves, found.rows, weights, found.loss, found.gap, found.finished, found.steps)

    def _struck(self, moves: Array | None, rows: Array) -> State:
        ground = self._ground(rows, moves)
        open_ = Open(Levers(None, self.levers.withhold), rows, self.weights, self.problem.regresses)
        return self._state(moves, rows, LeverSearch(ground, open_, self.effort, self._on_step).run())


def solve(problem: Problem, propose_moves: Callable[[Problem], Proposal], on_step: OnStep | None = None) -> Proposal:
    """Return the best labels, leavers and moves found; `propose_moves` solves a problem of moves alone."""
    levering = Levering(problem, on_step)
    if levering.refitting is not None and not levering.unmoved.loss < np.inf:
        levering.refitting.check()  # says why, where that is known
    if not levering.unmoved.loss < np.inf:
        return _proposal(
            levering, replace(levering.unmoved, loss=np.nan, finished=False), "The refit did not converge."
        )
    found = [levering.unmoved, *levering.pulled(None)]
    if part_of(problem.action, Perturb) is not None:
        by_levers = min(found, key=lambda state: state.loss)
        by_moves = _moved(levering, levering.unmoved, propose_moves)
        found.append(by_moves)
        for start, moves_next in ((by_moves, False), (by_levers, True)):
            found += _turns(levering, start, moves_next, propose_moves)
    best = min(found, key=lambda state: state.loss)
    return _proposal(levering, best, "")


def _turns(
    levering: Levering, start: State, moves_next: bool, propose_moves: Callable[[Problem], Proposal]
) -> list[State]:
    """Return the states that moves and levers reach in turns, as long as a round gains something."""
    found, best = [], start
    for _ in range(2 * ROUNDS):
        before = best.loss
        reached = [_moved(levering, best, propose_moves)] if moves_next else levering.pulled(best.moves)
        found += reached
        best = min([best, *reached], key=lambda state: state.loss)
        moves_next = not moves_next
        if not best.loss < before - WORTH_IT * abs(before):
            break
    return found


def _moved(levering: Levering, state: State, propose_moves: Callable[[Problem], Proposal]) -> State:
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


def _proposal(levering: Levering, state: State, note: str) -> Proposal:
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
        bound=getattr(problem.model, "least_loss", 0.0),
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
    if isinstance(problem.model, NearestCentroid):
        numbers = problem.people.size * len(problem.people.classes) * problem.people.dimensions
        refits = int(np.clip(2e8 / numbers, 100, 4_000))
        return Effort(refits, 1, 2 if refits >= PLENTY else 1)
    if not problem.model.convex:
        return Effort(40, 6, 1)
    model = unscaled(problem.model)
    quick = isinstance(model, Linear)
    most = 4_000 if quick else 2_000 if getattr(model, "closed_form", None) is not None else 600
    outputs = problem.people.size * (1 if problem.regresses else len(problem.people.classes))
    refits = int(np.clip(most * NUMBERS / max(outputs, NUMBERS), 200, most))
    return Effort(refits, int(np.clip(refits // 30, 6, 64)), 2 if refits >= PLENTY else 1)

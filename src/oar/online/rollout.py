"""An update rule run over a stream, forwards and backwards.

Forwards, θ_t = U(θ_{t−1}; those whom the rule reads in round t, moved). Backwards, for L = Σ_t a_t L(θ_t), one sweep
from the last round to the first,

    λ_t ← a_t ∇L(θ_t) + λ_t        λ_{t−1} = (∂θ_t/∂θ_{t−1})ᵀ λ_t        dL/dδ_i += (∂θ_t/∂δ_i)ᵀ λ_t,

with i all who are read in round t; and where a query is itself a member, its loss changes with its own move directly,
too. What is kept is every θ_t: T · p numbers. Rounds' trainings hold their people's data, so they are kept only while
they are small together (`KEPT`).
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.checks import check_that, with_near_names
from oar.errors import DataError, NumericsError
from oar.goals import Wish
from oar.goals.keep import Anchors
from oar.goals.wishes import Aggregate, mean
from oar.models.training import Array, goals
from oar.online.bound_training import bind, flat_form
from oar.online.problem import OnlineProblem
from oar.online.rules.protocol import PulledBack, Update
from oar.online.rules.refits import refitted
from oar.online.stream import HISTORY
from oar.problem import Problem

KEPT = 1 << 23  # floats of people's data that are kept bound to the model, 64 MB


@dataclass(frozen=True, eq=False)
class Path:
    """The trajectory of the model over the rounds.

    Attributes:
        parameters: θ_t after each round, (T, p).
        losses: the queries' loss after each round, (T,).
        first: θ before the first round (p,), or None where nothing was deployed.
    """

    parameters: Array
    losses: Array
    first: Array | None


@dataclass(frozen=True, eq=False)
class Back:
    """The gradient of L = Σ_t a_t L(θ_t) in everyone's move.

    Attributes:
        gradient: dL/dδ_i of every row, (n, d), weights included; 0 for history, which never moves.
        signals: for each round what was broadcast in it: pairs (θ, v), as in `PulledBack`.
        adjoints: ‖λ_t‖ (T,), how much L changes with what is deployed after each round.
        sizes: (T,), how much L changes with the moves of those who arrive in each round: Σ_i ‖dL/dδ_i‖.
        query: (d,), how L changes with the query's own move, of all that ask together.
    """

    gradient: Array
    signals: tuple[tuple[tuple[Array, Array], ...], ...]
    adjoints: Array
    sizes: Array
    query: Array


@with_near_names
class Rollout:
    """Runs a problem's rule over its stream.

    Args:
        problem: the problem to solve.
        together: the function that combines several queries' losses; None means their mean.
        by: if any of several classes will do, the code of the one to be predicted; None means the nearest.
        anchors: people who are to be left as they are predicted, whose mean loss is added to the goal's; None for none.

    Attributes:
        passes: how often a round's data were read so far, added up over rounds.
        walks: how often all rounds were rolled out so far, forwards or backwards.
    """

    def __init__(
        self,
        problem: OnlineProblem,
        together: Aggregate | None = None,
        by: int | None = None,
        anchors: Anchors | None = None,
    ) -> None:
        """Read what is wanted; nothing is fitted yet."""
        check_that(together is None or callable(together), "together", "a function of losses, or None", together)
        self.problem, self.passes, self.walks = problem, 0, 0
        self.aim = replace(Aim.of(problem, together, by), anchors=anchors)
        self._classes = () if problem.regresses else problem.stream.people.classes
        self._bound: dict[int, Any] = {}
        self._near: dict[int, Array] = {}
        self._room = KEPT

    # -- forwards ----------------------------------------------------------------------------------------------------

    @cached_property
    def first(self) -> Array | None:
        """θ before the first round: what was given, or a fit to the history; None where there is neither."""
        problem = self.problem
        if problem.start is not None:
            return flat_form(self.bound(0), problem.start, "start")
        if not problem.started:
            return None
        people = problem.stream.people.some(problem.stream.rows(HISTORY))
        training = bind(problem.model, people)
        update = Update(HISTORY, None, training, training.moved(None), np.ones(people.size, bool), self._classes)
        found = refitted(update, "the first fit")
        self.passes += training.passes
        return found

    def rows(self, number: int) -> NDArray[np.intp]:
        """Return whom the rule reads in a round, as positions among everyone."""
        return self.problem.stream.read_by(self.problem.rule.reads, number)

    def bound(self, number: int) -> Any:
        """Return the model bound to those whom the rule reads in a round, before any move."""
        if number in self._bound:
            return self._bound[number]
        rows = self.rows(number)
        training = bind(self.problem.model, self.problem.stream.people.some(rows))
        cells = rows.size * training.dimensions
        if cells <= self._room:
            self._room -= cells
            self._bound[number] = training
        return training

    def update(self, number: int, before: Array | None, moves: Array | None, near: Array | None = None) -> Update:
        """Return a round's work, given θ before and everyone's moves (n, d); a refit may start `near` another."""
        rows, training = self.rows(number), self.bound(number)
        features = training.moved(None if moves is None else moves[rows])
        newest = self.problem.stream.when[rows] == number
        # A rule may write to θ before
        return Update(number, copy(before), training, features, newest, self._classes, copy(near))

    def forward(self, moves: Array | None = None, counted: bool = False, query_move: Array | float = 0.0) -> Path:
        """Return θ after every round, had everyone moved by `moves` (n, d); None means that nobody does.

        There is a row for everybody in `stream.people`, in that order; those of the history must be 0. Losses are of
        queries that have moved by `query_move` (d,).

        With `counted`, as for planning, rounds that neither count for the goal nor are remembered by later ones are
        left out (there θ and the loss are 0), and refits start where the last such walk ended.
        """
        moves, problem = self._checked(moves), self.problem
        self.walks += 1
        first = before = self.first
        parameters: dict[int, Array] = {}
        losses = np.zeros(problem.rounds)
        for number in range(problem.rounds):
            if counted and not problem.remembers:
                if not problem.weights[number]:
                    continue
                before = self._near.get(number, before)  # only where a refit starts
            update = self.update(number, before, moves, self._near.get(number) if counted else None)
            read = update.training.passes
            before = self._sound(problem.rule.update(update), update)
            losses[number] = self.aim.at(update.training, before, moves, query_move)[0]
            self.passes += update.training.passes - read
            parameters[number] = before
            if counted:
                self._near[number] = before
        none = np.zeros_like(before)
        return Path(np.array([parameters.get(number, none) for number in range(problem.rounds)]), losses, first)

    def losses(self, path: Path) -> Array:
        """Return the queries' loss after each round, (T,)."""
        return path.losses

    def outputs(self, parameters: Array, rows: Array, number: int = -1) -> Array:
        """Return the model's outputs (m, o) for people (m, d), at θ as of a round (the last unless told)."""
        training = self.bound(range(self.problem.rounds)[number])
        return np.stack([training.outputs(parameters, row) for row in np.atleast_2d(rows)])

    def deployed(self, parameters: Array, number: int = -1) -> Any:
        """Return θ, as of a round (the last unless told), as the model's own predict and goal_loss take it."""
        return self.bound(range(self.problem.rounds)[number]).parameters(parameters)

    # -- backwards ---------------------------------------------------------------------------------------------------

    def gradient(
        self, path: Path, moves: Array | None, weights: Array | None = None, query_move: Array | float = 0.0
    ) -> Back:
        """Return how Σ_t weights_t L(θ_t) changes with everyone's move, where `path` came of `moves`.

        Args:
            path: of `forward(moves)`.
            moves: (n, d), or None.
            weights: (T,); None for what the problem's goal asks for.
            query_move: (d,), the query's own, as in `forward`.
        """
        problem, moves = self.problem, self._checked(moves)
        self.walks += 1
        counts = problem.weights if weights is None else np.asarray(weights, dtype=np.float64)
        people = problem.stream.people
        gradient = np.zeros((people.size, people.dimensions))
        adjoint = np.zeros(path.parameters.shape[1])
        signals: list[tuple[tuple[Array, Array], ...]] = [()] * problem.rounds
        adjoints, own = np.zeros(problem.rounds), np.zeros(people.dimensions)
        for number in reversed(range(problem.rounds)):
            if not (counts[number] or adjoint.any()):
                continue
            before = path.parameters[number - 1] if number > 0 else path.first
            update, after = self.update(number, before, moves), path.parameters[number]
            read = update.training.passes
            if counts[number]:
                _, pull, slopes = self.aim.at(update.training, after, moves, query_move)
                adjoint = adjoint + counts[number] * pull
                own += counts[number] * slopes.sum(axis=0)
                if self.aim.members is not None:
                    np.add.at(gradient, self.aim.members, counts[number] * slopes)
            adjoints[number] = np.linalg.norm(adjoint)
            if adjoint.any():
                pulled = self._fitting(problem.rule.pull_back(update, after, adjoint), update)
                gradient[self.rows(number)] += pulled.moves
                adjoint, signals[number] = pulled.before, pulled.signals
            self.passes += update.training.passes - read
        gradient[problem.stream.when == HISTORY] = 0.0
        # A round at a time, so that nothing as large as the moves is made on the way.
        batches = (gradient[problem.stream.rows(number)] for number in range(problem.rounds))
        sizes = np.array([np.linalg.norm(some, axis=1).sum() for some in batches])
        return Back(gradient, tuple(signals), adjoints, sizes, own)

    # -- what is checked ---------------------------------------------------------------------------------------------

    def _checked(self, moves: Array | None) -> Array | None:
        if moves is None:
            return None
        people = self.problem.stream.people
        given = np.asarray(moves, dtype=np.float64)
        finite = np.isfinite([given.min(initial=0.0), given.max(initial=0.0)]).all()  # NaN is both
        if given.shape != (people.size, people.dimensions) or not finite:
            raise DataError(
                f"moves: must be finite and one row for each of stream.people, the history's included, which are 0: "
                f"({people.size}, {people.dimensions}), got {given.shape}."
            )
        if given[self.problem.stream.when == HISTORY].any():
            raise DataError("moves: must be 0 for those who were there before the first round: they never act.")
        return given

    def _sound(self, after: Any, update: Update) -> Array:
        """Return what a rule returned; raise unless it is θ, all of it numbers."""
        name, found = self.problem.rule.name, np.array(after, dtype=np.float64)  # a copy, which no rule writes to
        if found.shape != (update.training.parameter_count,):
            raise DataError(
                f"rule: {name} must return {update.training.parameter_count} parameters, shape "
                f"({update.training.parameter_count},), got shape {found.shape} in round {update.number}."
            )
        wrong = int((~np.isfinite(found)).sum())
        if wrong:
            raise NumericsError(
                f"rule: {name} must return finite parameters, got {wrong} of {found.size} that are NaN or infinite in "
                f"round {update.number}; a smaller rate, a larger penalty or standardised features may help."
            )
        return found

    def _fitting(self, pulled: PulledBack, update: Update) -> PulledBack:
        """Return what a rule pulled back; raise unless it is of the right shape and finite."""
        training = update.training
        wanted = {"before": (training.parameter_count,), "moves": (training.size, training.dimensions)}
        for part, shape in wanted.items():
            found = getattr(pulled, part)
            if np.shape(found) != shape:
                raise DataError(
                    f"rule: {self.problem.rule.name}'s pull_back must return {part} of shape {shape}, got "
                    f"{np.shape(found)} in round {update.number}."
                )
            if not np.isfinite(found).all():
                raise NumericsError(
                    f"rule: {self.problem.rule.name}'s pull_back must return finite {part}, got others in round "
                    f"{update.number}."
                )
        return pulled


@dataclass(frozen=True, eq=False)
class Aim:
    """The queries and their goals: points (q, d) before any move, and who of all rounds' people they are (q,).

    The latter is None where they do not move with their own data.
    """

    wishes: tuple[Wish, ...]
    points: Array
    members: NDArray[np.intp] | None
    together: Aggregate
    anchors: Anchors | None = None

    @classmethod
    def of(cls, problem: Problem, together: Aggregate | None, by: int | None) -> Aim:
        """Read it from a problem of all rounds' people; of several classes that will do, `by` is aimed at."""
        return cls(problem.wishes_by(by), problem.asked.points, problem.asked.members, together or mean)

    def places(self, moves: Array | None, query_move: Array | float = 0.0) -> Array:
        """Return where the queries stand, (q, d), after everyone's moves (n, d) and their own."""
        points = self.points + query_move
        return points if moves is None or self.members is None else points + moves[self.members]

    def at(
        self, training: Any, parameters: Array, moves: Array | None, query_move: Array | float = 0.0
    ) -> tuple[float, Array, Array]:
        """Return the loss, ∇_θ L (p,), and ∇_x L of each query (q, d)."""
        places = self.places(moves, query_move)
        each = [wish.judged(training, parameters, place) for wish, place in zip(self.wishes, places, strict=True)]
        loss, shares = self.together(np.array([one[0] for one in each]))
        pull = sum(share * one[1] for share, one in zip(shares, each, strict=True))
        slopes = np.array([share * one[2] for share, one in zip(shares, each, strict=True)])
        if self.anchors is not None:
            rows, targets, weight = self.anchors
            losses, by_parameters, _ = goals(training, parameters, rows, targets)
            loss, pull = loss + weight * float(losses.mean()), pull + weight * by_parameters
        return loss, np.asarray(pull), slopes

"""Receding horizon: carry out a plan round by round, observe what really happened, and plan again; or plan only once.

At round t everything before it is known as it was handed in, and everything from it on as it was expected. From that
the rounds that are left are planned, within what is left of budgets; the moves of round t are asked for, and reality
says what came of them. Whoever did not follow has kept its budget, where budgets are shared over rounds; whoever did
has spent it. In the end all rounds are audited as they really were.

A problem with one refit is one round of this: everybody is asked at once. People in parts are asked part by part, and
what came of it is kept in files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from shutil import rmtree
from tempfile import mkdtemp
from threading import Lock
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from oar.actions import Perturb
from oar.actions.sets.norms import Norm
from oar.checks import is_flag, is_number, with_near_names
from oar.errors import DataError, OptionError
from oar.online.problem import OnlineProblem
from oar.online.stream import Stream
from oar.people.wording import counted, lined_up
from oar.pictures.notebook import ShownAsText
from oar.plans import Audit, MemberPlan, Plan
from oar.plans.moves.submitted import given_plan
from oar.plans.rounds.plan import OnlinePlan
from oar.plans.rounds.result import OnlineAudit
from oar.problem import Problem
from oar.progress import Progress
from oar.recourse import collective
from oar.referee import audit
from oar.retraining.contribution import Contribution
from oar.solvers.feasible.shared_budgets import SharedBudgets
from oar.solvers.registry import EffortLike, bounded
from oar.solvers.rounds.descent import limits_of
from oar.typing import SolverLike

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]


class Happened(NamedTuple):
    """The real outcome of a round.

    Attributes:
        features: (m, d), the round's people without any move.
        moves: (m, d), the moves that were really made.
        follows: (m,), who of those with another label, or who were to leave, did so; None where all did.
    """

    features: Array
    moves: Array
    follows: Mask | None = None


class Round(NamedTuple):
    """A round of a plan as it is passed to reality.

    Attributes:
        number: the round, 0, 1, ….
        rows: (m,), positions in the stream of those who arrive.
        expected: (m, d), their expected features.
        asked: (m, d), their planned moves.
        left: (m,), how far each may move at most: the rest of its budget; for a person with several rows, the planned
            move and an equal part of the rest.
        norm: how moves are measured.
        changes: (m,), who is asked to take another label or to leave; None where nobody is.
    """

    number: int
    rows: Rows
    expected: Array
    asked: Array
    left: Array
    norm: Norm
    changes: Mask | None = None


@with_near_names
@dataclass(frozen=True, eq=False)
class Reality:
    """Members who do not all follow a plan, or move inaccurately, and batches that differ from those expected.

    Args:
        adoption: the probability that a member who is asked to move does so, in each round independently.
        noise: the standard deviation of the error in each moved feature, in the features' units; limits still hold.
        stream: everyone as they really are, with the same rounds and persons as expected; None where they are as
            expected. Features may differ, labels may not: other labels need another stream.
        seed: the seed of adoption and noise.
    """

    adoption: float = 1.0
    noise: float = 0.0
    stream: Stream | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for name, most in (("adoption", 1.0), ("noise", np.inf)):
            value = getattr(self, name)
            if not is_number(value) or not 0 <= value <= most or not np.isfinite(value):
                limits = "from 0 to 1" if name == "adoption" else "finite and ≥ 0"
                raise DataError(f"{name}: must be a number {limits}, got {value!r}.")
        if self.stream is not None and not isinstance(self.stream, Stream):
            raise DataError(f"stream: must be an oar.online.Stream or None, got type {type(self.stream).__name__}.")

    def check(self, problem: Any) -> None:
        """Raise where the real stream is not of the same rounds, persons and labels, and for errors on a table."""
        if self.noise and problem.limits is not None:
            raise OptionError(
                "noise: is for plain features, got a table, whose columns move in whole steps; leave it out, or give a "
                "function of a round."
            )
        if self.stream is None:
            return
        if not problem.over_rounds:
            raise OptionError("stream: is for problems over rounds, got one refit; give a function of the round.")
        real, expected = self.stream, problem.stream
        mine, theirs = (stream.when if stream.who is None else stream.who for stream in (expected, real))
        if real.people.features.shape != expected.people.features.shape or not (
            np.array_equal(mine, theirs) and np.array_equal(real.when, expected.when)
        ):
            raise DataError(
                "stream: must have the rows, rounds and persons of the problem's, got another; only features may "
                "really be different."
            )
        if not np.array_equal(real.people.labels, expected.people.labels):
            raise DataError("stream: must have the labels of the problem's, got others; only features may differ.")

    def __call__(self, told: Round) -> Happened:
        """Return what came of a round: the same for the same seed and moves."""
        rng = np.random.default_rng([self.seed, told.number, *told.rows[:1][told.rows[:1] > 0]])
        follows = rng.random(told.rows.size) < self.adoption
        error = self.noise * rng.standard_normal(told.asked.shape)
        moves = np.where(follows[:, None] & (told.asked != 0), told.asked + error, 0.0)
        real = told.expected if self.stream is None else self.stream.people.features[told.rows]
        if self.noise:
            moves = told.norm.project(moves, told.left)
        return Happened(np.asarray(real, dtype=np.float64), moves, follows)


@dataclass(frozen=True, eq=False)
class Followed(ShownAsText):
    """The outcome of following plans over time; `audit` alone says whether it worked.

    Attributes:
        problem: the problem with everyone's real features without any move.
        plan: the moves that were really made.
        audit: the replay of all rounds with these moves.
        replanned: whether every round was planned anew.
        promised: (T,), the goal loss that the current plan predicted before each round.
        asked: (T,), the planned effort in each round.
        followers: (T,), how many of the members asked to move did so.
    """

    problem: Problem
    plan: Plan
    audit: Audit
    replanned: bool
    promised: Array
    asked: Array
    followers: NDArray[np.intp]
    asked_rows: NDArray[np.intp] = field(repr=False)

    @property
    def loss(self) -> float:
        """The goal loss that it came to (audited): after the last round, or the mean over rounds."""
        return self.audit.loss

    @property
    def success(self) -> bool:
        """Whether the goal was reached, after the last round or every one, and every limit kept (audited)."""
        return self.audit.success

    @property
    def rounds(self) -> Any:
        """A DataFrame with one row a round.

        Its columns: round; promised, the goal loss that the plan at hand promised before it; asked_rows and followers,
        how many were asked to move and did; asked and effort, how far; loss and prediction after it; and success.
        """
        import pandas

        planned = {name: getattr(self, name) for name in ("promised", "asked_rows", "followers", "asked")}
        names = ("effort", "loss", "prediction", "success")
        found = {name: [getattr(one, name) for one in self.audit.rounds] for name in names}
        return pandas.DataFrame({"round": [one.number for one in self.audit.rounds], **planned, **found})

    def __str__(self) -> str:
        """Show what came of it."""
        rows = [
            ("planned", "anew before every round" if self.replanned else "once"),
            (
                "followed",
                f"{self.followers.sum():,} of {counted(int(self.asked_rows.sum()), 'move', 'moves')} asked for",
            ),
            ("promised", f"a goal loss of {self.promised[0]:.4g} at first, {self.promised[-1]:.4g} at last"),
        ]
        return lined_up(rows) + "\n" + str(self.audit)


@with_near_names
def follow(
    problem: Problem,
    reality: Callable[[Round], Any],
    *,
    replan: bool = True,
    solver: SolverLike = "auto",
    plan: Plan | None = None,
    effort: EffortLike = None,
    time_limit: float | None = None,
    progress: Progress = None,
) -> Followed:
    """Follow a plan round by round against what really happens, and return the audited outcome.

    Args:
        problem: the problem, with everyone as expected; one with a single refit is one round.
        reality: what really happens: an `oar.online.Reality`, or a function of a `Round` that returns a `Happened`, or
            the features (m, d) that were handed in, for which all members are assumed to have moved as planned. For
            people in parts it is asked for each part, by several threads in turn.
        replan: whether the remaining rounds are planned again before every round (receding horizon), from what really
            happened.
        solver: as in `oar.collective`.
        plan: the first plan, if it exists already; it must be for this very problem.
        effort: as in `oar.collective`.
        time_limit: seconds after which plans begin nothing more; rounds that are left are followed with the best plans
            that were found, and audited. None is no limit.
        progress: as in `oar.collective`.
    """
    if not isinstance(problem, Problem):
        raise DataError(f"problem: must be an oar.Problem or an oar.OnlineProblem to be followed, got {problem!r}.")
    if not is_flag(replan):
        raise DataError(f"replan: must be True or False, got {replan!r}.")
    if not callable(reality):
        raise DataError(f"reality: must be an oar.online.Reality or a function of a round, got {reality!r}.")
    if plan is not None and not _is_for(plan.problem, problem):
        raise DataError("plan: must be made for this very problem, got one for another; leave it out.")
    if isinstance(reality, Reality):
        reality.check(problem)
    current: Any = plan
    promised, story = np.nan if plan is None else audit(plan).loss, _story_of(problem)
    with bounded("follow", progress, effort, time_limit) as on_step:
        for number in range(story.rounds):
            if current is None or (replan and number):
                planned = collective(story.remaining(number), solver=solver, progress=on_step)
                current, promised = planned.plan, planned.loss
            story.act(number, current, promised, reality)
    return story.told(bool(replan))


def _is_for(planned: Problem, problem: Problem) -> bool:
    """Report whether a plan is for a problem, or for those whom it chose of its candidates."""
    return planned is problem or (problem.best is not None and planned.people is problem.people)


def _story_of(problem: Any) -> Any:
    """Return what tells of a problem's rounds, of which a single refit has one."""
    if problem.over_rounds:
        return _Story(problem)
    return (_OneRoundInParts if problem.people.streamed else _OneRound)(problem)


class _Story:
    """The history so far, and what is left of budgets."""

    def __init__(self, problem: OnlineProblem) -> None:
        if problem.limits is not None:  # what moves cost stays as it was expected, whatever happens
            problem = replace(problem, action=replace(problem.action, limits=problem.settled_limits))
        self.problem = problem
        people = problem.stream.people
        self.features = np.array(people.features, dtype=np.float64)  # as really handed in but for moves, or expected
        self.moves = np.zeros_like(self.features)
        self.allowed = problem.allowance.everyones(people.size)
        self.norm = problem.allowance.norm
        self.promised: list[float] = []
        self.asked: list[float] = []
        self.counts: list[tuple[int, int]] = []
        self.rounds = problem.stream.rounds

    def remaining(self, number: int) -> OnlineProblem:
        """Return the problem before round `number`: earlier rounds as handed in, with nobody left to act in them."""
        if number == 0:
            return self.problem
        stream = self.problem.stream
        past = (stream.when >= 0) & (stream.when < number)
        budgets = np.where(past, 0.0, self._left())
        people = stream.people.with_features(self.features + np.where(past[:, None], self.moves, 0.0))
        shared = self.problem.shared if isinstance(self.problem.shared, bool) else self._unspent()
        action = Perturb(budgets, norm=self.norm, limits=self.problem.action.limits)
        return replace(self.problem, stream=replace(stream, people=people), action=action, shared=shared)

    def _left(self) -> Array:
        """Return how far each row may still move (n,): its budget, and no more than its person has not spent."""
        return np.minimum(self.allowed, self._unspent())

    def _unspent(self) -> Array:
        """Return what whose row it is may still move in all rounds together (n,); ∞ where rounds share nothing."""
        totals, who = self.problem.totals, self.problem.stream.who
        if who is None or not self.problem.has_totals:
            return totals
        persons = _places(who)
        spent = np.bincount(persons, weights=self.problem.lengths(self.moves))
        return np.maximum(totals - spent[persons], 0.0)

    def act(self, number: int, plan: MemberPlan, promised: float, reality: Any) -> None:
        """Ask for a round's moves, and write down what came of it."""
        rows = self.problem.stream.rows(number)
        persons = _places(self.problem.stream.persons[rows])
        left, unspent = self._left()[rows], self._unspent()[rows]
        # A plan made before others were spent may ask for too much.
        if self.problem.limits is None:
            asked = SharedBudgets(self.norm, left, persons, unspent).project(plan.each[rows])
            lengths = self.norm.length(asked)
        else:
            every = limits_of(self.remaining(number)).project(plan.each)
            asked, lengths = every[rows], self.problem.lengths(every)[rows]
        # A person's rows together keep within what it has left.
        spare = np.maximum(unspent - np.bincount(persons, weights=lengths)[persons], 0.0)
        left = np.minimum(left, lengths + spare / np.bincount(persons)[persons])
        told = Round(number, rows, self.features[rows].copy(), asked, left, self.norm)
        self.features[rows], self.moves[rows], _ = _checked(reality(told), told)
        self.promised.append(promised)
        self.asked.append(float(lengths.sum()))
        moving = asked.any(axis=1)
        self.counts.append((int(moving.sum()), int((moving & self.moves[rows].any(axis=1)).sum())))

    def told(self, replanned: bool) -> Followed:
        """Return it all, audited as it really was."""
        stream = self.problem.stream
        real = replace(self.problem, stream=replace(stream, people=stream.people.with_features(self.features)))
        plan = OnlinePlan(real, self.moves)
        found, (asked, followers) = audit(plan), np.array(self.counts).T
        assert isinstance(found, OnlineAudit)
        promised, efforts = np.array(self.promised), np.array(self.asked)
        return Followed(real, plan, found, replanned, promised, efforts, followers, asked)


class _OneRound:
    """The story of a single refit: what everybody was asked for, and did."""

    rounds = 1

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def remaining(self, number: int) -> Problem:
        """Return the problem."""
        return self.problem

    def act(self, number: int, plan: Any, promised: float, reality: Any) -> None:
        """Ask for everything that is planned, and write down what came of it."""
        self._promised, base = promised, plan.problem
        given, before = plan.contribution(), Contribution.of(base.people, base.regresses)
        changes = given.with_moves(None).acts(before)
        features = np.asarray(base.people.features, dtype=np.float64)
        told = _told(base, np.arange(base.people.size), features.copy(), given.moves, changes)
        happened = _checked(reality(told), told)
        follows = np.ones(changes.size, dtype=bool) if happened.follows is None else happened.follows
        real = base
        if not np.array_equal(happened.features, features):
            real = replace(base, people=base.people.with_features(happened.features))
        done = given.if_only(follows, before).with_moves(happened.moves)
        self.plan = plan.handing_in(real, done)
        self._asked, asked = float(told.norm.length(told.asked).sum()), told.asked.any(axis=1)
        followed = (asked & happened.moves.any(axis=1)) | (changes & follows)
        self._counts = int((asked | changes).sum()), int(followed.sum())

    def told(self, replanned: bool) -> Followed:
        """Return it all, audited as it really was."""
        asked, followers = (np.array([one]) for one in self._counts)
        promised, efforts = np.array([self._promised]), np.array([self._asked])
        return Followed(self.plan.problem, self.plan, audit(self.plan), replanned, promised, efforts, followers, asked)


class _OneRoundInParts(_OneRound):
    """The story of a single refit of people in parts, whose moves are written to files, each part's once."""

    def act(self, number: int, plan: Any, promised: float, reality: Any) -> None:
        """Ask part by part for the moves that are planned, and write down what came of them."""
        self._promised, folder = promised, mkdtemp(prefix="oar-followed-")
        clear = partial(rmtree, folder, ignore_errors=True)
        try:
            happening = _Happening(plan.problem, plan.query_move, plan, reality)
            happening.write_moves(folder)
            self.plan = given_plan(plan.problem, moves=folder)
        except BaseException:
            clear()
            raise
        finalize(self.plan, clear)  # files are there as long as the plan is
        asked, followed, self._asked = happening.sums.tolist()
        self._counts = int(asked), int(followed)


@dataclass(frozen=True, eq=False, repr=False)
class _Happening(Plan):
    """A plan as it really goes, part by part."""

    planned: Plan
    reality: Any
    sums: Array = field(default_factory=lambda: np.zeros(3))  # who was asked, who followed, and the effort asked for
    _turn: Any = field(default_factory=Lock)

    def signature(self) -> bytes:
        """Return what tells these moves from the planned ones."""
        return b"followed" + self.planned.signature()

    def mover(self) -> _Happening:
        """Return itself."""
        return self

    def of_chunk(self, chunk: Any) -> Array:
        """Ask reality about some consecutive people."""
        asked, features = self.planned.of_chunk(chunk), np.asarray(chunk.features, dtype=np.float64)
        with self._turn:
            told = _told(self.problem, np.arange(chunk.start, chunk.stop), features.copy(), asked, None)
            happened = _checked(self.reality(told), told)
            if not np.array_equal(happened.features, features):
                raise DataError(
                    "reality: people in parts must be as expected but for their moves, got other features; make a "
                    "population of them, and audit the plan's moves there."
                )
            moving = asked.any(axis=1)
            followed = (moving & happened.moves.any(axis=1)).sum()
            self.sums[:] += moving.sum(), followed, told.norm.length(asked).sum()
        return happened.moves


def _told(problem: Problem, rows: Rows, features: Array, asked: Array, changes: Mask | None) -> Round:
    """Return the only round, as it is told to reality."""
    norm, allowed = problem.allowance.norm, problem.allowance.everyones(problem.people.size)[rows]
    # On a table budgets are of costs: nobody goes less far than planned because of them.
    return Round(0, rows, features, asked, np.maximum(allowed, norm.length(asked)), norm, changes)


def _places(who: Rows) -> Rows:
    """Return whose row each is, as 0, 1, …."""
    return np.unique(who, return_inverse=True)[1].ravel()


def _checked(happened: Any, told: Round) -> Happened:
    """Return what reality says, refused where it is not of the round's shape or not finite."""
    if not isinstance(happened, Happened):
        happened = Happened(np.asarray(happened, dtype=np.float64) - told.asked, told.asked)
    follows = None if happened.follows is None else np.asarray(happened.follows, dtype=bool)
    if follows is not None and follows.shape != told.rows.shape:
        raise DataError(
            f"reality: follows of round {told.number} must be yes or no for each of {told.rows.size}, got shape "
            f"{follows.shape}."
        )
    features, moves = (np.asarray(part, dtype=np.float64) for part in happened[:2])
    for name, part in (("features", features), ("moves", moves)):
        if part.shape != told.expected.shape or not np.isfinite(part).all():
            raise DataError(
                f"reality: {name} of round {told.number} must be finite numbers of shape {told.expected.shape}, got "
                f"shape {part.shape}{'' if part.shape != told.expected.shape else ' with others'}."
            )
    return Happened(features, moves, follows)

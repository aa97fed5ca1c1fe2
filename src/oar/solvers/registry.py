"""The registry: an ordered list of solvers, of which the first that does not refuse a problem solves it.

A solver says what it is called, which verbs it serves, what a problem must be like (`requires`) and what it may ask for
beside (`serves`); refusals are generated from these, and a solver may add reasons of its own. Wrappers (several
queries, side effects, the most useful members, other labels) are solvers too: they change the task and ask again.

    task ─▶ the first in `registered()` that takes the name and does not refuse ─▶ moves or a Proposal

Solvers that users register are asked before those of the package.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from oar.checks import choose, real_numbers, with_near_names
from oar.errors import DataError, OptionError
from oar.goals.keep import Anchors
from oar.goals.wishes import Aggregate
from oar.models.training import Array
from oar.plans import MemberPlan, Proposal
from oar.plans.refits import Refits
from oar.plans.rounds.plan import member_plan
from oar.problem import Problem
from oar.progress import OnStep, Progress, deadline, limited_time, silent, step_line, telling
from oar.solvers.settings import (
    EFFORTS,
    EffortLevel,
    FrankWolfe,
    OneShot,
    ProjectedGradient,
    given_settings,
)

EffortLike = str | EffortLevel | None
VERBS = ("individual", "collective", "joint")
WORD = re.compile("(?<!^)(?=[A-Z])")  # where a word begins in ProjectedGradient


class Need(NamedTuple):
    """Something that a problem may ask for and not every solver knows: its words, and what to do without it."""

    words: str
    argument: str
    advice: str


NEEDS = {
    "rounds": Need("several rounds of training", "problem", "use oar.collective"),
    "own set": Need("an action of one's own", "action", "use oar.collective, or an oar.Perturb(…)"),
    "black box": Need("a model that can only be trained and asked", "model", "use a model of oar.models"),
    "parts": Need(
        "people who are read in parts, and needs everybody in memory", "people", "use people.loaded() if they fit"
    ),
    "best": Need("members who are still to be chosen (oar.Best)", "participants", "give a mask"),
    "levers": Need("other labels and strikes", "action", "use an oar.Perturb(…) alone"),
    "side effects": Need("limits on side effects (oar.Keep)", "keep", "leave it out"),
    "batch norm": Need("statistics of a batch at test time", "model", "use another model"),
    "retraining": Need("a model that is retrained in a loop", "model", "use oar.NearestCentroid()"),
    "table": Need("a table's limits", "people", "use plain features"),
    "goals": Need("goals of several people, or other goals than one label or value", "query", "ask for one label"),
}
EVERYTHING = frozenset(NEEDS)
BALLS = EVERYTHING - {"own set"}
IN_MEMORY = EVERYTHING - {"rounds", "black box", "parts"}
REFITTED = frozenset({"retraining", "table", "goals", "side effects", "own set"})  # not answered by class means alone


@with_near_names
@dataclass(frozen=True, eq=False)
class Task:
    """A task for a solver: a problem, who may move, and the caller's options.

    Attributes:
        problem: the problem to solve.
        verb: who may move: "individual" (the query), "collective" (the members) or "joint" (both).
        solver: "auto", a name or settings, as the caller gave them.
        signal: how training is differentiated, as the caller gave it.
        on_step: a listener, called with step, loss and gap.
        starts: more moves (n + 1, d) to start from, the query's last.
        within: the names of the wrappers that ask.
        anchors, together, by: as in `Problem.training`: what is added to the goal's loss, how several losses become
            one, and the class that is to be predicted.
    """

    problem: Any
    verb: str
    solver: Any = "auto"
    signal: Any = "auto"
    on_step: OnStep = silent
    starts: Sequence[Array] = ()
    within: tuple[str, ...] = ()
    anchors: Anchors | None = None
    together: Aggregate | None = None
    by: int | None = None

    @cached_property
    def needs(self) -> frozenset[str]:
        """The names in `NEEDS` of what this problem asks for."""
        problem = self.problem
        means = problem.model.plain_means
        parts = {
            "best": problem.best,
            "side effects": problem.keep,
            "table": problem.limits,
            "own set": problem.own_action,
        }
        asked = {
            "black box": problem.model.only_asked,
            "parts": problem.people.streamed and not means,
            "batch norm": problem.model.fixed,
            "retraining": not means,
            "goals": not problem.plain,
            "levers": problem.levers.given,
        } | {name: part is not None for name, part in parts.items()}
        found = frozenset(name for name, is_so in asked.items() if is_so)
        return found - {"retraining"} | {"rounds"} if problem.over_rounds else found

    @property
    def is_auto(self) -> bool:
        """Whether the solver is left to the registry."""
        return named(self.solver) == "auto"

    @property
    def effort(self) -> EffortLevel:
        """The amount of search."""
        return current_effort()

    @property
    def query(self) -> bool:
        """Whether the query moves."""
        return self.verb != "collective"

    def ask(self, **changes: Any) -> Any:
        """Return what the registry proposes for this task with some changes."""
        return propose(replace(self, **changes))


def named(solver: Any) -> str:
    """Return the name by which a solver is asked for; "" where settings are given in its place."""
    return solver if isinstance(solver, str) else ""


_effort: ContextVar[EffortLevel] = ContextVar("effort", default=EFFORTS["normal"])


def current_effort() -> EffortLevel:
    """Return the effort that solvers make where none is asked for."""
    return _effort.get()


@with_near_names
@contextmanager
def default_effort(effort: EffortLike) -> Iterator[EffortLevel]:
    """Set the default effort of all solvers in a `with` block; None leaves it unchanged.

    It applies to this thread, and to the workers of a study that is begun in it.

    >>> with default_effort("quick") as effort:
    ...     effort.plans
    3
    """
    level = current_effort() if effort is None else _level(effort)
    before = _effort.set(level)
    try:
        yield level
    finally:
        _effort.reset(before)


@contextmanager
def bounded(title: str, progress: Progress, effort: EffortLike, time_limit: float | None) -> Iterator[OnStep]:
    """Yield what solvers call after each step, in a `with` block with the effort and the time that a caller allows."""
    with telling(title), step_line(title, progress) as on_step, default_effort(effort), limited_time(time_limit):
        yield on_step


def _level(effort: Any) -> EffortLevel:
    return effort if isinstance(effort, EffortLevel) else EFFORTS[choose("effort", effort, EFFORTS)]


def called(kind: type) -> str:
    """Return the name of a class of settings: ProjectedGradient's is "projected-gradient"."""
    return _hyphened(kind.__name__)


@cache
def _hyphened(name: str) -> str:
    return WORD.sub("-", name).lower()


def searching(settings: ProjectedGradient, usual: dict[str, Any]) -> ProjectedGradient:
    """Return settings of a search in which nothing is refitted at random, with more or less effort than usual."""
    effort, timed = current_effort(), is_timed(settings)
    if effort is EFFORTS["normal"] and not timed:
        return settings
    settings = effort.settled(settings)
    return replace(settings, **(effort.loop(usual, timed=timed) | given_settings(settings)))


def is_timed(settings: Any) -> bool:
    """Report whether a search with these settings ends by the clock."""
    return deadline(getattr(settings, "time_limit", np.inf)) < np.inf


class Solver:
    """Base class of solvers in the registry; derive your own solver from it.

    Attributes:
        name: the name by which users choose it.
        settings: the class of its settings, whose objects users may pass in place of the name; None where it has none.
        verbs: the kinds of recourse that it solves: "individual", "collective" and "joint", or some of them.
        auto: whether solver="auto" may take it.
        wraps: whether it changes the task and asks the registry again.
        signals: whether it takes a `signal` other than "auto", as `task.signal`.
        requires: names in `oar.solvers.NEEDS` of what a problem must ask for.
        serves: names of what a problem may ask for: by default nothing but moves within balls.
        refuses: names of what a problem must not ask for, each with the reason, after "it …".
        behind: names of what a problem may ask for, each with the wrapper that must ask on its behalf.
    """

    name: ClassVar[str] = ""
    settings: ClassVar[type | None] = None
    verbs: ClassVar[tuple[str, ...]] = ("collective",)
    wraps: ClassVar[bool] = False
    auto: ClassVar[bool] = True
    signals: ClassVar[bool] = False
    requires: ClassVar[frozenset[str]] = frozenset()
    serves: ClassVar[frozenset[str]] = frozenset({"retraining"})
    refuses: ClassVar[Mapping[str, str]] = {}
    behind: ClassVar[Mapping[str, str]] = {}

    def takes(self, solver: Any) -> bool:
        """Report whether "auto", a name or settings mean this solver."""
        if name := named(solver):
            return self.auto if name == "auto" else name == self.name
        return isinstance(solver, self.settings or ())

    def refusal(self, task: Task) -> str | None:
        """Return the reason why it does not solve a task, after "it …"; None if it does."""
        for name, why in self.refuses.items():
            if name in task.needs:
                return why
        for name, wrapper in self.behind.items():
            if name in task.needs and wrapper not in task.within:
                return f"is asked by what knows {name}"
        if task.verb not in self.verbs:
            return f"is for {' and '.join(self.verbs)} recourse"
        for name in NEEDS:
            if name in self.requires and name not in task.needs:
                return f"is for {NEEDS[name].words}"
            if name in task.needs and name not in self.serves | self.requires:
                return f"does not know {NEEDS[name].words}"
        return None

    def propose(self, task: Task, settings: Any) -> Any:
        """Return the members' moves (n, d), or a pair of them and the query's (d,), or a Proposal."""
        raise NotImplementedError(f"{type(self).__name__}.propose must return moves.")


class Wrapper(Solver):
    """A solver that changes the task and asks the registry again, whichever solver was named.

    Attributes:
        around: the settings of the solvers on whose behalf it asks; () for all.
    """

    wraps = True
    around: ClassVar[tuple[type, ...]] = ()

    def takes(self, solver: Any) -> bool:
        """Report whether it asks on behalf of a solver."""
        if not self.around or isinstance(solver, self.around):
            return True
        name = named(solver)
        return name == "auto" or name in map(called, self.around)

    def refusal(self, task: Task) -> str | None:
        """Return why it does not wrap a task: it has already, or there is nothing to wrap."""
        return "asks already" if self.name in task.within else super().refusal(task)

    def inside(self, task: Task) -> tuple[str, ...]:
        """Return the wrappers of a task that this one asks."""
        return (*task.within, self.name)


STEPWISE = (ProjectedGradient, FrankWolfe)  # descents that have starts
DESCENTS = (*STEPWISE, OneShot)


class ForDescent(Wrapper):
    """Wrappers of the descent, which hand it losses or starts of their own."""

    verbs: ClassVar[tuple[str, ...]] = ("collective", "joint")
    serves = IN_MEMORY - {"best", "levers"}
    around: ClassVar[tuple[type, ...]] = DESCENTS


class Thorough(ForDescent):
    """Thorough effort: a plan with normal effort, then a search from there; the better of the two counts."""

    name, around = "thorough", STEPWISE
    serves = EVERYTHING - {"black box", "parts"}

    def refusal(self, task: Task) -> str | None:
        """Return why one plan is enough."""
        if not task.effort.repeats or not task.needs & (REFITTED | {"rounds"}):
            return "is for thorough effort where models are refitted in a loop"
        return super().refusal(task)

    def propose(self, task: Task, settings: Any) -> Any:
        """Ask twice, and return the plan whose claimed loss is lower."""
        within = self.inside(task)
        with default_effort("normal"):
            usual = task.ask(within=within)
        if usual.exact:
            return usual
        more = task.ask(within=within, starts=[*task.starts, *_ends(task, usual)])
        best = usual if usual.claimed_loss <= more.claimed_loss else more
        return replace(best, steps=usual.steps + more.steps, passes=usual.passes + more.passes)


class OfCentroids(Solver):
    """Plain class means, one label as goal, and moves within balls."""

    verbs: ClassVar[tuple[str, ...]] = ("collective",)
    serves = frozenset()
    refuses: ClassVar[dict[str, str]] = {"retraining": "is for nearest centroid"}

    def refusal(self, task: Task) -> str | None:
        """Return the usual reasons; alone, the query affects nobody, whoever else could act."""
        alone = task.verb == "individual" and task.verb in self.verbs
        if alone and not task.needs & (REFITTED - {"side effects"} | {"black box", "rounds"}):
            return None
        return super().refusal(task)


def _ends(task: Task, found: Any) -> list[Array]:
    """Return where a plan ends as a start, where all that is searched over is everybody's moves."""
    if not isinstance(found.plan, MemberPlan) or task.needs & {"best", "levers", "side effects"}:
        return []
    return [np.vstack([found.plan.each, found.plan.query_move])]


Registered = TypeVar("Registered")
_own: list[Solver] = []
_ours: list[Solver] = []


def fill(solvers: Sequence[type[Solver]]) -> None:
    """Put the package's own solvers into the registry, in the order in which they are asked."""
    _ours[:] = [kind() for kind in solvers]


def registered() -> tuple[Solver, ...]:
    """Return all solvers in the order of the registry, those that users registered first."""
    return (*_own, *_ours)


def registered_by_users() -> tuple[Solver, ...]:
    """Return the solvers that users have registered."""
    return tuple(_own)


def names() -> list[str]:
    """Return every name that `solver=` knows."""
    return list(dict.fromkeys(one.name for one in (*_ours, *_own) if not one.wraps))


@with_near_names
def register(solver: Registered) -> Registered:
    """Add a solver of your own, a class or an object, so that its name and "auto" find it; return it.

    >>> @register
    ... class Staying(Solver):
    ...     name, auto = "staying", False
    ...     def propose(self, task, settings):
    ...         return np.zeros((task.problem.people.size, task.problem.people.dimensions))
    >>> unregister("staying")
    """
    made: Any = solver() if isinstance(solver, type) else solver
    check_solver_parts(made)
    if made.name in names():
        raise OptionError(
            f"name: {made.name!r} is registered already; choose another, or oar.solvers.unregister({made.name!r}) "
            "what you registered."
        )
    _own.append(made)
    return solver


@with_near_names
def unregister(name: str) -> None:
    """Remove a solver of your own from the registry."""
    choose("name", name, [one.name for one in _own])
    _own[:] = [one for one in _own if one.name != name]


def check_solver_parts(made: Any) -> None:
    """Refuse what the registry could not ask."""
    if not isinstance(made, Solver):
        raise DataError(
            f"solver: must be an oar.solvers.Solver, got an object of type {type(made).__name__}; derive a class from "
            "it, and give it a name and propose(task, settings)."
        )
    if not isinstance(made.name, str) or not made.name or made.name == "auto":
        raise DataError(f"name: of a solver must be a string that is not empty and not 'auto', got {made.name!r}.")
    if not made.verbs or set(made.verbs) - set(VERBS):
        raise DataError(f"verbs: of a solver must be some of {', '.join(map(repr, VERBS))}, got {made.verbs!r}.")
    for part in ("requires", "serves"):
        if not isinstance(getattr(made, part), frozenset | set):
            raise DataError(f"{part}: of solver {made.name!r} must be a set of names, got {getattr(made, part)!r}.")
        for need in getattr(made, part):
            choose(part, need, NEEDS)
    if not isinstance(made.settings, type | None):
        raise DataError(f"settings: of solver {made.name!r} must be a class, or None, got {made.settings!r}.")
    if not isinstance(made.refuses, Mapping):
        raise DataError(f"refuses: of solver {made.name!r} must be a dict of names and reasons, got {made.refuses!r}.")
    if type(made).propose is Solver.propose:
        raise DataError(f"propose: must be a method of solver {made.name!r}, got none; it returns the members' moves.")


def check_known(solver: Any) -> None:
    """Raise unless "auto", a name or settings are those of some solver."""
    if not any(one.takes(solver) for one in registered() if not one.wraps):
        raise unknown(solver, [one for one in registered() if not one.wraps])


def propose_collective(
    problem: Problem,
    solver: Any = "auto",
    signal: Any = "auto",
    on_step: OnStep = silent,
    starts: Sequence[Array] = (),
) -> Proposal:
    """Propose collective recourse: members move, are relabelled or leave. `oar.collective` also audits it.

    `starts` are more moves (n + 1, d) to start from, the query's last, for models that are refitted in the loop.
    """
    found: Proposal = propose(Task(problem, "collective", solver, signal, on_step, starts))
    return found


def propose_individual(problem: Problem, solver: Any = "auto") -> Proposal:
    """Propose individual recourse: the query moves. `oar.individual` also audits it."""
    found: Proposal = propose(Task(problem.themselves, "individual", solver))
    return found


def propose_joint(problem: Problem, solver: Any = "auto", signal: Any = "auto", on_step: OnStep = silent) -> Proposal:
    """Propose joint recourse: members and query move. `oar.joint` also audits it."""
    found: Proposal = propose(Task(problem, "joint", solver, signal, on_step))
    return found


def propose(task: Task) -> Any:
    """Return the proposal of the first solver that the task's `solver` means and that does not refuse."""
    for solver in (one for one in registered() if task.verb in one.verbs):
        if solver.takes(task.solver) and solver.name not in task.within and solver.refusal(task) is None:
            return _proposed(solver, task)
    raise _refused(task)


def settings_of(solver: Solver, task: Task) -> Any:
    """Return the settings that the caller gave, or the solver's usual ones; None where it has none."""
    if isinstance(task.solver, solver.settings or ()):
        return task.solver
    try:
        return solver.settings and solver.settings()
    except TypeError as error:
        raise OptionError(
            f"solver: {solver.name!r} needs settings, got none ({error}); give an object of its settings as "
            "solver=, or their fields defaults."
        ) from None


def _proposed(solver: Solver, task: Task) -> Any:
    if solver in _own and not solver.signals and task.signal != "auto":
        raise OptionError(f"signal: solver {solver.name!r} takes none; leave it out, got {task.signal!r}.")
    if solver in _own and solver.wraps:  # what it asks again goes to the others
        task = replace(task, within=(*task.within, solver.name))
    found = solver.propose(task, settings_of(solver, task))
    if solver not in _own:
        return found
    if not isinstance(found, Proposal):
        found = proposal_of(solver.name, task.problem, found)
    if found.plan.problem is not task.problem:
        raise DataError(
            f"solver: {solver.name!r} must propose a plan for the problem that it was asked, task.problem, got one for "
            f"{found.plan.problem!r}."
        )
    return found


def _refused(task: Task) -> OptionError:
    """Return the error that says why nothing solves a task as it was asked, and what would."""
    alone = [one for one in registered() if not one.wraps]
    applies = sorted(
        (one for one in alone if one.refusal(replace(task, solver=one.name)) is None),
        key=lambda one: names().index(one.name),
    )
    if not applies or task.is_auto:
        return _nothing_applies(task)
    meant = [one for one in alone if one.takes(task.solver)]
    if not meant or not named(task.solver):
        return unknown(task.solver, applies)
    listing = ", ".join(repr(name) for name in dict.fromkeys(["auto", *(one.name for one in applies)]))
    why = next(filter(None, (one.refusal(task) for one in reversed(meant))), "refuses")
    return OptionError(f"solver: {task.solver!r} does not apply here, because it {why}; use one of {listing}.")


def unknown(solver: Any, applies: Sequence[Solver]) -> OptionError:
    """Return the error that a name or settings are none of these solvers'."""
    known = list(dict.fromkeys(one.name for one in applies))
    if isinstance(solver, str):
        try:
            choose("solver", solver, ["auto", *known])
        except OptionError as error:
            return error
    kinds = dict.fromkeys(one.settings for one in applies if one.settings)
    listed = ", ".join(f"oar.solvers.{kind.__name__}" for kind in kinds)
    return OptionError(f"solver: must be 'auto', {', '.join(map(repr, known))}, or one of {listed}; got {solver!r}.")


def _nothing_applies(task: Task) -> OptionError:
    """Return the error that names what no solver knows of a problem."""
    able = [one.serves | one.requires for one in registered() if task.verb in one.verbs and one.requires <= task.needs]
    unknown = [name for name in NEEDS if name in task.needs and not any(name in served for served in able)]
    asked = [name for name in NEEDS if name in task.needs and name != "retraining"]
    need = NEEDS[(unknown or asked or ["retraining"])[0]]
    return OptionError(f"{need.argument}: {task.verb} recourse does not know {need.words}; {need.advice}.")


def proposal_of(name: str, problem: Problem, found: Any) -> Proposal:
    """Return moves (n, d) of a user's solver, or a pair of them and the query's own (d,), as a proposal.

    It claims the loss of one refit, and proves nothing.
    """
    size, width = problem.people.size, problem.people.dimensions
    moves, own = found if isinstance(found, tuple) and len(found) == 2 else (found, np.zeros(width))
    moves, own = _numbers(name, "moves", moves, (size, width)), _numbers(name, "query move", own, (width,))
    plan = member_plan(problem, own, moves)
    refits = Refits(plan)
    return Proposal(
        plan=plan,
        solver=name,
        claimed_loss=float(refits.verdict(refits.planned).loss),
        gap=np.inf,
        exact=False,
        finished=True,
        steps=0,
        passes=1,
        promised=False,
    )


def _numbers(name: str, what: str, given: Any, shape: tuple[int, ...]) -> Array:
    """Return an array of this shape, without negative zeros; raise where a solver returned something else."""
    try:
        numbers, got = real_numbers(given), f"{np.shape(given)} of type {type(given).__name__}"
    except (TypeError, ValueError) as error:
        numbers, got = np.empty(0), f"something else of type {type(given).__name__} ({error})"
    if numbers.shape != shape:
        raise DataError(
            f"solver: {name!r} must propose {what} of shape {shape}, got {got}; return an array, or a tuple of "
            "the members' moves and the query's own."
        )
    return numbers + 0.0

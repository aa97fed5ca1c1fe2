"""The registry: an ordered list of solvers, of which the first that does not refuse a problem solves it.

A solver says what it is called, which verbs it serves, what a problem must be like (`requires`) and what it may ask for
beside (`serves`); refusals are generated from these, and a solver may add reasons of its own. Wrappers (several
queries, side effects, the most useful members, other labels) are solvers too: they change the task and ask again.

    task ─▶ the first in `registered()` that takes the name and does not refuse ─▶ moves or a Proposal

Solvers that users register are asked before those of the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError, OptionError, choose, with_near_names
from oar.estimators.black_box.box import BlackBox
from oar.goals.keep import Anchors
from oar.goals.wishes import Aggregate
from oar.models import TestTimeBatchNorm
from oar.online import OnlineProblem
from oar.plans import Proposal
from oar.plans.rounds.result import OnlineProposal
from oar.problem import Problem
from oar.progress import OnStep
from oar.solvers.settings import EffortLevel, current_effort
from oar.solvers.user_moves import proposal_of

Array = NDArray[np.float64]
VERBS = ("individual", "collective", "joint")


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
REFITTED = frozenset({"retraining", "table", "goals", "side effects", "own set"})  # not answered by class means alone


@with_near_names
@dataclass(frozen=True, eq=False)
class Task:
    """What a solver is asked: a problem, who may move, and the caller's options.

    Attributes:
        problem: what is asked.
        verb: who may move: "individual" (the query), "collective" (the members) or "joint" (both).
        solver: "auto", a name or settings, as the caller gave them.
        signal: how training is differentiated, as the caller gave it.
        on_step: called with step, loss and gap; None where nobody looks.
        starts: more moves (n + 1, d) to start from, the query's last.
        within: the names of the wrappers that ask.
        anchors, together, by: as in `Problem.training`: what is added to the goal's loss, how several losses become
            one, and the class that is to be predicted.
    """

    problem: Any
    verb: str
    solver: Any = "auto"
    signal: Any = "auto"
    on_step: OnStep | None = None
    starts: Sequence[Array] = ()
    within: tuple[str, ...] = ()
    anchors: Anchors | None = None
    together: Aggregate | None = None
    by: int | None = None

    @cached_property
    def needs(self) -> frozenset[str]:
        """The names in `NEEDS` of what this problem asks for."""
        return needs_of(self.problem)

    @property
    def is_auto(self) -> bool:
        """Whether the solver is left to the registry."""
        return isinstance(self.solver, str) and self.solver == "auto"

    @property
    def effort(self) -> EffortLevel:
        """How much is to be tried."""
        return current_effort()

    @property
    def query(self) -> bool:
        """Whether the query moves."""
        return self.verb != "collective"

    def ask(self, **changes: Any) -> Any:
        """Return what the registry proposes for this task with some changes."""
        return propose(replace(self, **changes))


def needs_of(problem: Problem | OnlineProblem) -> frozenset[str]:
    """Return the names in `NEEDS` of what a problem asks for."""
    if isinstance(problem, OnlineProblem):
        return frozenset({"rounds"})
    means = problem.model.plain_means
    asked = {
        "black box": isinstance(problem.model, BlackBox),
        "parts": problem.people.streamed and not means,
        "best": problem.best is not None,
        "levers": problem.levers is not None,
        "side effects": problem.keep is not None,
        "batch norm": isinstance(problem.model, TestTimeBatchNorm),
        "retraining": not means,
        "table": problem.limits is not None,
        "own set": problem.own_action is not None,
        "goals": not problem.plain,
    }
    return frozenset(name for name, is_so in asked.items() if is_so)


class Solver:
    """A solver, as the registry knows it; one of your own derives from this class.

    Attributes:
        name: what users call it by.
        settings: the class of its settings, whose objects users may give in place of the name; None where it has none.
        verbs: whom it moves: "individual", "collective" and "joint", or some of them.
        auto: whether solver="auto" may take it.
        wraps: whether it changes the task and asks the registry again.
        signals: whether it takes a `signal` other than "auto", as `task.signal`.
        requires: names in `oar.solvers.NEEDS` of what a problem must ask for.
        serves: names of what a problem may ask for: nothing but moves within balls unless you say so.
    """

    name: ClassVar[str] = ""
    settings: ClassVar[type | None] = None
    verbs: ClassVar[tuple[str, ...]] = ("collective",)
    wraps: ClassVar[bool] = False
    auto: ClassVar[bool] = True
    signals: ClassVar[bool] = False
    requires: ClassVar[frozenset[str]] = frozenset()
    serves: ClassVar[frozenset[str]] = frozenset({"retraining"})

    def takes(self, solver: Any) -> bool:
        """Report whether "auto", a name or settings mean this solver."""
        if isinstance(solver, str):
            return self.auto if solver == "auto" else solver == self.name
        return self.settings is not None and isinstance(solver, self.settings)

    def refusal(self, task: Task) -> str | None:
        """Return why it does not solve a task, after "it …"; None where it does."""
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
    """A solver that changes the task and asks the registry again, whichever solver was named."""

    wraps = True

    def takes(self, solver: Any) -> bool:
        """Report that it asks on behalf of any solver."""
        return True

    def refusal(self, task: Task) -> str | None:
        """Return why it does not wrap a task: it has already, or there is nothing to wrap."""
        return "asks already" if self.name in task.within else super().refusal(task)


Registered = TypeVar("Registered")
_own: list[Solver] = []
_ours: list[Solver] = []


def fill(solvers: Sequence[type[Solver]]) -> None:
    """Put the package's own solvers into the registry, in the order in which they are asked."""
    _ours[:] = [kind() for kind in solvers]


def registered() -> tuple[Solver, ...]:
    """Return all solvers in the order in which they are asked, those that users registered first."""
    return (*_own, *_ours)


def registered_by_users() -> tuple[Solver, ...]:
    """Return the solvers that users have registered."""
    return tuple(_own)


def names() -> list[str]:
    """Return every name that `solver=` knows."""
    return list(dict.fromkeys(one.name for one in (*_ours, *_own) if not one.wraps))


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


def unregister(name: str) -> None:
    """Take a solver of your own out of the registry."""
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
        for need in getattr(made, part):
            choose(part, need, NEEDS)
        if not isinstance(getattr(made, part), frozenset | set):
            raise DataError(f"{part}: of solver {made.name!r} must be a set of names, got {getattr(made, part)!r}.")
    if type(made).propose is Solver.propose:
        raise DataError(f"propose: must be a method of solver {made.name!r}, got none; it returns the members' moves.")


def check_known(solver: Any) -> None:
    """Raise unless "auto", a name or settings are those of some solver."""
    if not any(one.takes(solver) for one in registered() if not one.wraps):
        raise _unknown(solver, [one for one in registered() if not one.wraps])


def propose_collective(
    problem: Problem,
    solver: Any = "auto",
    signal: Any = "auto",
    on_step: OnStep | None = None,
    starts: Sequence[Array] = (),
) -> Proposal:
    """Members move, are relabelled or leave; the model is refitted. Not audited: use `oar.collective` for that.

    `starts` are more moves (n + 1, d) to start from, the query's last, for models that are refitted in the loop.
    """
    found: Proposal = propose(Task(problem, "collective", solver, signal, on_step, starts))
    return found


def propose_individual(problem: Problem, solver: Any = "auto") -> Proposal:
    """The query moves, the model stays. Not audited: use `oar.individual` for that."""
    problem.only_moves("individual recourse")
    problem.only_one("individual recourse")
    found: Proposal = propose(Task(problem, "individual", solver))
    return found


def propose_joint(
    problem: Problem, solver: Any = "auto", signal: Any = "auto", on_step: OnStep | None = None
) -> Proposal:
    """Members and query move. Not audited: use `oar.joint` for that."""
    problem.only_moves("joint recourse")
    problem.only_one("joint recourse")
    found: Proposal = propose(Task(problem, "joint", solver, signal, on_step))
    return found


def propose(task: Task) -> Any:
    """Return the proposal of the first solver that the task's `solver` means and that does not refuse."""
    for solver in registered():
        if solver.takes(task.solver) and solver.refusal(task) is None:
            return _proposed(solver, task)
    raise _refused(task)


def settings_of(solver: Solver, task: Task) -> Any:
    """Return the settings that the caller gave, or the solver's usual ones; None where it has none."""
    kind = solver.settings
    if kind is None:
        return None
    return task.solver if isinstance(task.solver, kind) else kind()


def _proposed(solver: Solver, task: Task) -> Any:
    if solver in _own and not solver.signals and task.signal != "auto":
        raise OptionError(f"signal: solver {solver.name!r} takes none; leave it out, got {task.signal!r}.")
    found = solver.propose(task, settings_of(solver, task))
    if solver not in _own:
        return found
    if not isinstance(found, Proposal | OnlineProposal):
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
    if not meant or not isinstance(task.solver, str):
        return _unknown(task.solver, applies)
    listing = ", ".join(repr(name) for name in dict.fromkeys(["auto", *(one.name for one in applies)]))
    why = next(filter(None, (one.refusal(task) for one in reversed(meant))), "refuses")
    return OptionError(f"solver: {task.solver!r} does not apply here, because it {why}; use one of {listing}.")


def _unknown(solver: Any, applies: Sequence[Solver]) -> OptionError:
    known = list(dict.fromkeys(one.name for one in applies))
    if isinstance(solver, str):
        try:
            choose("solver", solver, ["auto", *known])
        except OptionError as unknown:
            return unknown
    kinds = dict.fromkeys(one.settings for one in applies if one.settings is not None)
    listed = ", ".join(f"oar.solvers.{kind.__name__}" for kind in kinds)
    return OptionError(f"solver: must be 'auto', {', '.join(map(repr, known))}, or one of {listed}; got {solver!r}.")


def _nothing_applies(task: Task) -> OptionError:
    """Return the error that names what no solver knows of a problem."""
    able = [one.serves | one.requires for one in registered() if task.verb in one.verbs and one.requires <= task.needs]
    unknown = [name for name in NEEDS if name in task.needs and not any(name in served for served in able)]
    asked = [name for name in NEEDS if name in task.needs and name != "retraining"]
    need = NEEDS[(unknown or asked or ["retraining"])[0]]
    return OptionError(f"{need.argument}: {task.verb} recourse does not know {need.words}; {need.advice}.")

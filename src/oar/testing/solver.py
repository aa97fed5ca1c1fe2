"""`check_solver`: does a solver of one's own keep what the registry and the audit rely on?"""

from __future__ import annotations

import time
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions import Perturb
from oar.errors import OptionError
from oar.models import SoftmaxRegression
from oar.people import Population
from oar.plans import Proposal
from oar.problem import Problem, Query
from oar.referee import audit
from oar.solvers.registry import Solver, Task, check_solver_parts, proposal_of, settings_of
from oar.testing.report import Fault, Report, checked

Array = NDArray[np.float64]
PEOPLE = 24
CLAIMED = 1e-6  # of the loss: by how much a claim may differ from the audit's refit
COPY = "Copy arrays before you change them."
SECONDS, PATIENCE = 0.2, 20.0  # a time limit, and how long a solver may take that has one


def check_solver(solver: Any, problem: Problem | None = None, *, seed: int = 0, raises: bool = True) -> Report:
    """Check a solver of your own on a small problem, and say what it lacks. It need not be registered.

    Args:
        solver: what is checked: a class derived from `oar.solvers.Solver`, or an object of one.
        problem: what it is asked; None for softmax regression of two dozen people.
        seed: these are drawn from this.
        raises: whether a failed check raises a ConformanceError, which lists all of them with advice; otherwise only
            the returned report does: `print` it.
    """
    made = solver() if isinstance(solver, type) else solver
    if not isinstance(made, Solver):
        raise OptionError(
            f"solver: must be derived from oar.solvers.Solver, got an object of type {type(made).__name__}."
        )
    case = SolverCase(made, _drawn(seed) if problem is None else problem)
    return checked(str(made.name or type(made).__name__), case, CHECKS, raises)


def _drawn(seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    codes = np.arange(PEOPLE) % 2
    features = rng.standard_normal((PEOPLE, 2)) + 2.0 * codes[:, None]
    return Problem(Population(features, codes), SoftmaxRegression(0.1), Query([0.5, 0.5], 1), Perturb(0.3))


@dataclass
class SolverCase:
    """A solver, and the problem that it is checked on."""

    solver: Solver
    problem: Problem

    @cached_property
    def before(self) -> tuple[bytes, ...]:
        """The data as they are before the solver sees them."""
        return self.data()

    def data(self) -> tuple[bytes, ...]:
        """Return everybody's features, labels and weights as bytes."""
        people = self.problem.people
        weights = np.zeros(0) if people.weights is None else people.weights
        return tuple(np.asarray(part).tobytes() for part in (people.features, people.codes(0, people.size), weights))

    def run(self, verb: str, **given: Any) -> Proposal:
        """Return what the solver proposes, with some of its settings given."""
        task = Task(self.problem, verb, self.solver.name)
        settings = settings_of(self.solver, task)
        found = self.solver.propose(task, replace(settings, **given) if given else settings)
        if isinstance(found, Proposal):
            return found
        return proposal_of(self.solver.name, self.problem, found)

    @cached_property
    def proposals(self) -> dict[str, Proposal]:
        """What it proposes for each of its verbs."""
        _ = self.before
        return {verb: self.run(verb) for verb in self.solver.verbs}

    def has(self, setting: str) -> bool:
        """Report whether the settings have a field of this name."""
        kind = self.solver.settings
        return is_dataclass(kind) and setting in {field.name for field in fields(kind)}


def interface(case: SolverCase) -> str:
    """It has what the registry asks."""
    check_solver_parts(case.solver)
    return f"it is called {case.solver.name!r}, and is for {', '.join(case.solver.verbs)} recourse."


def refusal(case: SolverCase) -> str:
    """It takes the problem, and says in words what it does not take."""
    for verb in case.solver.verbs:
        said = case.solver.refusal(Task(case.problem, verb, case.solver.name))
        if said is not None:
            raise Fault(
                f"it refuses the problem that it is checked on: it {said}.",
                "Give check_solver a problem that it takes, or let refusal return None.",
            )
    other = next(verb for verb in ("individual", "collective", "joint", "none") if verb not in case.solver.verbs)
    if not case.solver.refusal(Task(case.problem, other, case.solver.name)):
        raise Fault(
            f"it does not refuse {other} recourse, which is none of its verbs.", "Begin with super().refusal(task)."
        )
    return "what it does not take, it refuses with a reason."


def limits(case: SolverCase) -> str:
    """The audit finds no broken limit."""
    for verb, proposal in case.proposals.items():
        broken = audit(proposal.plan).violations
        if broken:
            raise Fault(
                f"the audit of its {verb} plan says: {broken[0]}.",
                "Project moves with problem.allowance.norm.project(moves, problem.allowance.everyones(n)).",
            )
        plan = proposal.plan
        members_move = verb == "individual" and np.any(np.asarray(plan.moves()))
        if members_move or (verb == "collective" and np.any(plan.query_move)):
            raise Fault(f"somebody moves who may not in {verb} recourse.", "Leave their moves at 0.")
    return "every move is within its mover's limit."


def untouched(case: SolverCase) -> str:
    """The problem's data are as they were."""
    try:
        _ = case.proposals
    except ValueError as reason:  # NumPy's own, for an array that cannot be written to
        if "read-only" not in str(reason):
            raise
        raise Fault(f"it writes to the problem's data: {reason}.", COPY) from None
    if case.data() != case.before:
        raise Fault("it changed the problem's data.", COPY)
    return "the problem's data are as they were."


def repeatable(case: SolverCase) -> str:
    """The same seed gives the same moves."""
    for verb, proposal in case.proposals.items():
        again = case.run(verb)
        if not np.array_equal(_moves(again), _moves(proposal)):
            raise Fault(
                f"asked again, it proposes other moves for {verb} recourse.",
                "Draw from numpy.random.default_rng(settings.seed), and keep nothing from call to call.",
            )
    return "asked again, it proposes the same moves to the last bit."


def _moves(proposal: Proposal) -> Array:
    return np.vstack([np.asarray(proposal.plan.moves(), dtype=np.float64), proposal.plan.query_move])


def claims(case: SolverCase) -> str:
    """What it claims, the audit finds."""
    worst = 0.0
    for verb, proposal in case.proposals.items():
        found, claimed = audit(proposal.plan).loss, proposal.claimed_loss
        worst = max(worst, abs(found - claimed) / max(abs(found), 1e-12))
        if not worst <= CLAIMED and not proposal.estimated:
            raise Fault(
                f"it claims a loss of {claimed:.6g} for {verb} recourse, and the audit finds {found:.6g}.",
                "Claim the loss of a true refit, or return moves alone; an estimate says estimated=True.",
            )
    return f"its claimed losses are the audit's, to {worst:.0e}."


def time_limit(case: SolverCase) -> str:
    """It honours a time limit, if it has one."""
    if not case.has("time_limit"):
        return "its settings have no time_limit."
    began = time.monotonic()
    case.run(case.solver.verbs[0], time_limit=SECONDS)
    taken = time.monotonic() - began
    if taken > PATIENCE:
        raise Fault(f"with time_limit={SECONDS} it took {taken:.0f} s.", "Look at the clock between steps.")
    return f"with time_limit={SECONDS} it came to an end."


def max_steps(case: SolverCase) -> str:
    """It honours a number of steps, if it has one."""
    if not case.has("max_steps"):
        return "its settings have no max_steps."
    verb = case.solver.verbs[0]
    single = {"restarts": 0} if case.has("restarts") else {}  # a short search may ask for more starts than a long one
    usual, taken = case.proposals[verb].steps, case.run(verb, max_steps=1, **single).steps
    if taken > 1 and taken >= usual:  # steps of several starts are counted together
        raise Fault(f"with max_steps=1 it took {taken} steps, as without.", "Stop after settings.max_steps.")
    return f"with max_steps=1 it takes {taken}, and {usual} without."


CHECKS = (
    ("interface", interface, ()),
    ("refusal", refusal, ("interface",)),
    ("limits", limits, ("refusal",)),
    ("problem untouched", untouched, ("refusal",)),
    ("repeatable", repeatable, ("refusal",)),
    ("claims", claims, ("limits",)),
    ("time limit", time_limit, ("refusal",)),
    ("steps", max_steps, ("refusal",)),
)

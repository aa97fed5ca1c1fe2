"""Plans for black boxes: exactly where that is possible, by surrogates, and by search.

With solver="auto" exact solutions come first (of one decision tree, and of nearest neighbours), and a search where
there are none.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import OptionError
from oar.estimators.black_box import Calls
from oar.plans import LeverPlan, MemberPlan, Plan, Proposal
from oar.problem import Problem
from oar.progress import OnStep, deadline
from oar.retraining.black_box import Candidate, Trials
from oar.retraining.contribution import Contribution
from oar.solvers.black_box import own_move
from oar.solvers.black_box.direct_search import DirectSearch, search, unproved
from oar.solvers.black_box.exact import neighbours, neighbours_collective, tree
from oar.solvers.black_box.levers import search_levers
from oar.solvers.black_box.surrogate import Outlook, Surrogate, outlook
from oar.solvers.registry import BALLS, Solver, Task, current_effort
from oar.solvers.settings import Exact


class OfBlackBox(Solver):
    """Plans for models that can only be trained and asked."""

    requires, serves = frozenset({"black box"}), BALLS

    def propose(self, task: Task, settings: Any) -> Proposal:
        """Take an exact solution where there is one; "auto" searches where nothing is known exactly."""
        alone, began = task.verb == "individual", task.problem.model.calls.copy()
        if not alone:
            _check(task)
        settings = current_effort().settled(settings)
        if task.verb != "joint" and (task.is_auto or isinstance(settings, Exact)):
            found = (exact_move if alone else neighbours_collective.propose)(task.problem)
            if found is not None:
                return replace(found, calls=task.problem.model.calls.since(began))
            if not task.is_auto:
                raise OptionError(
                    "solver: 'exact' is for one decision tree (individual recourse) and for nearest neighbours, on "
                    f"plain features, got {task.problem.model.name}; leave the solver out, which then searches."
                )
        elif alone and settings != replace(DirectSearch(), seed=settings.seed):
            raise OptionError(
                "solver: the query's own move is searched for by questions alone, so only DirectSearch(seed=…) does "
                "anything here; leave the other settings out."
            )
        if alone:
            return own_move.solve(task.problem, settings.seed)
        if isinstance(settings, Surrogate):
            return _by_surrogates(task.problem, settings, task.query)
        return _by_search(task.problem, settings, task.query, task.on_step, began)


class SearchOfBlackBox(OfBlackBox):
    """Direct search by true trainings; asked for "auto", the optimum where it is known."""

    name, settings, verbs = "direct-search", DirectSearch, ("individual", "collective", "joint")


class ExactOfBlackBox(OfBlackBox):
    """The optimum for single trees and nearest neighbours."""

    name, settings, verbs, auto = "exact", Exact, ("individual", "collective"), False


class SurrogateOfBlackBox(OfBlackBox):
    """A plan for models that stand in for the black box."""

    name, settings, verbs, auto = "surrogate", Surrogate, ("collective", "joint"), False


def _check(task: Task) -> None:
    """Refuse what members cannot be planned for with."""
    problem = task.problem
    if task.signal != "auto":
        raise OptionError(
            f"signal: {problem.model.name} can only be trained and asked, so that there is none; leave it out, got "
            f"{task.signal!r}."
        )
    if task.query and problem.limits is not None:
        raise OptionError(
            "people: joint recourse with a black box is for plain features, got a table; use oar.collective for the "
            "members and oar.individual for the query."
        )
    if problem.levers.given and problem.keep is not None:
        problem.only_moves("a plan that must leave others alone")


def _by_surrogates(problem: Problem, settings: Surrogate, query: bool) -> Proposal:
    trials = Trials(problem, 1)  # to distil, if that is asked for
    seen = outlook(problem, settings, trials, query)
    kept = " Whether it leaves others alone is for the audit to say." if problem.keep is not None else ""
    return unproved(
        _plan(seen.problem, seen.candidate),
        "surrogate",
        seen.predicted.loss,
        trials.calls,
        finished=True,
        steps=0,
        note=f"{seen.note}{kept}",
        promised=False,
        estimated=True,
        claimed_success=seen.predicted.success,
    )


def _by_search(problem: Problem, settings: DirectSearch, query: bool, on_step: OnStep, began: Calls) -> Proposal:
    trials = Trials(problem, settings.refits, deadline(settings.time_limit), began)
    seen = Outlook.empty(problem)
    if settings.surrogate is not None:
        seen = outlook(problem, settings.surrogate, trials, query)
        problem = trials.problem = seen.problem
    elif problem.best is not None:
        raise OptionError("start: surrogates choose the most useful members, so oar.Best needs them; leave it out.")
    if problem.levers.given:
        found = search_levers(problem, settings, trials, seen, on_step)
    else:
        found = search(problem, settings, trials, seen, query=query, on_step=on_step)
    calls = trials.calls
    how = f"Searched over {found.policy} by {calls.fits:,} {'training' if calls.fits == 1 else 'trainings'}."
    return unproved(
        _plan(problem, found.candidate),
        "direct-search",
        found.loss,
        calls,
        finished=not found.ended,
        steps=found.steps,
        ended=found.ended,
        note=f"{how} {seen.note}".rstrip(),
        promised=False,
        estimated=found.random,
    )


def _plan(problem: Problem, candidate: Candidate) -> Plan:
    own = np.zeros(problem.people.dimensions) + candidate.query_move
    before = Contribution.of(problem.people, problem.regresses)
    moves, targets, weights = candidate.over(before)
    if not problem.levers.given:
        return MemberPlan(problem, own, moves)
    return LeverPlan(problem, own, moves, targets=targets, away=(weights == 0) & (before.parts[2] > 0))


def exact_move(problem: Problem) -> Proposal | None:
    """Move the query alone; None where nothing exact is known."""
    if problem.levers.given:
        return None
    return tree.propose(problem) or neighbours.propose(problem)


def shortest_move(problem: Problem) -> NDArray[np.float64] | None:
    """Return the query's shortest move (d,) that gets it the goal; None if there is none.

    Raises:
        OptionError: where the black box is not one of those that are known exactly.
    """
    leaves = tree.leaves_of(problem)
    if leaves is not None:
        return leaves.moves[leaves.nearest()] + 0.0 if leaves.reached.any() else None
    regions = neighbours.regions_of(problem)
    with suppress(neighbours.TooMany):
        if regions is not None:
            found = regions.shortest()
            return found.move if found.length < np.inf else None
    raise OptionError(
        f"model: must be known exactly for the shortest move, as one decision tree and small nearest neighbours are, "
        f"got {problem.model.name}; oar.individual looks for the move of least loss."
    )

"""The problem that surrogates are planned for: public people, the same query, the same limits and budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions import Perturb
from oar.actions.choice import part_of
from oar.errors import DataError, OptionError
from oar.models import Ensemble
from oar.people import Population
from oar.problem import Problem
from oar.solvers.black_box.settings import Surrogate

Array = NDArray[np.float64]
ENOUGH = 3_000  # people times outputs: more teach linear surrogates little that is new, and take longer


def public_people(settings: Surrogate, problem: Problem) -> Population:
    """Return whom surrogates are trained on: others, the people themselves, or those of them who are drawn.

    Where labels, leavers, members who ask or limits on others tie everyone together, those who are not drawn stay, and
    weigh nothing.
    """
    people, public = problem.people, settings.public
    if isinstance(public, Population):
        return _checked(problem, public)
    apart = problem.levers is None and problem.keep is None and problem.best is None and problem.asked.among is None
    if public is None:
        outputs = people.size * (1 if problem.regresses else len(people.classes) - 1)
        public = min(1.0, ENOUGH / outputs) if apart else 1.0
    if public == 1.0:
        return people
    weights = people.row_weights
    drawn = np.zeros(people.size, dtype=bool)
    rng = np.random.default_rng([settings.seed, 2])
    codes = np.zeros(people.size) if problem.regresses else people.codes(0, people.size)
    for code in np.unique(codes):  # as many of each class as can be, and of each somebody
        mine = rng.permutation(np.flatnonzero((codes == code) & (weights > 0)))
        drawn[mine[: max(1, round(float(public) * mine.size))]] = True
    if apart:
        return people.some(np.flatnonzero(drawn))
    return with_labels(problem, people, None, np.where(drawn, weights, 0.0))


def with_labels(problem: Problem, people: Population, rows: Array | None, weights: Array | None = None) -> Population:
    """Return people with other labels (n, k) or weights (n,)."""
    if rows is None:
        rows = people.target_rows(problem.regresses)
    kind: Any = {"values" if problem.regresses else "shares": rows}
    return people.contributing(people.weights if weights is None else weights, **kind)


def themselves(people: Population, public: Population, alike: bool = False) -> bool:
    """Report whether public people are the people, one by one, maybe with other labels; `alike`, with their weights."""
    one, other = people.features, public.features
    same = one.shape == other.shape and one.strides == other.strides and one.ctypes.data == other.ctypes.data
    return (public is people or same) and (not alike or public.weights is people.weights)


def public_problem(problem: Problem, public: Population, model: Ensemble) -> Problem:
    """Return the same question of surrogates: of the people themselves or a share of them, with all their limits.

    Other people have the members' common budget (else the median one), as many participants, and limits on columns,
    but nobody's own.
    """
    people = problem.people
    if themselves(people, public):
        return replace(problem, people=public, model=model, action=_settled(problem))
    if problem.asked.among is not None:
        raise OptionError(
            "public: must be the people themselves, or a share of them, where members ask, got others; leave it out."
        )
    problem.only_moves("a plan among other people")
    perturb = part_of(problem.action, Perturb)
    assert perturb is not None
    budgets = problem.allowance.everyones(people.size)
    acting = budgets > 0
    budget = float(np.median(budgets[acting])) if acting.any() else 0.0
    limits = perturb.limits if perturb.limits is None else replace(perturb.limits, own={})
    share = float(acting.mean())
    participants: Any = None if share in (0.0, 1.0) else share
    action = replace(perturb, budget=budget, limits=limits, participants=participants, seed=0 if participants else None)
    return replace(problem, people=public, model=model, action=action, keep=None)


def _settled(problem: Problem) -> Any:
    """Return the action with those participants who were drawn."""
    if part_of(problem.action, Perturb) is None:
        return problem.action
    return problem.with_action().action


def _checked(problem: Problem, public: Population) -> Population:
    people = problem.people
    if public.dimensions != people.dimensions or public.schema != people.schema:
        raise DataError(
            f"public: must have the people's features ({people.dimensions} of them, and of a table the same columns "
            f"and levels), got others ({public.dimensions}); make both with the same schema."
        )
    if not problem.regresses and public.classes != people.classes:
        raise DataError(f"public: must have the people's classes {people.classes}, got {public.classes}.")
    return public

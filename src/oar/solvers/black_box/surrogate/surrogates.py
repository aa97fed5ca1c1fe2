"""Which surrogates stand in for a black box, and the problem that they are planned for.

Families take turns, from the second turn on on bootstrap draws; those that cannot represent the goal are left out. They
are trained on public people, with the same query, limits and budget.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions import Perturb
from oar.actions.choice import part_of
from oar.errors import DataError, NumericsError, OptionError
from oar.goals import ClassWish
from oar.models import Differentiable, Ensemble, LinearSVM, Ridge, Scaled, SoftmaxRegression
from oar.models.wrap.ensemble import own_parameters
from oar.people import Population
from oar.problem import Problem
from oar.retraining.contribution import Contribution
from oar.retraining.own_training import predictions
from oar.solvers.black_box.settings import Surrogate

Array = NDArray[np.float64]
FITTED = 1e-6  # the gradient norm to which a family is tried
LOOKED_AT = 500  # public people whose predictions are looked at
ENOUGH = 3_000  # people times outputs: more teach linear surrogates little that is new, and take longer


def families(settings: Surrogate, problem: Problem) -> tuple[Differentiable, ...]:
    """Return the families that are asked for, or the usual ones."""
    if settings.models is not None:
        wrong = [model for model in settings.models if bool(model.regresses) != problem.regresses]
        if wrong:
            what = "values" if problem.regresses else "classes"
            raise DataError(f"models: must predict {what}, as {problem.model.name} does, got {wrong[0].name}.")
        return tuple(settings.models)
    if problem.regresses:
        return (Scaled(Ridge(1e-2)),)
    softmax = Scaled(SoftmaxRegression(1e-2))
    # A linear SVM's outputs are margins, of which no probability can be asked.
    return (softmax,) if problem.query.probability is not None else (softmax, Scaled(LinearSVM(1e-2)))


def ensemble(models: tuple[Differentiable, ...], number: int | None, seed: int) -> Ensemble:
    """Return so many surrogates: families in turns, from the second turn on on bootstrap draws."""
    number = len(models) if number is None else number
    chosen = [_turned(models[place % len(models)], place // len(models)) for place in range(number)]
    drawn = np.random.SeedSequence([seed, 1]).generate_state(number)
    return Ensemble(
        tuple(chosen), tuple(int(drawn[place]) if place >= len(models) else None for place in range(number))
    )


def _turned(model: Differentiable, turn: int) -> Differentiable:
    """Return a family for its next turn: what starts from a seed starts from another one."""
    if isinstance(model, Scaled):
        return replace(model, model=_turned(model.model, turn))
    if not turn or not hasattr(model, "seed"):
        return model
    turned: Any = copy.copy(model)  # settings are frozen, so that they are set as a dataclass sets them
    object.__setattr__(turned, "seed", model.seed + turn)
    return turned


def able(models: tuple[Differentiable, ...], problem: Problem, public: Population) -> tuple[tuple[Any, ...], list[str]]:
    """Return the families that can represent the goal on public data, and a sentence on each that cannot.

    One that cannot be fitted, or that never predicts the goal of any public person, nor for who asks, says nothing
    about how to get there. Where that is so of all that can be fitted, they are kept, and it is said.
    """
    kept, fitted, told = [], [], []
    for model in models:
        try:
            training = model.training(public)
            fit = training.fit(training.moved(None), training.start(), FITTED)
            predicts = problem.regresses or _predicts(model, own_parameters(training, fit.parameters), problem, public)
        except (NumericsError, DataError) as reason:
            told.append(f"Surrogate {model.name} cannot be fitted to the public data and was left out: {reason}")
            continue
        fitted.append(model)
        if predicts:
            kept.append(model)
        else:
            told.append(
                f"Surrogate {model.name} never predicts {problem.goal_words} on the public data: it cannot represent "
                "the goal."
            )
    if fitted and not kept:
        return tuple(fitted), [*told, "No other surrogate was there, so that little is to be expected of this plan."]
    return tuple(kept), told


def _predicts(model: Differentiable, parameters: Any, problem: Problem, public: Population) -> bool:
    """Report whether somebody's goal is predicted of anybody."""
    some = np.linspace(0, public.size - 1, min(public.size, LOOKED_AT)).astype(np.intp)
    rows = np.vstack([np.asarray(public.features, dtype=np.float64)[some], problem.asked.points])
    codes = predictions(model, parameters, rows)
    return any(np.isin(codes, wish.codes).any() for wish in problem.wishes if isinstance(wish, ClassWish))


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
    return Contribution(None, rows, weights).handed_in(people, problem.regresses)


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

"""Which surrogates stand in for a black box: families, bootstrap draws, and those that cannot represent the goal."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError, NumericsError
from oar.goals import ClassWish
from oar.models import Differentiable, Ensemble, LinearSVM, Ridge, Scaled, SoftmaxRegression
from oar.models.wrap.ensemble import own_parameters
from oar.people import Population
from oar.problem import Problem
from oar.solvers.black_box.settings import Surrogate

Array = NDArray[np.float64]
FITTED = 1e-6  # the gradient norm to which a family is tried
LOOKED_AT = 500  # public people whose predictions are looked at


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
    if model.linear:  # as `predict`, without compiling anything
        outputs = rows @ parameters[:, :-1].T + parameters[:, -1]
        codes = outputs.argmax(axis=1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0).astype(np.intp)
    else:
        codes = model.predict(parameters, rows)
    return any(np.isin(codes, wish.codes).any() for wish in problem.wishes if isinstance(wish, ClassWish))

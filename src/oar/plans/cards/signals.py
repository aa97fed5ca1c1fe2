"""Signals that members could answer: of the model that is retrained where a card can hold it, else of a stand-in.

A card holds a model's name, its settings and numbers, and no code: neither functions nor layers nor trees. Where the
model that is retrained is more than that, members answer the signal of a plain one that is trained on the same people.
What such answers are worth is found as for every card, by refits of the model itself (`publish`).

A signal is taken where the plan leads, and also before anybody moves, for it may vanish where the goal is reached.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.errors import DataError, NumericsError
from oar.models import Differentiable, GaussianNaiveBayes, Ridge, Scaled, SoftmaxRegression
from oar.models.centroid.prototypes import PrototypeNetwork
from oar.models.naive_bayes import GaussianTraining
from oar.models.serialize import to_spec
from oar.people import Population
from oar.plans.cards.card import Array
from oar.plans.cards.digits import averages
from oar.plans.cards.table.score import CardSignal, Scaler, in_units, is_laid_out, linear_in_features
from oar.problem import Problem
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import OwnTraining

if TYPE_CHECKING:
    from oar.plans.plan import MemberPlan

TIGHT = 1e-8
CLASSIFIERS = (Scaled(SoftmaxRegression(1e-2)), SoftmaxRegression(1e-2), GaussianNaiveBayes())
REGRESSORS = (Scaled(Ridge(1e-2)), Ridge(1e-2))
Pair = tuple[Array, Array]


def own_model(problem: Problem) -> Differentiable | None:
    """Return the model that is retrained, as a card can hold it; None where it cannot.

    Nearest centroid that is differentiated is a prototype network.
    """
    if problem.model.plain_means:
        return PrototypeNetwork()
    try:
        found = problem.model.written_down(problem.people)
        to_spec(found.unscaled)
    except DataError:
        return None
    return found


def card_name(problem: Problem) -> str:
    """Return the name by which a card calls the model that is retrained."""
    own = own_model(problem)
    return problem.model.name if own is None or problem.model.plain_means else own.name


def stand_ins(problem: Problem) -> tuple[Differentiable, ...]:
    """Return plain models whose signals may do in place of the model's own, the likeliest first."""
    return REGRESSORS if problem.regresses else CLASSIFIERS


def planned_pair(plan: MemberPlan) -> Pair | None:
    """Return θ and v of the plan's own last refit, where they are those of the model as a card holds it."""
    model = plan.problem.model
    as_written = model.plain_means or model.linear or own_model(plan.problem) is model
    known = plan.parameters is not None and plan.signal is not None and as_written
    return (plan.parameters, plan.signal) if known else None  # type: ignore[return-value]  # neither is None


class SignalSource:
    """A model bound to a problem's people, which says what members could answer after one contribution or another."""

    def __init__(self, problem: Problem, model: Differentiable) -> None:
        """Bind the model."""
        asked = Problem(problem.people, model, problem.query, problem.action) if problem.over_rounds else problem
        self.problem, self.model = replace(asked, model=model, keep=None), model
        self.retraining = OwnTraining(self.problem, TIGHT)

    @property
    def training(self) -> Any:
        """The model's own training."""
        return self.retraining.training

    def pair(self, given: Contribution, query_move: Array | float = 0.0) -> Pair:
        """Return θ and v at a refit on what people hand in, as plans hold them; raise where there is none."""
        refit = self.retraining.refit(given)
        if refit is None:
            raise NumericsError("model: has no refit on this contribution.")
        problem, training = self.problem, refit.training
        _, pull, _ = training.goal(refit.fit.parameters, problem.first_query + query_move, problem.goal_target)
        signal = training.solve(refit.fit, pull, None, TIGHT)
        in_given = getattr(training, "in_given_units", lambda vector: vector)
        return in_given(refit.fit.parameters), in_given(signal)

    def told(self, parameters: Array, signal: Array) -> CardSignal:
        """Return θ and v as a card says them, for members who are seen by round centres and scales."""
        people, scaler = self.problem.people, Scaler.none(self.problem.people.dimensions)
        if isinstance(self.model, Scaled):
            parameters, signal, *rest = self.training.published(parameters, signal)
            scaler = Scaler(*rest)
        scaler = _with_smoothing(self.training, parameters, signal, scaler)
        inner = self.model.unscaled
        sent = CardSignal(np.zeros(0) if linear_in_features(inner) else parameters, signal, scaler)
        return in_units(inner, sent, *_round_units(people)) if is_laid_out(inner) else sent

    def pairs(self, given: tuple[Contribution, ...], query_move: Array | float = 0.0) -> Iterator[Pair]:
        """Yield the pairs after some contributions, without those that do not exist."""
        for one in given:
            with suppress(NumericsError, DataError):
                yield self.pair(one, query_move)


def sources(problem: Problem, models: tuple[Differentiable, ...]) -> Iterator[SignalSource]:
    """Yield these models bound to a problem's people, where they can be trained on them."""
    for model in models:
        with suppress(NumericsError, DataError):
            yield SignalSource(problem, model)


def _with_smoothing(training: Any, parameters: Array, signal: Array, scaler: Scaler) -> Scaler:
    """Return what members do through averages, through the ε of Gaussian naive Bayes too: a parabola in one coordinate.

    ε counts people, whatever they weigh; a card takes everyone to weigh the same.
    """
    training = getattr(training, "unaimed", training)
    inner = getattr(training, "inner", training)
    if not isinstance(inner, GaussianTraining):
        return scaler
    own = inner.parameters(parameters)
    shares = np.exp(own["log_share"] - np.logaddexp.reduce(own["log_share"]))
    means = shares @ own["mean"]
    widest = int((shares @ (np.exp(own["log_variance"]) + own["mean"] ** 2) - means**2).argmax())
    rate = inner.size * inner.widening(parameters, signal)
    shift, spread = scaler.shift.copy(), scaler.spread.copy()
    shift[widest] -= 2 * rate * means[widest]
    spread[widest] += rate
    return replace(scaler, shift=shift, spread=spread)


def _round_units(people: Population) -> Pair:
    """Return centres and scales that are powers of ten, and multiples of them, near everyone's; 0 and 1 of levels."""
    means, spreads = averages(people)
    places = np.rint(np.log10(spreads)).astype(int)
    centres = [round(float(mean), -place) for mean, place in zip(means, places, strict=True)]
    numbers = True if people.encoding is None else people.encoding.scaled
    return np.where(numbers, centres, 0.0), np.where(numbers, [float(f"1e{place}") for place in places], 1.0)

"""From a plan for a table to the cards that might be published for it: its columns' terms, and a few signals.

The plan's own signal comes first. Where members' answers to it lose too much (it has vanished because the goal is
reached, or leaves many people indifferent between columns) that of the people as they were is tried, and that at what
members made of the first. Where none will do, budgets grow from a share of the common one: each signal is that of a
refit on what members made of the one before, so that it is there while the goal is not reached yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.actions.limits import Limit
from oar.actions.measured import spreads_of
from oar.errors import DataError, NumericsError
from oar.models import NearestCentroid, Scaled
from oar.models.scaled import unscaled
from oar.models.spec import to_spec
from oar.people.schema import Column
from oar.plans.card import Array, Broadcast, Card
from oar.plans.publish import FEWEST, common_fields, effective_number, given_targets, refuse_small_classes, table_model
from oar.plans.rare import rare_levels, without_rare
from oar.plans.table_score import Scaler, linear_in_features
from oar.plans.table_terms import ColumnTerms, Room, TableTerms
from oar.problem import Problem

if TYPE_CHECKING:
    from oar.plans.plan import MemberPlan

TIGHT = 1e-8
SHARES = (0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
FREE = Limit()


def table_cards(plan: MemberPlan) -> Iterator[Card]:
    """Yield cards, the most likely one first; raise where nothing can be published."""
    problem = plan.problem
    assert problem.limits is not None
    assert plan.parameters is not None
    assert plan.signal is not None
    if problem.limits.plausible is not None:
        raise DataError(
            "plan: its limits ask for plausible moves, which are judged by where other people are, and a card must not "
            "hold their data; plan without `plausible`, or hand members their rows of plan.changes()."
        )
    model = table_model(plan)
    to_spec(unscaled(model))
    _refuse_few(plan, unscaled(model))
    training = _asked(plan).training()

    first = _card(plan, training, plan.parameters, plan.signal)
    yield first
    with suppress(NumericsError):  # where it cannot be refitted there is no such signal
        yield _card(plan, training, *_signal(plan, training, None))
        yield _card(plan, training, *_signal(plan, training, plan.followed(first).each))


def grown_cards(plan: MemberPlan) -> Iterator[Card]:
    """Yield cards with growing shares of a common budget, each with the signal that the last ones led to."""
    allowance = plan.problem.allowance
    if not allowance.single:
        return
    training = _asked(plan).training()
    with suppress(NumericsError):
        found = _signal(plan, training, None)
        for share in SHARES:
            card = replace(_card(plan, training, *found), budget=share * float(allowance.budget))
            yield card
            found = _between(found, _signal(plan, training, plan.followed(card).each))


def _asked(plan: MemberPlan) -> Problem:
    """Return the plan's problem for the model that it was made with."""
    return replace(plan.problem, model=table_model(plan))


def _signal(plan: MemberPlan, training: Any, moves: Array | None) -> tuple[Array, Array]:
    """Return θ and v at a refit on moved people, as plans hold them."""
    fit = training.fit(training.moved(moves), training.start(), TIGHT)
    asked = _asked(plan)
    _, pull, _ = training.goal(fit.parameters, asked.first_query + plan.query_move, asked.goal_target)
    signal = training.solve(fit, pull, None, TIGHT)
    given = getattr(training, "in_given_units", lambda vector: vector)
    return given(fit.parameters), given(signal)


def _between(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return the mean of two signals, v at length 1, which changes no answer: so that answers do not swing."""
    sizes = [float(np.linalg.norm(signal)) or 1.0 for _, signal in (one, other)]
    return 0.5 * (one[0] + other[0]), 0.5 * (one[1] / sizes[0] + other[1] / sizes[1])


def _card(plan: MemberPlan, training: Any, parameters: Array, signal: Array) -> Card:
    problem, model = plan.problem, table_model(plan)
    scaler = Scaler.none(problem.people.dimensions)
    if isinstance(model, Scaled):
        parameters, signal, *rest = training.published(parameters, signal)
        scaler = Scaler(*rest)
    inner, rare = unscaled(model), rare_levels(problem.people)
    parameters = np.zeros(0) if linear_in_features(inner) else parameters
    parameters, signal = (
        without_rare(inner, vector, problem.people.dimensions, rare) for vector in (parameters, signal)
    )
    broadcast = Broadcast(inner, parameters, signal, 0.0)
    fields = common_fields(plan)
    rows = 1 if problem.regresses else len(problem.people.classes)
    return Card(
        model=problem.model.name,
        directions=np.zeros((rows, problem.people.dimensions)),
        broadcast=broadcast,
        table=terms_of(problem, scaler),
        **fields,
    )


def terms_of(problem: Problem, scaler: Scaler) -> TableTerms:
    """Return what everybody may do to a table's columns."""
    people, limits = problem.people, problem.limits
    assert people.encoding is not None
    assert limits is not None
    weights = np.ones(people.size) if people.first_weights is None else people.first_weights
    spreads = spreads_of(np.asarray(people.features, dtype=np.float64), weights / weights.sum())
    columns = tuple(
        _terms(column, limits.columns.get(column.name, FREE), float(spreads[people.encoding.places[column.name].start]))
        for column in people.encoding.schema
    )
    model = problem.model
    scaled = ("frozen" if model.frozen else "refitted") if isinstance(model, Scaled) else None
    return TableTerms(columns, limits.parsed, limits.ruled(people.encoding.schema), scaler, scaled)


def _terms(column: Column, limit: Limit, spread: float) -> ColumnTerms:
    """Return one column's terms; `limit` has been checked, so that its bounds are coordinates."""
    varies = column.kind in ("boolean", "category") or limit.unit is not None or spread > 0
    if limit.immutable or not varies:  # of a column that never varies nothing says what a change would cost
        return ColumnTerms(column, False)
    if column.kind == "category":
        choices = [at for at, level in enumerate(column.levels) if limit.levels is None or level in limit.levels]
        return ColumnTerms(column, True, step=1.0, cost=float(limit.cost), choices=tuple(choices))
    unit = 1.0 if column.kind == "boolean" else float(limit.unit or spread)
    least, most = {"boolean": (0.0, 1.0), "ordinal": (0.0, len(column.levels) - 1.0)}.get(column.kind, (None, None))
    lower = max((bound for bound in (least, limit.lower) if bound is not None), default=None)
    upper = min((bound for bound in (most, limit.upper) if bound is not None), default=None)
    step = float(limit.step or column.whole)
    return ColumnTerms(column, True, lower, upper, limit.direction, step, float(limit.cost) / unit)


def everyones_room(terms: TableTerms, problem: Problem) -> Room:
    """Return how far each of the problem's people may go: as the card says, and within limits of their own."""
    people, limits = problem.people, problem.limits
    assert limits is not None
    rows = np.asarray(people.features, dtype=np.float64)
    room = terms.room(rows)
    positions = {} if people.index is None else {name: place for place, name in enumerate(people.index)}
    for person, own in limits.own.items():
        place = positions.get(person, person)
        for name, limit in own.items():
            room.narrow(terms, place, rows[place], name, limit)
    return room


def _refuse_few(plan: MemberPlan, model: Any) -> None:
    """Refuse averages of too few people: spreads and scalers of all, and what some models hold of each class."""
    people = plan.problem.people
    weights = np.ones(people.size) if people.weights is None else people.weights
    number = float(effective_number(weights[:, None])[0])
    if number < FEWEST - 1e-6:
        raise DataError(
            f"plan: its card would publish averages over everyone, which need at least {FEWEST} people who count alike "
            f"so that they are nobody's own data, got {number:.3g}; hand members their rows of plan.changes()."
        )
    if model.holds_class_means or isinstance(plan.problem.model, NearestCentroid):
        refuse_small_classes(people.classes, weights[:, None] * given_targets(plan))

"""Candidate cards of a plan for a table: its columns' terms, and a few signals.

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

from oar.actions.limits.limit import FREE, Limit, Limits
from oar.actions.limits.round_steps import below, bound_step
from oar.actions.limits.rules import EncodedRule
from oar.actions.sets.cost_region import spreads_of
from oar.errors import DataError, NumericsError, OptionError
from oar.models import Differentiable, Scaled
from oar.people import Population
from oar.people.tables.schema import Column, Schema
from oar.plans.cards.card import Array, Broadcast
from oar.plans.cards.publish import FEWEST, common_fields, refuse_small_classes
from oar.plans.cards.rare_levels import CardColumns, named, rare_levels, without_rare
from oar.plans.cards.signals import Pair, SignalSource, card_name, own_model, planned_pair, sources, stand_ins
from oar.plans.cards.table.card import TableCard
from oar.plans.cards.table.score import Scaler, kept
from oar.plans.cards.table.terms import ColumnTerms, TableTerms
from oar.problem import Problem

if TYPE_CHECKING:
    from oar.plans.plan import MemberPlan

SHARES = (0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def table_cards(plan: MemberPlan) -> Iterator[TableCard]:
    """Yield cards, the most likely one first; raise where nothing can be published."""
    if (plan.problem.limits or Limits()).plausible:
        raise DataError(
            "plan: its limits ask for plausible moves, which are judged by where other people are, and a card must not "
            "hold their data; plan without `plausible`, or hand members their rows of plan.changes()."
        )
    refuse_small_classes(plan)
    own = own_model(plan.problem)
    if own is not None:
        yield from _cards(plan, SignalSource(plan.problem, own), planned_pair(plan))


def more_table_cards(plan: MemberPlan) -> Iterator[TableCard]:
    """Yield cards by the signals of other models, and of the plan's own with growing shares of a common budget."""
    own = own_model(plan.problem)
    if own is not None:
        yield from _grown(plan, SignalSource(plan.problem, own))
    for source in sources(plan.problem, stand_ins(plan.problem)):
        yield from _cards(plan, source, None)


def _cards(plan: MemberPlan, source: SignalSource, planned: Pair | None) -> Iterator[TableCard]:
    """Yield cards by a model's signals: the plan's own, or where it leads, before it, and at answers to the first."""
    with suppress(NumericsError):  # where it cannot be refitted there is no such signal
        first = table_card(plan, source, *(planned or _pair(plan, source, plan.each)))
        yield first
        yield table_card(plan, source, *_pair(plan, source, None))
        yield table_card(plan, source, *_pair(plan, source, plan.followed(first).each))


def _grown(plan: MemberPlan, source: SignalSource) -> Iterator[TableCard]:
    """Yield cards with growing shares of a common budget, each with the signal that the last ones led to."""
    allowance = plan.problem.allowance
    if not allowance.single:
        return
    with suppress(NumericsError):
        found = _pair(plan, source, None)
        for share in SHARES:
            card = replace(table_card(plan, source, *found), budget=share * float(allowance.budget))
            yield card
            found = _between(found, _pair(plan, source, plan.followed(card).each))


def _pair(plan: MemberPlan, source: SignalSource, moves: Array | None) -> Pair:
    return source.pair(plan.contribution().with_moves(moves), plan.query_move)


def _between(one: Pair, other: Pair) -> Pair:
    """Return the mean of two signals, v at length 1, which changes no answer: so that answers do not swing."""
    sizes = [float(np.linalg.norm(signal)) or 1.0 for _, signal in (one, other)]
    return 0.5 * (one[0] + other[0]), 0.5 * (one[1] / sizes[0] + other[1] / sizes[1])


def table_card(plan: MemberPlan, source: SignalSource, parameters: Array, signal: Array) -> TableCard:
    """Return a card by θ and v of some model."""
    problem, people, model = plan.problem, plan.problem.people, source.model
    inner, rare, sent = model.unscaled, rare_levels(people), source.told(parameters, signal)
    theta, along = (without_rare(inner, vector, people.dimensions, rare) for vector in sent[:2])
    names = named(people, rare)
    if not np.array_equal(names.coordinates, np.arange(people.dimensions)):
        theta, along = (kept(inner, vector, people.dimensions, names.coordinates) for vector in (theta, along))
    by = (getattr(sent.scaler, name)[names.coordinates] for name in ("centres", "scales", "shift", "spread"))
    table = terms_of(problem, names, Scaler(*by), model)
    return TableCard(
        model=card_name(problem),
        directions=np.zeros((1 if problem.regresses else len(people.classes), table.encoding.dimensions)),
        broadcast=Broadcast(inner, theta, along, 0.0),
        table=table,
        **(common_fields(plan) | {"features": table.encoding.names}),
    )


def terms_of(problem: Problem, names: CardColumns, scaler: Scaler, model: Differentiable) -> TableTerms:
    """Return what everybody may do to a table's columns, and how a model sees them."""
    people, limits = problem.people, problem.limits or Limits()
    weights = people.first_row_weights
    spreads = spreads_of(np.asarray(people.features, dtype=np.float64), weights / weights.sum())
    columns = tuple(
        _terms(
            column,
            _common(column, limits.columns.get(column.name, FREE), people),
            float(spreads[people.table.places[column.name].start]),
            pooled=column != full,
        )
        for column, full in zip(names.columns, people.table.schema, strict=True)
    )
    scaled = ("frozen" if model.frozen else "refitted") if isinstance(model, Scaled) else None
    return TableTerms(columns, limits.parsed, _rules(limits, names), scaler, scaled)


def _common(column: Column, limit: Limit, people: Population) -> Limit:
    """Return a column's limit without bounds that are few people's own values, such as the largest of all.

    Such a bound gives way to a round one that FEWEST people have reached, on steps of those who are within the bounds,
    for those of a long tail beyond them may be wider than they are apart. It is narrower, so that whoever keeps it
    keeps the other.
    """
    if column.kind not in ("number", "integer") or not limit.bounds:
        return limit  # ordered levels are what whoever names them says they are
    values = told_values(column, limit, people)
    step = bound_step(np.sort(np.clip(values, *limit.span)), column.whole)
    shared: dict[str, Any] = {
        name: sign * _shared_bound(sign * values, sign * float(at), step) + 0.0 for name, at, sign in limit.bounds
    }
    found = replace(limit, **shared)
    least, most = found.span
    return replace(limit, immutable=True) if least > most else found


def told_values(column: Column, limit: Limit, people: Population) -> Array:
    """Return the values of a column that count for anything, and do not stand for a missing one."""
    values = np.asarray(people.features, dtype=np.float64)[:, people.table.places[column.name].start]
    values = values[people.present]
    return values[~np.isin(values, limit.missing)] if limit.missing else values


def owned(values: Array, bound: float) -> bool:
    """Report whether a bound is the own value of fewer than FEWEST people, and none that is natural.

    That is 0 of what has one sign, and 1 of shares.
    """
    least, most = values.min(initial=0.0), values.max(initial=0.0)
    natural = (bound == 0 and (least >= 0 or most <= 0)) or (abs(bound) == 1 and max(-least, most) <= 1)
    return not natural and 0 < int((values == bound).sum()) < FEWEST


def _shared_bound(values: Array, upper: float, step: float) -> float:
    """Return an upper bound; a multiple of a step that FEWEST people are at or beyond if it is few people's own."""
    if not step or not owned(values, upper):
        return upper
    return below(min(upper, float(np.sort(values)[-FEWEST:][0])), step)


def _rules(limits: Limits, names: CardColumns) -> tuple[EncodedRule, ...]:
    """Return the rules for columns as the card names them; raise where one names what the card must not."""
    try:
        return limits.ruled(Schema(names.columns))
    except OptionError as error:
        raise DataError(
            f"plan: a rule of its limits names a level that fewer than {FEWEST} people have, and a card must not "
            f"({error}); state the rule without it, merge rare levels, or hand members their rows of plan.changes()."
        ) from None


def _terms(column: Column, limit: Limit, spread: float, pooled: bool) -> ColumnTerms:
    """Return one column's terms; `limit` has been checked, so that its bounds are coordinates."""
    missing = tuple(map(float, limit.missing or ()))
    varies = column.kind in ("boolean", "category") or limit.unit or spread > 0
    if limit.immutable or not varies:  # of a column that never varies nothing says what a change would cost
        return ColumnTerms(column, False, pooled=pooled, missing=missing)
    if column.kind == "category":
        told = column.levels[: -1 if pooled else None]
        choices = [at for at, level in enumerate(told) if limit.allows(level)]
        return ColumnTerms(column, True, step=1.0, cost=float(limit.cost), choices=tuple(choices), pooled=pooled)
    unit = 1.0 if column.kind == "boolean" else float(limit.unit or spread)
    step, cost = float(limit.step or column.whole), float(limit.cost)
    spread_cost = 0.0 if column.kind == "boolean" or limit.unit else cost
    lower, upper = limit.span_of(column)
    way = limit.direction, step, cost / unit
    return ColumnTerms(column, True, lower, upper, *way, per_spread=spread_cost, missing=missing)

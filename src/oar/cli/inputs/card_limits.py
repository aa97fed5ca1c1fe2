"""The terms of a card, as limits that an audit can check."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oar.cli.inputs.problem import NO_LIMITS

if TYPE_CHECKING:
    from oar.actions.limits.limit import Limit, Limits
    from oar.plans import Card
    from oar.plans.cards.table.terms import ColumnTerms

TERMS = (
    "Limits: moves were checked against the card's own terms (columns, bounds, directions, steps, costs, links and "
    "rules). People's own limits and plausible places are not on a card: give the plan's --limits to check them."
)
BUDGET = "Limits: only the budget was checked, because a card of plain numbers has no other terms."


def limits_of(card: Card, file: Path | None = None) -> Limits | None:
    """Return a card's terms as limits, a file's columns being in place of the card's; None lifts all but the budget.

    A card of plain numbers has no terms. Bounds of a card are about those who answer it, not about who asks.
    """
    from oar.actions.limits.limit import Limits

    if file == NO_LIMITS:
        return None
    said = None if file is None else Limits.load(file)
    if card.table is None:
        return said
    columns = {each.column.name: _limit(each) for each in card.table.columns}
    if said is not None:
        rest = {name: limit for name, limit in columns.items() if name not in said.columns}
        return replace(said, columns={**rest, **said.columns}, as_observed=tuple(rest))
    links, rules = (tuple(dict.fromkeys(one.text for one in says)) for says in (card.table.links, card.table.rules))
    return Limits(columns, links=links, rules=rules, as_observed=tuple(columns))


def _limit(terms: ColumnTerms) -> Limit:
    from oar.actions.limits.limit import Limit

    column = terms.column
    if not terms.movable:
        return Limit(immutable=True)
    if column.kind == "category":
        if terms.pooled and len(terms.choices) == len(column.levels) - 1:  # what is not named is not forbidden
            return Limit(cost=terms.cost)
        return Limit(levels=tuple(column.levels[place] for place in terms.choices), cost=terms.cost)
    if column.kind == "boolean":
        return Limit(direction=terms.direction, cost=terms.cost)
    lower, upper = (_value(terms, bound) for bound in (terms.lower, terms.upper))
    step = terms.step or None if column.kind != "ordinal" else None  # of an ordinal it is a level anyway
    bounds: dict[str, Any] = {"lower": lower, "upper": upper, "direction": terms.direction, "step": step}
    bounds["missing"] = terms.missing or None
    if terms.per_spread is not None:  # the card's own cost is rounded up, and whoever has the data knows better
        return Limit(**bounds, cost=terms.per_spread)
    return Limit(**bounds, cost=terms.cost, unit=1.0)


def _value(terms: ColumnTerms, bound: float | None) -> Any:
    """Return a bound as its column has it: of an ordinal the level, which a card has by its rank."""
    if bound is None or terms.column.kind == "number":
        return bound
    return terms.column.levels[round(bound)] if terms.column.kind == "ordinal" else round(bound)

"""What a card lets members do, as limits that an audit can check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oar.actions.limits import Limit, Limits
    from oar.plans import Card
    from oar.plans.table_terms import ColumnTerms

TERMS = (
    "Limits: moves were checked against the card's own terms (columns, bounds, directions, steps, costs, links and "
    "rules). People's own limits and plausible places are not on a card: give the plan's --limits to check them."
)
BUDGET = "Limits: only the budget was checked, because a card of plain numbers has no other terms."


def limits_of(card: Card) -> Limits | None:
    """Return a card's terms as limits; None where it is of plain numbers, which have a budget alone."""
    from oar.actions.limits import Limits

    if card.table is None:
        return None
    columns = {each.column.name: _limit(each) for each in card.table.columns}
    links, rules = (tuple(dict.fromkeys(one.text for one in said)) for said in (card.table.links, card.table.rules))
    return Limits(columns, links=links, rules=rules)


def _limit(terms: ColumnTerms) -> Limit:
    from oar.actions.limits import Limit

    column = terms.column
    if not terms.movable:
        return Limit(immutable=True)
    if column.kind == "category":
        return Limit(levels=tuple(column.levels[place] for place in terms.choices), cost=terms.cost)
    if column.kind == "boolean":
        return Limit(direction=terms.direction, cost=terms.cost)
    lower, upper = (_value(terms, bound) for bound in (terms.lower, terms.upper))
    step = terms.step or None if column.kind != "ordinal" else None  # of an ordinal it is a level anyway
    return Limit(False, lower, upper, terms.direction, step, cost=terms.cost, unit=1.0)


def _value(terms: ColumnTerms, bound: float | None) -> Any:
    """Return a bound as its column has it: of an ordinal the level, which a card has by its rank."""
    if bound is None or terms.column.kind == "number":
        return bound
    return terms.column.levels[round(bound)] if terms.column.kind == "ordinal" else round(bound)

"""Disclosure by a card: numbers so fine that one person shows in them, beside a card without this person."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from oar.actions.limits.limit import FREE, Limit, Limits
from oar.actions.limits.round_steps import ALMOST, bound_step, is_multiple
from oar.plans.cards.card import Card
from oar.plans.cards.digits import averages, dearer
from oar.plans.cards.publish_table import told_values
from oar.plans.cards.table.card import TableCard
from oar.plans.cards.table.terms import ColumnTerms
from oar.problem import Problem

THIRD = 3.0


def telling(card: Card, problem: Problem) -> tuple[str, ...]:
    """Say what of a card for this problem tells on one person; nothing where nothing does.

    * Numbers: one who is a standard deviation from its class's mean moves it by 1/n of one; on a grid as coarse as
      that, two cards with and without this person differ by a step or not at all, which does not tell its values.
      Grids are powers of ten, so k digits are of a third of a standard deviation by 10^(k − 1), more or less.
    * Costs: on steps that are finer than those of `dearer`, two of them tell a distance from the mean.
    * Bounds within the people's range that have more digits than anybody would declare: a quantile, say, is made of one
      or two people's values.
    """
    everyone, found = problem.people, []
    smallest = everyone.size if problem.regresses else everyone.class_rows().sum(axis=0).min()
    people = max(float(smallest), THIRD)
    if (card.digits or math.inf) > 1 + math.floor(math.log10(people / THIRD)):
        found.append(f"numbers of {card.digits or 'many'} digits")
    priced, limits = _fine_costs(card, problem), (problem.limits or Limits()).columns
    terms = [(str(each.column.name), each, limits.get(each.column.name, FREE)) for each in card.terms.columns]
    # Bounds that have so many digits that they may be made of people's values
    bounded = [name for name, each, limit in terms if _is_fine(each, limit, problem)]
    if priced:
        found.append(f"fine costs of {', '.join(priced)}")
    if bounded:
        found.append(f"bounds of many digits of {', '.join(bounded)}")
    return tuple(found)


def _fine_costs(card: Card, problem: Problem) -> list[str]:
    """Return the columns whose costs are rounded by less than is safe."""
    if not isinstance(card, TableCard):
        return []
    places, spreads = problem.people.table.places, averages(problem.people)[1]
    exact = (each.per_spread / float(spreads[places[each.column.name].start]) for each in card.terms.columns)
    both = zip(card.terms.columns, exact, strict=True)
    columns = tuple(replace(each, cost=cost) if each.per_spread else each for each, cost in both)
    pairs = zip(card.terms.columns, dearer(replace(card.table, columns=columns), problem.people).columns, strict=True)
    return [str(each.column.name) for each, other in pairs if each.cost < other.cost * (1 - ALMOST)]


def _is_fine(terms: ColumnTerms, limit: Limit, problem: Problem) -> bool:
    if not terms.movable or terms.column.kind not in ("number", "integer"):
        return False
    values = np.sort(told_values(terms.column, limit, problem.people))
    step = bound_step(values, terms.column.whole)
    within = [bound for bound in (terms.lower, terms.upper) if values[0] < bound < values[-1]]
    if not step or not within:
        return False
    unit = 10.0 ** math.floor(math.log10(step / 2) + ALMOST)
    unit = max(unit, 1.0) if terms.column.whole else unit
    return not all(is_multiple(bound, unit) for bound in within)

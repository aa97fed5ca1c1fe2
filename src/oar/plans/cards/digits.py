"""A card's numbers with as few digits as members' answers need.

Two cards, with one person and without, differ by what this person does to averages. With all digits of both that is
the person's row. So numbers are published on a grid of powers of ten, coarse at first, and a refit says what members'
answers to that card are worth; finer ones follow until nearly all of the gain is there (`publish`).

The grid goes by what numbers do, not by their own size: one digit of a column's slope is a digit of the largest effect
that any column has by a standard deviation, or by a unit of cost. So what hardly matters is 0, however many digits it
has. Intercepts make up, for an average person, for what was cut from slopes.

Costs are 1/spread, and n times the difference of two spreads' squares is a person's distance from the mean. One who is
z standard deviations away changes a cost by (z² − 1)/2n of it, so costs are on steps of some 10/n of them (`dearer`),
rounded up: whoever keeps to the card's keeps to the plan's. That costs members some of their reach, and finer ones
follow only where it costs the plan's success, or more than a tenth of its gain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.limits.round_steps import above, one_two_five, share_of
from oar.actions.sets.cost_region import spreads_of
from oar.models import GaussianNaiveBayes
from oar.people import Population
from oar.plans.cards.card import Broadcast, Card
from oar.plans.cards.table.card import TableCard
from oar.plans.cards.table.score import Scaler, is_laid_out, parts
from oar.plans.cards.table.terms import TableTerms
from oar.problem import Problem

Array = NDArray[np.float64]
SHORT = 2  # significant digits of what hardly matters
FEWEST_FIRST = (1, 2, 3, 4, 5, 6, 8, 10)  # digits of numbers
COARSEST_FIRST = (1.0, 0.3, 0.1, 1e-3, 1e-6)  # steps of costs, by those that do not tell on anybody
FINEST = 1e-3  # of a cost, however many people there are


@dataclass(frozen=True, eq=False)
class Sizes:
    """The sizes by which numbers are rounded, of the features as a card's model sees them.

    Attributes:
        means, spreads: (d,) of all people.
        reach: (d,) how far a unit of cost goes.
    """

    means: Array
    spreads: Array
    reach: Array


def averages(people: Population) -> tuple[Array, Array]:
    """Return everyone's means and standard deviations (d,), 1 where a column never varies."""
    features = np.asarray(people.features, dtype=np.float64)
    weights = people.first_row_weights / people.first_row_weights.sum()
    spreads = spreads_of(features, weights)
    return weights @ features, np.where(spreads > 0, spreads, 1.0)


def sizes_of(problem: Problem, card: Card) -> Sizes:
    """Return what the numbers of a card for this problem are measured by."""
    (means, spreads), by = averages(problem.people), card.terms.scaler
    _, first = np.unique(card.places_in(problem.people), return_index=True)  # of those that are pooled, any one
    reach = np.ones_like(by.scales)
    for each, place in zip(card.terms.columns, card.terms.places, strict=True):
        if each.movable:
            reach[place] = 1 / each.cost
    return Sizes((means[first] - by.centres) / by.scales, spreads[first] / by.scales, reach / by.scales)


def dearer(terms: TableTerms, people: Population, finer: float = 1.0) -> TableTerms:
    """Return terms with costs that come from the data rounded up, on steps that are so much finer than is safe."""
    weights = people.first_row_weights
    share = finer * share_of(float(weights.sum() ** 2 / (weights**2).sum()), FINEST)
    columns = tuple(replace(each, cost=dear(each.cost, share)) if each.per_spread else each for each in terms.columns)
    return replace(terms, columns=columns)


def dear(cost: float, share: float) -> float:
    """Return a cost rounded up on steps of about this share of it, never below what it is."""
    step = one_two_five(cost * share)
    found = above(cost, step)
    return found if found >= cost else above(cost + 0.5 * step, step)


def rounded(card: Card, digits: int, sizes: Sizes) -> Card:
    """Return a card with so many digits; its costs and bounds stay."""
    found = replace(card, directions=shorter(card.directions, digits), digits=digits)
    if card.broadcast is None:
        return found
    if isinstance(found, TableCard):
        scaler = _scaler(found.table.scaler, digits, sizes, _effect(card.broadcast, sizes))
        found = replace(found, table=replace(found.table, scaler=scaler))
    return replace(found, broadcast=_broadcast(card.broadcast, digits, sizes))


def shorter(directions: Array, digits: int) -> Array:
    """Return directions with so many digits of the largest number, rounded towards 0, so that no norm grows."""
    largest = np.abs(directions).max(initial=0.0)
    if not largest:
        return directions
    decimals = int(_decimals(largest, digits))
    nearest = np.round(directions, decimals)
    step = 10.0**-decimals
    inside = np.abs(nearest) <= np.abs(directions)
    return np.where(inside, nearest, np.round(nearest - np.sign(nearest) * step, decimals)) + 0.0


def _broadcast(sent: Broadcast, digits: int, sizes: Sizes) -> Broadcast:
    model, pull = sent.model, float(_significant(np.array(sent.pull), SHORT))
    seen = sent.seen and _scaler(sent.seen, digits, sizes, _effect(sent, sizes))
    if not is_laid_out(model):
        theta, signal = (_significant(vector, digits) for vector in (sent.parameters, sent.signal))
        return replace(sent, parameters=theta, signal=signal, pull=pull, seen=seen)
    theta, signal = sent.parameters.copy(), sent.signal.copy()
    for vector, is_theta in ((theta, True), (signal, False)):
        if vector.size and isinstance(model, GaussianNaiveBayes):
            _round_gaussian(vector, digits, sizes, is_theta)
        elif vector.size:
            _round_rows(model, vector, digits, sizes)
    return replace(sent, parameters=theta, signal=signal, pull=pull, seen=seen)


def _round_rows(model: Any, vector: Array, digits: int, sizes: Sizes) -> None:
    """Round slopes by their largest effect, and intercepts to what is left of it for an average person."""
    rows, rest = parts(model, vector, sizes.means.size)
    effects = [float(np.abs(rows * unit).max(initial=0.0)) for unit in (sizes.spreads, sizes.reach)]
    if max(effects) > 0:
        grid = np.minimum(effects[0] / sizes.spreads, effects[1] / sizes.reach)
        cut = _to(rows, _decimals(grid, digits))
        if rest.size:
            rest += (rows - cut) @ sizes.means
        rows[:] = cut
    if rest.size and np.abs(rest).max() > 0:
        rest[:] = _to(rest, _decimals(effects[0] or np.abs(rest).max(), digits))


def _round_gaussian(vector: Array, digits: int, sizes: Sizes, is_theta: bool) -> None:
    """Round log variances absolutely and means by spreads; a signal's by its largest. Shares are in no score."""
    rows, rest = parts(GaussianNaiveBayes(), vector, sizes.means.size)
    rest[:] = 0.0
    logs, means = np.split(rows, 2)
    largest = 1.0 if is_theta else float(max(np.abs(logs).max(), np.abs(means / sizes.spreads).max()))
    if largest > 0:
        logs[:] = _to(logs, _decimals(largest, digits))
        means[:] = _to(means, _decimals(largest * sizes.spreads, digits))


def _effect(sent: Broadcast, sizes: Sizes) -> float:
    """Return the largest effect that a signal has by a standard deviation of any column; 0 where nobody knows."""
    if not sent.signal.size or not is_laid_out(sent.model):
        return 0.0
    rows, _ = parts(sent.model, sent.signal, sizes.means.size)
    if isinstance(sent.model, GaussianNaiveBayes):
        logs, means = np.split(rows, 2)
        return float(max(np.abs(logs).max(), np.abs(means / sizes.spreads).max()))
    return float(np.abs(rows * sizes.spreads).max(initial=0.0))


def _scaler(by: Scaler, digits: int, sizes: Sizes, effect: float) -> Scaler:
    """Round a scaler's numbers; what members do through averages by its effect, beside the signal's own."""
    bends = [each * unit for each, unit in ((by.shift, sizes.spreads), (by.spread, sizes.spreads**2))]
    largest = max(effect, *(float(np.abs(each).max()) for each in bends))
    grids = [largest / sizes.spreads, largest / sizes.spreads**2] if largest > 0 else [np.ones_like(by.shift)] * 2
    return Scaler(
        _to(by.centres, _decimals(by.scales, digits)),
        _significant(by.scales, digits),
        *(_to(each, _decimals(grid, digits)) for each, grid in zip((by.shift, by.spread), grids, strict=True)),
    )


def _decimals(sizes: Any, digits: int) -> NDArray[np.intp]:
    """Return how many decimals leave so many digits of numbers of this size."""
    return (digits - 1 - np.floor(np.log10(sizes))).astype(np.intp)


def _to(values: Array, decimals: NDArray[np.intp]) -> Array:
    """Round each to a number of decimals of its own, to the nearest float that is printed so."""
    places = np.broadcast_to(decimals, values.shape)
    flat = [round(float(value), int(place)) for value, place in zip(values.flat, places.flat, strict=True)]
    return np.array(flat).reshape(values.shape) + 0.0


def _significant(values: Array, digits: int) -> Array:
    sizes = np.abs(values)
    return _to(values, _decimals(np.where(sizes > 0, sizes, 1.0), digits))

"""Levels that only a few people have, which must not be read off a card.

At a refit θ of a linear model, the penalty balances what the people of a level do: n l2 θ_level = Σ (y − p) over them.
Of a level that one person has, that is this person's label and prediction. So what a card holds of levels that fewer
than FEWEST people have is pooled: with that of the other rare levels of the column if they are enough people together,
otherwise with that of all of its levels. Booleans of which fewer have either value are left out in the same way. Nor
are rare levels named: all of them are one level, "another", to which nobody is told to switch. The few members
concerned answer a little less well; the refit that tries the card judges that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError
from oar.models import GaussianNaiveBayes
from oar.models.linear.losses import Linear
from oar.people import Population
from oar.people.tables.schema import Column
from oar.plans.cards.publish import FEWEST
from oar.plans.cards.table.score import is_laid_out, parts
from oar.plans.cards.table.terms import ANOTHER

Array = NDArray[np.float64]


class RareLevels(NamedTuple):
    """Coordinates of rare levels (r,), those that they are pooled with (m,), and how many people have each (m,).

    None of the latter where a boolean is left out.
    """

    coordinates: NDArray[np.intp]
    pool: NDArray[np.intp]
    counts: Array


def rare_levels(people: Population) -> list[RareLevels]:
    """Return what too few people of a table have in common, column by column."""
    features = np.asarray(people.features, dtype=np.float64)[people.present]
    found = []
    for column in people.table.schema:
        place = people.table.places[column.name]
        coordinates = np.arange(place.start, place.stop)
        counts = features[:, place].sum(axis=0)
        if column.kind == "boolean" and 0 < min(counts[0], len(features) - counts[0]) < FEWEST:
            found.append(RareLevels(coordinates, coordinates[:0], counts[:0]))
        elif column.kind == "category":
            few = counts < FEWEST  # nobody, too: or it would show when the only one who has it comes or goes
            pool = few if counts[few].sum() >= FEWEST else counts > 0
            if few.any():
                found.append(RareLevels(coordinates[few], coordinates[pool], counts[pool]))
    return found


class CardColumns(NamedTuple):
    """A table's columns as a card names them, and of which of the table's coordinates each of the card's is."""

    columns: tuple[Column, ...]
    coordinates: NDArray[np.intp]


def named(people: Population, rare: list[RareLevels]) -> CardColumns:
    """Return the columns with rare levels called another, which is the last one."""
    pooled = {int(place): one for one in rare if one.pool.size for place in one.coordinates}
    columns, coordinates = [], []
    for column in people.table.schema:
        place = people.table.places[column.name]
        common = [at for at in range(place.start, place.stop) if at not in pooled]
        coordinates += common
        if len(common) < place.stop - place.start:
            coordinates.append(next(at for at in range(place.start, place.stop) if at in pooled))
            levels = tuple(column.levels[at - place.start] for at in common)
            name = ANOTHER
            while name in levels:
                name = f"{name} {ANOTHER}"
            column = Column(column.name, column.kind, (*levels, name))
        columns.append(column)
    return CardColumns(tuple(columns), np.array(coordinates, dtype=np.intp))


def without_rare(model: Any, vector: Array, dimensions: int, rare: list[RareLevels]) -> Array:
    """Return θ or v of a model, flat, with what it holds of rare levels pooled; raise where that is not known."""
    if not rare or not vector.size:
        return vector
    if not is_laid_out(model):
        raise DataError(
            f"plan: its card would hold what {model.name} has learned of levels that fewer than {FEWEST} people have, "
            "which could tell on them; merge rare levels, or hand members their rows of plan.changes()."
        )
    found = vector.copy()
    rows = parts(model, found, dimensions).rows
    for coordinates, pool, counts in rare:
        if not pool.size:
            rows[:, coordinates] = 0.0 if isinstance(model, Linear) else _mean_of_blocks(model, rows[:, coordinates])
        else:
            rows[:, coordinates] = (rows[:, pool] @ counts / counts.sum())[:, None]
    return found


def _mean_of_blocks(model: Any, rows: Array) -> Array:
    """Return the mean over classes, in place of each class's own; variances and means are blocks by themselves."""
    blocks = 2 if isinstance(model, GaussianNaiveBayes) else 1
    parts = rows.reshape(blocks, -1, rows.shape[1])
    return np.broadcast_to(parts.mean(axis=1, keepdims=True), parts.shape).reshape(rows.shape)

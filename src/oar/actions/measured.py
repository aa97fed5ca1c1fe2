"""Limits on a table's columns as a region of moves, measured in cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.limits import Limit, Limits
from oar.actions.norms import Norm
from oar.actions.region import Levels, Region
from oar.errors import DataError
from oar.people.encoding import Encoding
from oar.people.schema import Column

Array = NDArray[np.float64]
FREE = Limit()


@dataclass(frozen=True, eq=False)
class Measured:
    """What people may do, in coordinates of cost u = costs · δ.

    Attributes:
        region: where they may move to, categories mixed and steps not yet kept.
        costs: (d,) the cost of a unit of each coordinate.
        steps: (d,) of which changes must be multiples, in the coordinates' own units; 0 where anything goes.
    """

    region: Region
    costs: Array
    steps: Array

    def of(self, rows: NDArray[np.intp]) -> Measured:
        """Return what some of the people may do."""
        return replace(self, region=self.region.of(rows))

    def exactly(self, moves: Array) -> Array:
        """Return moves (n, d) in the coordinates' own units with whole steps free of rounding."""
        steps = np.where(self.steps > 0, self.steps, 1.0)
        return np.where(self.steps > 0, np.rint(moves / steps) * steps, moves)


def measure(
    limits: Limits, encoding: Encoding, features: Array, weights: Array, radii: Array, norm: Norm, index: Any = None
) -> Measured:
    """Return what people with these features (n, d) may do; `limits` have been checked against the schema.

    A switch from one level to another changes two coordinates by 1, so that it costs ‖(c, c)‖_p, which is to be the
    category's cost.
    """
    centres = weights @ features
    spreads = np.sqrt(np.maximum(weights @ (features - centres) ** 2, 0.0))
    spreads[spreads <= 1e-9 * np.abs(centres)] = 0.0  # the rounding of a column that never varies is no spread
    lower, upper = np.full_like(features, -np.inf), np.full_like(features, np.inf)
    costs, steps = np.ones(encoding.dimensions), np.zeros(encoding.dimensions)
    levels = []
    for column in encoding.schema:
        place, limit = encoding.places[column.name], limits.columns.get(column.name, FREE)
        lower[:, place], upper[:, place] = _bounds(column, limit, features[:, place])
        costs[place] = _cost(column, limit, spreads[place], norm)
        if column.kind not in ("boolean", "category") and limit.unit is None and not spreads[place].any():
            lower[:, place] = upper[:, place] = 0.0  # it never varies, so nothing says what a change would cost
        steps[place] = limit.step or float(column.whole)
        if column.kind == "category":
            levels.append(Levels(place, features[:, place].argmax(axis=1), float(costs[place.start])))
    for person, own in limits.own.items():
        row = _position(person, len(features), index)
        for name, limit in own.items():
            place, column = encoding.places[name], encoding.schema[name]
            _check_own(limit, limits.columns.get(name, FREE), person, name)
            bounds = _bounds(column, limit, features[row : row + 1, place])
            if costs[place].any() and (limit.unit or column.kind in ("boolean", "category") or spreads[place].any()):
                lower[row : row + 1, place], upper[row : row + 1, place] = bounds
    links, room = _links(limits, encoding, features)
    region = Region(norm, radii, lower * costs, upper * costs, tuple(levels), links / costs, room)
    return Measured(region, costs, steps)


def check_inside(limits: Limits, encoding: Encoding, row: Array) -> None:
    """Raise where a query (d,) is outside everybody's bounds: most likely a mistake, and no way back in is planned."""
    for name, limit in limits.columns.items():
        if encoding.schema[name].kind == "category":
            continue
        value = float(row[encoding.places[name].start])
        for bound, word, outside in (
            (limit.lower, "at least", limit.lower is not None and value < limit.lower),
            (limit.upper, "at most", limit.upper is not None and value > limit.upper),
        ):
            if outside:
                raise DataError(
                    f"query features: {name!r} must be {word} {bound:g}, as its limits say, got {value:g}; correct the "
                    "query, or widen the limits."
                )


def _bounds(column: Column, limit: Limit, values: Array) -> tuple[Array, Array]:
    """Return how far coordinates (n, w) may fall and rise; 0 is always between."""
    stay = np.zeros_like(values)
    if limit.immutable:
        return stay, stay
    if column.kind == "category":
        allowed = np.array([limit.levels is None or level in limit.levels for level in column.levels])
        return np.full_like(values, -1.0), np.broadcast_to(allowed, values.shape).astype(np.float64)
    least, most = {"boolean": (0.0, 1.0), "ordinal": (0.0, len(column.levels) - 1.0)}.get(
        column.kind, (-np.inf, np.inf)
    )
    least = least if limit.lower is None else max(least, limit.lower)
    most = most if limit.upper is None else min(most, limit.upper)
    down = stay if limit.direction == "up" else np.minimum(least - values, 0.0)
    up = stay if limit.direction == "down" else np.maximum(most - values, 0.0)
    return down, up


def _cost(column: Column, limit: Limit, spreads: Array, norm: Norm) -> Array:
    if column.kind == "category":
        return np.full_like(spreads, limit.cost / 2 ** (0.0 if norm.p == np.inf else 1 / norm.p))
    if column.kind == "boolean":
        return np.full_like(spreads, limit.cost)
    unit = limit.unit or np.where(spreads > 0, spreads, 1.0)  # a column that never varies has no spread to go by
    return np.asarray(limit.cost / unit)


def _links(limits: Limits, encoding: Encoding, features: Array) -> tuple[Array, Array]:
    """Return rows (m, d) and room (n, m) of (α + β)·δ ≤ −c − α·x, with room of at least 0."""
    parsed = limits.parsed
    rows, room = np.zeros((len(parsed), encoding.dimensions)), np.zeros((len(features), len(parsed)))
    for number, link in enumerate(parsed):
        values = np.zeros(encoding.dimensions)
        _fill(values, link.expression.values, encoding)
        _fill(rows[number], link.expression.changes, encoding)
        rows[number] += values
        room[:, number] = np.maximum(-link.expression.constant - features @ values, 0.0)
    kept = rows.any(axis=1)  # what cancels says nothing about moves
    return rows[kept], room[:, kept]


def _fill(row: Array, factors: Mapping[str, float], encoding: Encoding) -> None:
    for name, factor in factors.items():
        row[encoding.places[name]] += factor


def _position(person: Any, size: int, index: Any) -> int:
    if index is not None:
        if person in index:
            found = index.get_loc(person)
            if isinstance(found, int | np.integer):
                return int(found)
            raise DataError(f"own: {person!r} must be one person of the table's index, got several.")
        raise DataError(f"own: {person!r} must be in the table's index, got nobody of that name.")
    if isinstance(person, int | np.integer) and 0 <= person < size:
        return int(person)
    raise DataError(f"own: must name people by their position, 0 to {size - 1}, got {person!r}.")


def _check_own(limit: Limit, everybodys: Limit, person: Any, name: str) -> None:
    """Costs and steps are everybody's: one ball, and one grid, for all."""
    for setting in ("cost", "unit", "step"):
        if getattr(limit, setting) not in (getattr(FREE, setting), getattr(everybodys, setting)):
            raise DataError(
                f"own.{person}.{name} {setting}: is the same for everybody; set it in limits, or give {person!r} a "
                "budget of its own."
            )

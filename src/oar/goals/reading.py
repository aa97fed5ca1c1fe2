"""The query subjects and the goal of each, read from a query's arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.checks import read_only
from oar.errors import DataError, OptionError
from oar.goals.wishes import ClassWish, ProbableWish, ValueWish, Wish
from oar.goals.words import AnyBut, Between, Members
from oar.models.training import Array
from oar.people import Population
from oar.people.tables.arrays import is_frame, is_series

MANY = 20  # labels that a message lists
NOBODY = np.zeros(0, dtype=np.intp)


class QueryPoints(NamedTuple):
    """The people who ask."""

    points: Array  # (q, d) where they stand
    # (q,) who of the people they are, where they move with their own data; None where they do not
    members: NDArray[np.intp] | None
    single: bool  # whether it is one person, who does not move as a member
    among: NDArray[np.intp] = NOBODY  # (q,) who of the people they are, moving or not; nobody where that is not known


def read_points(people: Population, features: Any) -> QueryPoints:
    """Return who asks: one person, several rows, or members."""
    if isinstance(features, Members):
        members = _positions(people, features.who)
        points = read_only(np.array(people.rows[members]))
        if features.stay:
            return QueryPoints(points, None, members.size == 1, members)
        return QueryPoints(points, members, False, members)
    rows = _rows(features)
    if rows is None:
        return QueryPoints(read_only(people.vector(features, "query features")[None]), None, True)
    if not rows:
        raise DataError("query features: must be at least one person, got none.")
    return QueryPoints(read_only(np.stack([people.vector(row, "query features") for row in rows])), None, False)


def _rows(features: Any) -> list | None:
    """Return the rows of several people; None where this is one person."""
    if is_frame(features):
        return None if len(features) == 1 else [features.iloc[[place]] for place in range(len(features))]
    if isinstance(features, Mapping) or is_series(features):
        return None
    if isinstance(features, list | tuple) and features and (isinstance(features[0], Mapping) or is_series(features[0])):
        return list(features)
    if np.ndim(features) == 2 and len(features) != 1:
        return list(np.asarray(features))
    return None


def _positions(people: Population, who: Any) -> NDArray[np.intp]:
    """Return positions of members, from a mask, positions, or labels of a DataFrame's index."""
    if is_series(who):
        who = who.to_numpy()
    named = np.atleast_1d(np.asarray(who))
    if named.dtype == bool:
        if named.shape != (people.size,):
            raise DataError(f"Members: a mask must have one entry for each of {people.size} people, got {named.shape}.")
        places = np.flatnonzero(named)
    elif people.index is not None:
        places = people.index.get_indexer_for(named)
        if (places < 0).any():
            raise DataError(f"Members: must be in the table's index, got {named[places < 0][0]!r}.")
    elif np.issubdtype(named.dtype, np.integer):
        places = named
        if places.size and not (places.min() >= 0 and places.max() < people.size):
            raise DataError(f"Members: positions must be from 0 to {people.size - 1}, got {named.tolist()[:5]}.")
    else:
        raise DataError(f"Members: must be a mask, positions or labels of the index, got type {named.dtype}.")
    if not places.size:
        raise DataError("Members: must name at least one person, got nobody.")
    if np.unique(places).size != places.size:
        raise DataError("Members: must name everybody once, got somebody twice.")
    return places.astype(np.intp)


def read_wishes(people: Population, model: Any, query: Any, asked: QueryPoints) -> tuple[Wish, ...]:
    """Return what each of those who ask wants: the same for all, or a list with one goal for each."""
    goals = [query.goal] * len(asked.points)
    if isinstance(query.goal, list) and not asked.single:
        if len(query.goal) != len(asked.points):
            raise DataError(f"goal: must be one for each of {len(asked.points)} queries, got {len(query.goal)}.")
        goals = query.goal
    regresses = model.regresses
    if regresses:
        if query.probability is not None:
            raise OptionError(f"probability: {model.name} predicts values, which have none; use within or oar.Between.")
        return tuple(_value(people, model, goal, query.within) for goal in goals)
    if query.within is not None:
        raise OptionError(f"Query within: is for models that predict values; {model.name} predicts classes.")
    if query.probability is not None and model.margins:
        raise OptionError(f"probability: {model.name} has margins and no probabilities; leave it out.")
    return tuple(_classes(people, model, goal, query.probability) for goal in goals)


def _classes(people: Population, model: Any, goal: Any, probability: float | None) -> ClassWish:
    codes = _codes(people, goal)
    if len(codes) == len(people.classes):
        raise DataError(f"goal: must leave out at least one class, got all of {_listed(people.classes)}.")
    shares = np.eye(len(people.classes))
    targets = shares if model.only_asked else model.target_rows(shares)
    rivals = tuple(code for code in range(len(people.classes)) if code not in codes)
    parts = codes, rivals, tuple(read_only(np.asarray(targets)))
    return ProbableWish(*parts, probability) if probability else ClassWish(*parts)


def _codes(people: Population, goal: Any) -> tuple[int, ...]:
    match goal:
        case AnyBut():
            barred = {people.coding.position(label, "goal") for label in goal.labels}
            return tuple(code for code in range(len(people.classes)) if code not in barred)
        case set() | frozenset() if goal not in people.classes:
            if not goal:
                raise DataError(f"goal: must name at least one class, got an empty set; known are {people.classes}.")
            return tuple(sorted({people.coding.position(label, "goal") for label in goal}))
        case Between():
            raise OptionError(f"goal: a range is for models that predict values, got {goal!r} for classes.")
    return (people.coding.position(goal, "goal"),)


def _value(people: Population, model: Any, goal: Any, within: float | None) -> ValueWish:
    match goal:
        case Between():
            return _range(people, model, goal, within)
        case AnyBut() | set() | frozenset():
            raise DataError(f"goal: must be a value or oar.Between(low, high) for {model.name}, got {goal!r}.")
    if within is None:
        raise DataError(
            f"Query within: must say how near is enough, because {model.name} predicts values; or use "
            "goal=oar.Between(low, high)."
        )
    target = model.goal_target(people, goal)
    return ValueWish(target - within, target + within, target, target)


def _range(people: Population, model: Any, goal: Between, within: float | None) -> ValueWish:
    if within is not None:
        raise OptionError("within: is for a goal that is one value; a range says itself what is enough. Leave it out.")
    rows = people.value_rows()
    width = rows.shape[1]
    low, high = (
        np.full(width, endless) if end is None else model.goal_target(people, np.broadcast_to(end, width))
        for end, endless in ((goal.low, -np.inf), (goal.high, np.inf))
    )
    if not (low <= high).all():
        raise DataError(f"Between: low must be at most high, got {goal!r}.")
    if np.isfinite(low).all() and np.isfinite(high).all():
        middle = 0.5 * (low + high)
        return ValueWish(low, high, middle, middle)
    return ValueWish(low, high, low + rows.std(axis=0), high - rows.std(axis=0))


def _listed(classes: tuple) -> str:
    return ", ".join(map(repr, classes[:MANY])) + (" …" if len(classes) > MANY else "")

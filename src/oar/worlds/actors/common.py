"""Code common to actors: checked settings, participants, and the operator's retraining on a deed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from oar.actions.perturb import check_budget
from oar.actions.sets.norms import Norm
from oar.checks import check_that, is_number, is_whole
from oar.errors import DataError, OptionError
from oar.people import Population
from oar.worlds.people.crowds import Data, handed_in, pooled, register_of
from oar.worlds.people.random_streams import drawn_share
from oar.worlds.protocol import Array, Caps, Crowd, Deed, Rows, State, View


def check_query(argument: str, value: Any) -> Array:
    """Return one person's features (d,), of its own memory."""
    try:
        query = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"query: must be the features of one person, d numbers, got {value!r}.") from None
    if query.ndim != 1 or not query.size or not np.isfinite(query).all():
        raise DataError(f"query: must be the features of one person, d finite numbers, got shape {query.shape}.")
    return query


def _that(holds: Callable[[Any], Any], wanted: str, kind: Callable[[Any], Any]) -> Callable[[str, Any], Any]:
    """Return a check of a setting: it returns the value as its kind, or raises where it does not hold."""

    def check(argument: str, value: Any) -> Any:
        check_that(holds(value), argument, wanted, value)
        return kind(value)

    return check


WHOLE = _that(lambda value: is_whole(value) and value >= 0, "a whole number ≥ 0", int)
COUNT = _that(lambda value: is_whole(value) and value >= 1, "a whole number ≥ 1", int)
SIZE = _that(lambda value: is_number(value) and 0 <= value < np.inf, "a finite number ≥ 0", float)
SHARE = _that(lambda value: is_number(value) and 0 <= value <= 1, "a number between 0 and 1", float)
NAME = _that(lambda value: isinstance(value, str) and value.strip(), "a text by which records know this actor", str)
SETTINGS: dict[str, Callable[[str, Any], Any]] = {
    "query": check_query,
    "budget": lambda argument, value: check_budget(value, argument),
    "norm": lambda argument, value: Norm.of(value),
    **dict.fromkeys(("add", "drop", "most", "count", "restarts"), WHOLE),
    **dict.fromkeys(("steps", "refits"), COUNT),
    **dict.fromkeys(("weight", "cost", "beyond"), SIZE),
    **dict.fromkeys(("share", "follow"), SHARE),
    "name": NAME,
}
"""What actors' settings must be, by their names."""


class CheckedActor:
    """Base class of actors: every setting is checked as `SETTINGS` says of its name, but for one that may be None."""

    def __post_init__(self) -> None:
        """Refuse what cannot be, and keep what checks make of the rest."""
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.name in SETTINGS and (value is not None or field.default is not None):
                object.__setattr__(self, field.name, SETTINGS[field.name](field.name, value))


class Movers(CheckedActor):
    """Base class of actors whose people move within a budget: by default a share of everyone."""

    share: float
    budget: float
    norm: Any
    name: str

    @property
    def caps(self) -> Caps:
        """They move within their budgets."""
        return Caps(budget=self.budget, norm=self.norm)

    def members(self, crowd: Crowd, number: int, rng: np.random.Generator) -> Rows:
        """Draw a share of everyone."""
        return drawn_share(self.share, np.arange(crowd.size), crowd, rng)


def code_of(label: Any, classes: tuple[Any, ...], argument: str) -> int:
    """Return a label's position among the classes; raise where it is not one of them."""
    known = list(classes)
    check_that(label in known, argument, f"one of the classes {known!r}", label)
    return known.index(label)


def fitting(query: Array, view: View) -> Array:
    """Return the query; raise where its number of features differs from the people's."""
    dimensions = view.crowd.features.shape[1]
    if query.size != dimensions:
        raise DataError(f"query: must have the {dimensions} features that people have, got {query.size} numbers.")
    return query


def handed_in_before(view: View) -> Data:
    """Return all contributions of earlier rounds."""
    if not view.past:
        return Data(np.zeros((0, view.crowd.features.shape[1])), np.zeros(0, dtype=np.intp), np.zeros(0))
    people = pooled(view.past)
    features = np.asarray(people.features, dtype=np.float64)
    return Data(features, people.codes(0, people.size).astype(np.intp), people.row_weights)


def handed_in_now(view: View, deed: Deed) -> Data:
    """Return the contributions of this round's people if this actor did that and nobody else acted."""
    return handed_in(view.crowd, [(view.mine, deed)])[0]


@dataclass(frozen=True, eq=False)
class Foresight:
    """The operator's retraining on a deed alone, always with the same random numbers."""

    view: View
    query: Array
    goal: int
    seed: int

    def after(self, deed: Deed) -> tuple[State, float]:
        """Return the state after retraining, and its goal loss at the query."""
        view = self.view
        now = handed_in_now(view, deed)
        batch = population(now, view.crowd)
        rng = np.random.default_rng(self.seed)
        state = view.operator.retrain(view.deployed, batch, view.number, lambda _: batch, rng)
        return state, float(view.operator.model.goal_loss(state.parameters, self.query, self.goal))


def population(people: Data, crowd: Crowd) -> Population:
    """Return people of a crowd's classes as an operator gets them."""
    weights = None if crowd.weights is None else people.weights
    return register_of(crowd).people(people.features, people.codes, weights)


def foresight(view: View, query: Array, goal: Any) -> Foresight:
    """Return the operator's retraining as a function of this actor's deed."""
    return Foresight(
        view, fitting(query, view), code_of(goal, view.crowd.classes, "goal"), int(view.rng.integers(2**32))
    )


def refuse_values(model: Any) -> None:
    """Raise where the operator predicts values: these actors need classes."""
    if getattr(model, "regresses", False):
        raise OptionError(f"model: must predict classes for this actor, got {model.name!r}, which predicts values.")

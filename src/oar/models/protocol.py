"""The protocol of models: the few methods that the rest of the package calls, whatever a model learns.

A model is an immutable bag of settings. What it learns, its *parameters*, is a separate value, so that
a refit is a function: same people, same parameters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from oar.checks import check_that, is_whole, with_near_names
from oar.errors import DataError, OARError
from oar.models.training import Array
from oar.people import Population
from oar.people.tables.arrays import as_floats

Parameters = TypeVar("Parameters")
Kind = TypeVar("Kind")


class Capabilities:
    """The properties of a model that the rest of the package asks for; a model overrides those that differ."""

    convex: bool = False  # whether the risk has one minimum, whatever the start
    # whether shifting all people and the query changes nothing: the collective is then never worse than the individual
    equivariant: bool = False
    regresses: bool = False  # whether targets are real values rather than classes
    linear: bool = False  # whether outputs are linear in the features
    smooth: bool = True  # whether the loss has no kinks in its slope: training answers to moves without any, then
    least_loss: float = 0.0  # a number that no query's loss is below
    labels_matter: bool = True  # whether training reads labels
    # whether parameters are averages over the people of one class each: those of a class of one are that person's data
    holds_class_means: bool = False
    # whether a refit takes the plain mean of each class, and the nearest is predicted, as `NearestCentroid` does: what
    # is solved exactly, streamed and proved for means then is for this model
    plain_means: bool = False
    margins: bool = False  # whether outputs are margins, whose softmax is no probability
    scales_itself: bool = False  # whether it brings features to one scale, or does not care for scales
    keeps_absent: bool = False  # whether a class that nobody has keeps its parameters when rounds of data update them
    quick: bool = False  # whether a refit of few people takes a millisecond, as a linear model's with packed rows
    fixed: bool = False  # whether nothing is trained, and people act by the statistics of their batch alone
    only_asked: bool = False  # whether it can only be trained and asked, as a black box, and never differentiated
    closed_form: Any = None  # (features, targets, weights) → parameters, where the minimum is known
    # whether outputs and losses are JAX functions; where they are not, `training` still gives all that planning and
    # audits ask for, and what compiles them refuses the model (`need_jax_functions`)
    by_jax: bool = False

    @property
    def unscaled(self) -> Any:
        """The model behind a scaler; itself where there is none."""
        return self

    def in_parts(self, people: Population) -> Any:
        """Return the model of settings alone that it is for people who are read in parts; raise where it is none."""
        return self

    def prepared(self, people: Population) -> Population:
        """Return people as a problem with this model has them."""
        return people

    def check_question(self, members_ask: bool, other_levers: bool) -> None:
        """Raise an OptionError where it cannot be asked by members, or with other levers than moves."""

    def written_down(self, people: Population) -> Any:
        """Return the model of settings alone that it is for these people, as cards hold it; raise where it is none."""
        return self


def delegated(part: str, *names: str) -> Callable[[type[Kind]], type[Kind]]:
    """Give a model capabilities or methods of a part of it: `@delegated("model", "convex", "check")`."""

    def with_those_of_its_part(kind: type[Kind]) -> type[Kind]:
        for name in names:
            setattr(kind, name, property(attrgetter(f"{part}.{name}")))
        return kind

    return with_those_of_its_part


Method = TypeVar("Method", bound=Callable[..., Any])
UNFIT = (AttributeError, IndexError, KeyError, TypeError, ValueError)  # of what is read of values that do not belong


def asked_of_rows(method: Method) -> Method:
    """Have a model's method (parameters, features, …) refuse what is not of what it has learned, by errors of ours."""

    @with_near_names
    @functools.wraps(method)
    def checked(self: Any, parameters: Any, features: Any, *goal: Any, **named: Any) -> Any:
        rows = as_floats(features, "features")
        check_that(rows.ndim, "features", "those of one person (d,) or of several (n, d)", features)
        try:
            return method(self, parameters, rows, *goal, **named)
        except OARError:
            raise
        except UNFIT as error:
            raise DataError(
                f"parameters, features: must be what {self.name} has learned, and rows of as many features, got an "
                f"object of type {type(parameters).__name__} and features of shape {rows.shape} ({error})."
            ) from error

    return checked  # type: ignore[return-value]


def class_code(goal: Any, classes: int) -> int:
    """Return a goal that is the code of one of so many classes.

    >>> class_code(-1, 3)
    Traceback (most recent call last):
    oar.errors.DataError: goal: must be the code of a class, from 0 to 2, got -1.
    """
    fits = is_whole(goal) and 0 <= goal < classes
    check_that(fits, "goal", f"the code of a class, from 0 to {classes - 1}", goal)
    return int(goal)


class Model(Protocol[Parameters]):
    """The protocol of models. `features` is (d,) or (n, d)."""

    @property
    def name(self) -> str:
        """The name under which cards and reports know it."""

    def check(self, people: Population) -> None:
        """Raise a DataError if this model cannot be fitted to these people."""

    def fit(self, people: Population) -> Parameters:
        """Refit from scratch."""

    def probabilities(self, parameters: Parameters, features: Any) -> NDArray[np.float64]:
        """Return class probabilities, shape (..., k)."""

    def predict(self, parameters: Parameters, features: Any) -> NDArray[Any]:
        """Return class codes, shape (...), or predicted values, shape (..., o)."""

    def goal_loss(self, parameters: Parameters, features: Any, goal: Any) -> NDArray[np.float64]:
        """Return the loss (...) for a goal: a class code, or a value for each output."""


class Score(Protocol):
    """s and ∇_x s for rows (n, d) and targets (n, o)."""

    def __call__(self, rows: Array, targets: Array) -> tuple[Array, Array]:
        """Return s (n,) and ∇_x s (n, d)."""

"""Predictions of a deployed model: for many people at once, and for queries with their goals.

Linear models and nearest centroid use NumPy: a world predicts after every round, and compiling code for new shapes
costs more than the work itself. Goals are judged as in audits: ties do not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.actions import Perturb
from oar.checks import check_kind
from oar.errors import NumericsError, OptionError
from oar.goals import Members
from oar.models.centroid.nearest_centroid import Centroids, loss_and_margin, rival_ties
from oar.models.linear.losses import Linear
from oar.online.problem import check_retrained
from oar.people import Population
from oar.problem import Problem, Query
from oar.referee.verdicts import AuditSummary, Verdict, judged, of_logits
from oar.retraining import retraining
from oar.worlds.protocol import Array, Mask, Rows

FAR = -745.0  # log of the smallest positive number: where probabilities are 0


def predictions(model: Any, parameters: Any, features: Array) -> Rows:
    """Return predicted class codes (n,)."""
    if isinstance(parameters, Centroids):  # one at a time: (n, k, d) would not fit a cache
        away = [np.linalg.norm(features - position, axis=1) for position in parameters.positions]
        return np.stack(away, axis=1).argmin(axis=1)
    return np.asarray(retraining.predictions(model, parameters, features), dtype=np.intp)


@dataclass(frozen=True)
class CollectiveOutcome:
    """The outcome of a collective's query.

    Attributes:
        prediction: the predicted label; a tuple of labels for several queries.
        loss: the goal loss, as audits report it. success: whether the goal is reached, and not by a tie.
        reached: which of the queries reach their goal.
    """

    prediction: Any
    loss: float
    success: bool
    reached: tuple[bool, ...]


class WorldQuery:
    """A query that is evaluated under several models."""

    def __init__(self, query: Any, model: Any, every_class: Population) -> None:
        """Read the query subjects and goals; `every_class` are people of all classes."""
        check_kind("query", query, Query, "an oar.Query(…)")
        if isinstance(query.features, Members):
            raise OptionError("query: must be features in a world, got oar.Members; people change from round to round.")
        self.problem = Problem(every_class, model, query, Perturb(0.0))
        self.points = self.problem.asked.points

    def outcome(self, model: Any, parameters: Any) -> CollectiveOutcome:
        """Return the query's outcome under a model."""
        heard = [
            self._judged(model, parameters, wish, point)
            for wish, point in zip(self.problem.wishes, self.points, strict=True)
        ]
        told = AuditSummary(self.problem, heard, heard).reported(True)
        if not np.isfinite(told["loss"]):
            raise NumericsError("query: the deployed model's loss is not a finite number.")
        reached = tuple(bool(one.reached) for one in heard)
        return CollectiveOutcome(told["prediction"], told["loss"], bool(told["success"]), reached)

    def _judged(self, model: Any, parameters: Any, wish: Any, point: Array) -> Verdict:
        classes = len(wish.every)
        match model, parameters:
            case _, Centroids():
                distances = np.linalg.norm(point - parameters.positions, axis=1)
                losses = np.array([float(loss_and_margin(distances, code)[0]) for code in range(classes)])
                nearest = wish.codes[int(np.argmin(distances[list(wish.codes)]))]
                return of_logits(self.problem, wish, -distances, losses, rival_ties(parameters, point, nearest))
            case Linear(), _:
                outputs = (point[None] @ parameters[:, :-1].T + parameters[:, -1])[0]
                return judged(self.problem, wish, outputs, lambda target: float(model.output_loss(outputs, target)))
        shares = np.asarray(model.probabilities(parameters, point))
        with np.errstate(divide="ignore"):
            logits = np.maximum(np.log(shares), FAR)
        losses = np.array([float(model.goal_loss(parameters, point, code)) for code in range(classes)])
        return of_logits(self.problem, wish, logits, losses, np.full(classes, 1e-9))


def check_model(model: Any) -> None:
    """Raise unless a model predicts classes."""
    if getattr(model, "regresses", False):
        raise OptionError(f"model: must predict classes in a world, got {model.name}, which predicts values.")
    check_retrained(model)


def flat(parameters: Any) -> Array:
    """Return parameters as one vector."""
    match parameters:
        case Centroids():
            return parameters.positions.ravel()
        case np.ndarray():
            return parameters.astype(np.float64).ravel()
    import jax

    return np.concatenate([np.asarray(leaf, dtype=np.float64).ravel() for leaf in jax.tree.leaves(parameters)])


def share(mask: Mask) -> float:
    """Return the share of true entries; NaN for none."""
    return float(mask.mean()) if mask.size else float("nan")

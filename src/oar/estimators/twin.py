"""A scikit-learn estimator's twin, which can be differentiated through.

Plans are made with the twin, whose refits are quick and whose gradients are known. Nothing is called a success by it:
audits train a clone of the estimator itself, by its own `fit`, on what its owner would give it (`rows`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.checks import with_near_names
from oar.errors import DataError, OptionError
from oar.estimators.cores.protocol import NO_PLACES, Core
from oar.estimators.rows import RowConversion, last_step, one_label_each, trained, weight_argument
from oar.models.differentiable import Differentiable
from oar.models.linear.losses import Linear, LinearSVM, Ridge, SoftmaxRegression
from oar.models.protocol import asked_of_rows, delegated
from oar.models.training import Array
from oar.models.wrap.scaled import Scaled
from oar.people import Population


class NoFront:
    """Nothing in front of an estimator, which is given features as they are; `Front` has what a pipeline has."""

    empty: bool = True  # whether nothing stands before the estimator
    table: bool = False  # whether columns are told apart
    smooth: bool = True  # whether nothing in it has kinks
    standardises: bool = False  # whether it is a StandardScaler and nothing else
    invariant: bool = False  # whether a shift of everybody and the query changes nothing behind it
    equivariant: bool = True  # whether such a shift is at most a shift behind it

    def behind(self, name: str) -> str:
        """Return the name of an estimator, and of what stands before it."""
        return name

    def check(self, people: Population) -> None:
        """Raise where something in it cannot be fitted to these people."""

    def training(self, features: Array, people: Population, core: Core) -> Any:
        """Bind front and estimator to people."""
        return core.training(features, people)

    def read(self, fitted: Any, people: Population) -> Any:
        """Return what a fitted front has learned, which `transform` is asked of."""
        return self

    def written_down(self, model: Differentiable, people: Population) -> Differentiable | None:
        """Return a model and what stands before it as one of `oar.models`; None where that is none of them."""
        return model

    def transform(self, rows: Array) -> Array:
        """Return what the estimator is given for people (m, d)."""
        return rows


NO_FRONT = NoFront()


class TwinParameters(NamedTuple):
    """The parameters of an estimator: what its front has learned, and its last step's."""

    front: Any
    core: Any


@dataclass(frozen=True, eq=False)
class Original:
    """The estimator itself, fitted."""

    twin: Twin
    estimator: Any
    unfinished: bool  # whether it warned that it had not converged
    handing: RowConversion

    @property
    def places(self) -> NDArray[np.intp]:
        """The positions of its classes among the people's; none where it predicts values."""
        return NO_PLACES if self.twin.regresses else self.handing.class_places(self.estimator.classes_)

    def outputs(self, features: Array) -> Array:
        """Return what it says of people (m, d)."""
        return self.twin.core.outputs_of(self.estimator, self.handing.rows(features), self.places)


@delegated("core", "convex", "regresses", "least_loss", "target_rows")
@dataclass(frozen=True, eq=False)
class Twin(Differentiable):
    """The twin of an estimator; `oar.Problem(people, estimator, …)` makes it."""

    estimator: Any  # an unfitted clone of what was given
    core: Core  # how its last step is differentiated
    front: NoFront = NO_FRONT  # what stands before that in a pipeline
    table: bool = False  # whether it sees a table as it came rather than as coordinates

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the estimator that predicts, and that something stands before it."""
        return self.front.behind(self.core.name)

    @property
    def equivariant(self) -> bool:  # type: ignore[override]
        """Whether shifting everyone and the query together changes nothing."""
        return self.front.invariant or (self.core.equivariant and self.front.equivariant)

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """Whether nothing has kinks."""
        return self.core.smooth and self.front.smooth

    @property
    def linear(self) -> bool:  # type: ignore[override]
        """Whether outputs are linear in the people's features."""
        return self.core.linear and self.front.empty

    @property
    def scales_itself(self) -> bool:  # type: ignore[override]
        """Whether something stands before the estimator, which may scale."""
        return not self.front.empty

    @property
    def tolerance(self) -> float | None:
        """The estimator's own stopping tolerance, in a measure of its own; None where it does not search."""
        return getattr(last_step(self.estimator), "tol", None)

    def written_down(self, people: Population) -> Differentiable:
        """Return the model of `oar.models` that the estimator is for these people; raise where it is none of them."""
        core = self.core.written_down(people)
        found = core and self.front.written_down(core, people)
        if found is None:
            raise DataError(
                f"model: only what is one of oar.models can be written down, got {self.estimator!r}, which is more; "
                "hand members their rows of plan.moves()."
            )
        return found

    def in_parts(self, people: Population) -> Differentiable:
        """Return the model of `oar.models` that it is, behind a scaler where one stands before it; or raise."""
        # scikit-learn's pipelines do not tell their scalers what people weigh
        known = self.front.empty or (self.front.standardises and people.weights is None)
        found: Any = self.core.written_down(people) if known else None
        if found is None:
            raise OptionError(
                "model: for people in parts it must be a linear model with settings of its own, alone or, where all "
                f"weigh the same, behind a StandardScaler(), got {self.estimator!r}; use oar.models.Scaled(…), or "
                "people.loaded() if they fit into memory."
            )
        return found if self.front.empty else Scaled(found)

    def __repr__(self) -> str:
        return f"Twin({self.estimator!r})"

    def handing(self, people: Population) -> RowConversion:
        """Return how these people are handed to the estimator."""
        return RowConversion(people, table=self.table, regresses=self.regresses)

    def check(self, people: Population) -> None:
        """Raise where the estimator cannot be fitted to these people."""
        super().check(people)
        if not self.regresses:
            one_label_each(people)
        if people.weights is not None:
            weight_argument(self.estimator, people.weights)  # which says so where it knows none
        self.core.check(people)
        self.front.check(people)

    def training(self, people: Population) -> Any:
        """Bind the twin to people: a `Training`, which refits by itself."""
        return self.front.training(np.asarray(people.features, dtype=np.float64), people, self.core)

    def original(self, people: Population, features: Array) -> Original:
        """Train the estimator itself on people with these features (n, d), their labels and weights."""
        handing = self.handing(people)
        return Original(self, *trained(self.estimator, handing.handed(people, features)), handing)

    @with_near_names
    def fit(self, people: Population) -> TwinParameters:
        """Train the estimator itself, and read what it has learned: then the twin predicts just as it does.

        `training(people).fit(…)` is the twin's own refit, to a minimum that the estimator comes as near to as its
        tolerance says.
        """
        self.check(people)
        return self.read(self.original(people, np.asarray(people.features, dtype=np.float64)))

    def read(self, original: Original) -> TwinParameters:
        """Return the parameters of the estimator, fitted."""
        fitted = original.estimator
        front = self.front.read(fitted, original.handing.people)
        return TwinParameters(front, self.core.read(last_step(fitted), original.places))

    def own_parameters(self, training: Any, flat: Array) -> TwinParameters:
        """Return flat parameters of `training` in the twin's form."""
        if self.front.empty:
            return TwinParameters(NO_FRONT, self.core.own_parameters(training, flat))
        return training.parameters(flat)

    def _all_outputs(self, parameters: TwinParameters, features: Any) -> Array:
        rows = np.asarray(features, dtype=np.float64)
        found = self.core.outputs(parameters.core, parameters.front.transform(rows.reshape(-1, rows.shape[-1])))
        return found.reshape((*rows.shape[:-1], found.shape[-1]))

    @asked_of_rows
    def probabilities(self, parameters: Any, features: Any) -> Array:
        """Return class probabilities (..., k), as the estimator has them; of margins, their softmax."""
        found = None if self.regresses else self.core.probabilities(self._all_outputs(parameters, features))
        return super().probabilities(parameters, features) if found is None else found

    @asked_of_rows
    def goal_loss(self, parameters: Any, features: Any, goal: Any) -> Array:
        """Return the query loss (...) for a goal: a class code, or one value for each output."""
        found = self._all_outputs(parameters, features)
        target = self._target_of(goal, found.shape[-1])
        losses = JUDGES[self.core.loss].output_loss(found.reshape(-1, found.shape[-1]).T, target[:, None])
        return losses.reshape(found.shape[:-1])


JUDGES: dict[str, Linear] = {
    "squared": Ridge(0.0),
    "squared-hinge": LinearSVM(0.0),
    "cross-entropy": SoftmaxRegression(0.0),
}


def output_loss(kind: str, outputs: Array, target: Array) -> float:
    """Return the loss at a goal of outputs (o,), for a target (o,) in 0 … 1, or a value."""
    return float(JUDGES[kind].output_loss(outputs, target))

"""A model behind a scaler: the pipeline that operators of tables train."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import OptionError, with_near_names
from oar.models.differentiable import Differentiable
from oar.models.settings import check_flag
from oar.models.wrap.scaled_training import FLAT, ScaledParameters, ScaledTraining
from oar.people import Population


@with_near_names
@dataclass(frozen=True)
class Scaled(Differentiable):
    """Standardise features, then train: scikit-learn's `make_pipeline(StandardScaler(), model)`.

    Of a table, numbers, integers and ordinals are scaled, and booleans and categories are left as they are; of an
    array, everything is.

    The scaler is part of the refit: where members move, so do centres and scales. Then shifting everyone and the query
    together changes nothing in scaled columns, whatever the model. With `frozen`, the scaler of the unmoved people is
    kept, as by operators who fitted it once; then that is true only of models of which it is true without a scaler.

    Args:
        model: what is trained on the scaled features; any model but nearest centroid and a network that is fixed.
        frozen: whether the scaler stays as it was before anybody moved.
    """

    model: Differentiable
    frozen: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be scaled."""
        if not isinstance(self.model, Differentiable) or isinstance(self.model, Scaled) or self.model.plain_means:
            raise OptionError(
                f"model: must be one of oar.models other than NearestCentroid and Scaled, got {self.model!r}; "
                "for centroids in scaled features use PrototypeNetwork."
            )
        if not self.model.labels_matter:
            raise OptionError(
                f"model: must be one that is trained together with its scaler, got {self.model!r}, which is fixed and "
                "normalises by itself; give it alone, with features in the units that it was trained on."
            )
        check_flag("frozen", self.frozen)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The model's name, and that it is scaled."""
        return f"{'frozen-' if self.frozen else ''}scaled {self.model.name}"

    @property
    def convex(self) -> bool:  # type: ignore[override]
        """Whether the risk has one minimum, as the model's has."""
        return self.model.convex

    @property
    def equivariant(self) -> bool:  # type: ignore[override]
        """Whether shifting everyone changes nothing, as with the model itself."""
        return self.model.equivariant

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """Whether there are no kinks, as in the model."""
        return self.model.smooth

    @property
    def linear(self) -> bool:  # type: ignore[override]
        """Whether outputs are linear in the features: scaling is."""
        return self.model.linear

    @property
    def least_loss(self) -> float:  # type: ignore[override]
        """What no query's loss is below."""
        return self.model.least_loss

    @property
    def regresses(self) -> bool:  # type: ignore[override]
        """Whether targets are real values rather than classes."""
        return self.model.regresses

    @property
    def by_jax(self) -> bool:  # type: ignore[override]
        """Whether the model's functions are JAX's."""
        return self.model.by_jax

    def outputs(self, parameters: Any, features: Any) -> Any:
        """Return the model's outputs (o,) for one person, whose features are as they were given."""
        return self.model.outputs(*_inner(parameters, features))

    def example_loss(self, parameters: Any, features: Any, target: Any) -> Any:
        """Return the model's training loss of one person."""
        return self.model.example_loss(*_inner(parameters, features), target)

    def query_loss(self, parameters: Any, features: Any, target: Any) -> Any:
        """Return the model's loss at the query."""
        return self.model.query_loss(*_inner(parameters, features), target)

    def target_rows(self, targets: Any) -> Any:
        """Return what the model's outputs are compared with."""
        return self.model.target_rows(targets)

    def predicted_class(self, outputs: NDArray[np.float64]) -> int:
        """Return the class that the model's outputs stand for."""
        return self.model.predicted_class(outputs)

    def check(self, people: Population) -> None:
        """Raise where the model cannot be fitted to these people."""
        self.model.check(people)

    def columns(self, people: Population) -> NDArray[np.bool_]:
        """Return which of the people's features are scaled (d,)."""
        return np.ones(people.dimensions, dtype=bool) if people.encoding is None else people.encoding.scaled

    def training(self, people: Population) -> ScaledTraining:
        """Bind scaler and model to people."""
        columns = self.columns(people)
        features = np.asarray(people.features, dtype=np.float64)
        # Who left has left the refits, not the scaler that was there before.
        weights = np.ones(people.size) if people.first_weights is None else people.first_weights
        weights = weights / weights.sum()
        centres = np.where(columns, weights @ features, 0.0)
        spreads = np.sqrt(weights @ (features - centres) ** 2)
        varies = columns & (spreads > people.size * FLAT * np.abs(centres))  # scikit-learn's bound
        scales = np.where(varies, spreads, 1.0)
        scaled = (features - centres) / scales
        inner = self.model.training(people.with_features(scaled))
        followed = np.zeros_like(columns) if self.frozen else columns
        return ScaledTraining(inner, scaled, centres, scales, followed)


def _inner(parameters: Any, features: Any) -> tuple[Any, Any]:
    """Return the model's own parameters, and features as it sees them; a matrix of a linear model does both."""
    if isinstance(parameters, ScaledParameters):
        return parameters.model, parameters.scaled(features)
    return parameters, features


def unscaled(model: Any) -> Any:
    """Return the model behind a scaler, or the model itself."""
    return model.model if isinstance(model, Scaled) else model

"""MLPClassifier and MLPRegressor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.checks import is_whole
from oar.errors import OptionError
from oar.estimators.cores.linear import in_order
from oar.estimators.cores.protocol import Array
from oar.estimators.cores.stopped_training import TrainedCore, TrainedModel, cross_entropy
from oar.models.protocol import delegated
from oar.people import Population

BATCH = 200  # what "auto" means, where so many people are there
SMALLEST = np.finfo(np.float64).tiny  # probabilities below it are taken for it


@dataclass(frozen=True)
class MLPObjective(TrainedModel):
    """Cross-entropy or ½‖f − y‖², and ½ l2 Σ‖W‖²: layers are scikit-learn's `coefs_` (in, out) and `intercepts_`."""

    hidden: tuple[int, ...]
    activation: str
    regresses: bool = False
    l2: Any = 0.0
    name = "MLP"

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """Whether no unit has a kink."""
        return self.activation != "relu"

    def initial(self, dimensions: int, outputs: int) -> Any:
        """Return layers of zeros, for their shapes."""
        widths = (dimensions, *self.hidden, outputs)
        return [
            {"weights": np.zeros((before, after)), "biases": np.zeros(after)}
            for before, after in zip(widths, widths[1:], strict=False)
        ]

    def raw(self, parameters: Any, features: Any) -> Any:
        """Return f(e)."""
        import jax
        import jax.numpy as jnp

        known = {"relu": jax.nn.relu, "tanh": jnp.tanh, "logistic": jax.nn.sigmoid}
        return _through(parameters, features, known.get(self.activation, _as_they_are))

    def loss(self, raw: Any, target: Any) -> Any:
        """Return φ."""
        return 0.5 * ((raw - target) ** 2).sum() if self.regresses else cross_entropy(raw, target)

    def penalty(self, parameters: Any) -> Any:
        """Return ½ l2 Σ‖W‖²."""
        return 0.5 * self.l2 * sum((layer["weights"] ** 2).sum() for layer in parameters)


@delegated("objective", "smooth")
@dataclass(frozen=True, eq=False)
class MLPCore(TrainedCore):
    """A network of scikit-learn's; parameters are its layers, classes in the people's order."""

    estimator: Any
    regresses: bool = False
    name: str = ""

    @cached_property
    def objective(self) -> MLPObjective:  # type: ignore[override]
        """What its training is headed to."""
        hidden = tuple(int(width) for width in np.atleast_1d(self.estimator.hidden_layer_sizes))
        return MLPObjective(hidden, self.estimator.activation, self.regresses)

    @property
    def loss(self) -> str:  # type: ignore[override]
        """The loss by which queries are judged."""
        return "squared" if self.regresses else "cross-entropy"

    def constants(self, people: Population, labels: Any, weights: Array) -> dict[str, Any]:
        """Return l2: each batch's gradient has alpha W divided by the batch's weight, and L-BFGS has one batch."""
        batch = len(weights)
        if self.estimator.solver != "lbfgs":
            size = self.estimator.batch_size
            batch = min(BATCH if isinstance(size, str) else int(size), batch)
        return {"l2": float(self.estimator.alpha) / (batch * float(weights.mean()))}

    def read(self, fitted: Any, places: NDArray[np.intp]) -> Any:
        """Return its layers; the last one's outputs in the people's order."""
        layers = [
            {"weights": np.array(weights, dtype=np.float64), "biases": np.array(biases, dtype=np.float64)}
            for weights, biases in zip(fitted.coefs_, fitted.intercepts_, strict=True)
        ]
        layers[-1] = {
            "weights": in_order(layers[-1]["weights"], places),
            "biases": in_order(layers[-1]["biases"][None], places)[0],
        }
        return layers

    def outputs(self, parameters: Any, rows: Array) -> Array:
        """Return f(e) (m, o)."""
        from scipy.special import expit

        known = {"relu": lambda values: np.maximum(values, 0.0), "tanh": np.tanh, "logistic": expit}
        return _through(parameters, rows, known.get(self.objective.activation, _as_they_are))

    def outputs_of(self, fitted: Any, rows: Any, places: NDArray[np.intp]) -> Array:
        """Return its predictions, or the logarithms of its probabilities, which are its logits up to a constant."""
        if self.regresses:
            return np.asarray(fitted.predict(rows), dtype=np.float64).reshape(len(rows), -1)
        logs = np.log(np.maximum(fitted.predict_proba(rows), SMALLEST))
        return in_order(logs[:, 1:] - logs[:, :1] if logs.shape[1] == 2 else logs, places)


def _as_they_are(values: Any) -> Any:
    return values


def _through(layers: Any, rows: Any, activate: Callable[[Any], Any]) -> Any:
    """Return f for one person (d,) or for many (m, d), by NumPy or by JAX."""
    for layer in layers[:-1]:
        rows = activate(rows @ layer["weights"] + layer["biases"])
    return rows @ layers[-1]["weights"] + layers[-1]["biases"]


def mlp(estimator: Any) -> MLPCore:
    """Return the core of a network; raise where its training cannot be repeated or followed."""
    check_repeatable(estimator)
    name = type(estimator).__name__
    regresses = name == "MLPRegressor"
    if regresses and getattr(estimator, "loss", "squared_error") != "squared_error":
        raise OptionError(
            f"model: MLPRegressor must have loss='squared_error' to be differentiated, got {estimator.loss!r}; use "
            "oar.BlackBox(estimator), which only trains it and asks it."
        )
    return MLPCore(estimator, regresses, name)


def check_repeatable(estimator: Any) -> None:
    """Raise unless the same rows always train to the same parameters."""
    state = estimator.random_state
    if not is_whole(state):
        name = type(estimator).__name__
        raise OptionError(
            f"model: {name}'s training must be repeatable to be planned with, got random_state={state!r}; give "
            f"{name}(random_state=…) a whole number, or use oar.BlackBox(estimator)."
        )

"""SGDClassifier: a linear model for each class against all others, or one for two classes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.estimators.cores.linear import in_order
from oar.estimators.cores.mlp import check_repeatable
from oar.estimators.cores.protocol import Array
from oar.estimators.cores.stopped_training import TrainedCore, TrainedModel
from oar.people import Population

KINKED = ("hinge", "perceptron", "epsilon_insensitive")


@dataclass(frozen=True)
class SGDObjective(TrainedModel):
    """Σ φ(y z) over classes with y = ±1, and alpha times the penalty."""

    kind: str  # scikit-learn's name of the loss; epsilon: of those that have one
    epsilon: float
    intercept: bool  # whether there is one
    l2: Any = 0.0  # l2, l1: of the penalty l2/2 ‖W‖² + l1 ‖W‖₁
    l1: Any = 0.0
    positive: Any = 1.0  # positive, negative: (o,) weights of who is of a class, and of who is not
    negative: Any = 1.0
    name = "SGDClassifier"

    def initial(self, dimensions: int, outputs: int) -> Any:
        """Return zeros."""
        layer = {"weights": np.zeros((outputs, dimensions))}
        return layer | ({"biases": np.zeros(outputs)} if self.intercept else {})

    def raw(self, parameters: Any, features: Any) -> Any:
        """Return margins."""
        found = parameters["weights"] @ features
        return found + parameters["biases"] if self.intercept else found

    def outputs(self, parameters: Any, features: Any) -> Any:
        """Return what probabilities are the softmax of."""
        import jax

        found = self.raw(parameters, features)
        return jax.nn.log_sigmoid(found) if self.kind == "log_loss" and found.size > 1 else found

    def loss(self, raw: Any, target: Any) -> Any:
        """Return Σ φ."""
        return self._weighed(target, _losses(self.kind, raw, 2 * target - 1, self.epsilon))

    def bent(self, raw: Any, target: Any) -> Any:
        """Return the same, with kinks rounded at the size of a margin."""
        import jax

        sign = 2 * target - 1
        if self.kind in ("hinge", "perceptron"):
            beyond = (1.0 if self.kind == "hinge" else 0.0) - sign * raw
            return self._weighed(target, 0.5 * jax.nn.softplus(2 * beyond))
        kind = "squared_error" if self.kind == "epsilon_insensitive" else self.kind
        return self._weighed(target, _losses(kind, raw, sign, self.epsilon))

    def _weighed(self, target: Any, losses: Any) -> Any:
        return ((target * self.positive + (1 - target) * self.negative) * losses).sum()

    def penalty(self, parameters: Any) -> Any:
        """Return l2/2 ‖W‖² + l1 ‖W‖₁."""
        import jax.numpy as jnp

        weights = parameters["weights"]
        return 0.5 * self.l2 * (weights**2).sum() + self.l1 * jnp.abs(weights).sum()


def _losses(kind: str, raw: Any, sign: Any, epsilon: float) -> Any:
    """Return scikit-learn's loss of each output, for y = ±1."""
    import jax
    import jax.numpy as jnp

    margin, off = sign * raw, raw - sign
    short, beyond = jnp.maximum(1 - margin, 0.0), jnp.maximum(jnp.abs(off) - epsilon, 0.0)
    return {
        "hinge": lambda: short,
        "perceptron": lambda: jnp.maximum(-margin, 0.0),
        "squared_hinge": lambda: short**2,
        "modified_huber": lambda: jnp.where(margin >= -1, short**2, -4 * margin),
        "log_loss": lambda: jax.nn.softplus(-margin),
        "squared_error": lambda: 0.5 * off**2,
        "huber": lambda: jnp.where(beyond > 0, epsilon * jnp.abs(off) - 0.5 * epsilon**2, 0.5 * off**2),
        "epsilon_insensitive": lambda: beyond,
        "squared_epsilon_insensitive": lambda: beyond**2,
    }[kind]()


@dataclass(frozen=True, eq=False)
class SGDCore(TrainedCore):
    """scikit-learn's SGDClassifier; parameters are W (o, d) and, where there is one, b (o,)."""

    estimator: Any
    name: str = "SGDClassifier"
    bends: bool = False  # its Gauss–Newton matrix is its Hessian, but at kinks

    @cached_property
    def objective(self) -> SGDObjective:  # type: ignore[override]
        """What its training is headed to."""
        given = self.estimator
        return SGDObjective(str(given.loss), float(given.epsilon), bool(given.fit_intercept))

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """Whether neither loss nor penalty has kinks."""
        return self.objective.kind not in KINKED and str(self.estimator.penalty) in ("l2", "None")

    def constants(self, people: Population, labels: Any, weights: Array) -> dict[str, Any]:
        """Return penalty and class weights; steps have weights as they are, so that the penalty stands against 1/n."""
        from sklearn.utils import compute_class_weight

        given, share = self.estimator, len(weights) / float(weights.sum())
        kind = str(given.penalty)
        alpha = 0.0 if kind == "None" else float(given.alpha) * share
        ratio = {"l1": 1.0, "elasticnet": float(given.l1_ratio or 0.0)}.get(kind, 0.0)
        classes = np.unique(labels)
        own = np.asarray(compute_class_weight(given.class_weight, classes=classes, y=labels), dtype=np.float64)
        own = own[[list(classes).index(label) if label in classes else 0 for label in people.classes]]
        positive, negative = (own[1:], own[:1]) if own.size == 2 else (own, np.ones_like(own))
        return {"l2": alpha * (1 - ratio), "l1": alpha * ratio, "positive": positive, "negative": negative}

    def read(self, fitted: Any, places: NDArray[np.intp]) -> Any:
        """Return coef_ and intercept_, classes in the people's order."""
        found = {"weights": in_order(np.asarray(fitted.coef_, dtype=np.float64).T, places).T}
        if not self.objective.intercept:
            return found
        return found | {"biases": in_order(np.asarray(fitted.intercept_, dtype=np.float64)[None], places)[0]}

    def outputs(self, parameters: Any, rows: Array) -> Array:
        """Return margins, or for three classes or more with a log loss the logarithms of their probabilities."""
        return self._told(rows @ parameters["weights"].T + parameters.get("biases", 0.0))

    def outputs_of(self, fitted: Any, rows: Any, places: NDArray[np.intp]) -> Array:
        """Return the same of its decision_function."""
        margins = np.asarray(fitted.decision_function(rows), dtype=np.float64).reshape(len(rows), -1)
        return self._told(in_order(margins, places))

    def probabilities(self, outputs: Array) -> Array | None:
        """Return those of a modified Huber loss: where margins are between −1 and 1, the same for all classes if none.

        Other losses have none, or have them as the softmax of their outputs.
        """
        if self.objective.kind != "modified_huber":
            return None
        shares = (np.clip(outputs, -1, 1) + 1) / 2
        if shares.shape[-1] == 1:
            return np.concatenate([1 - shares, shares], axis=-1)
        total = shares.sum(axis=-1, keepdims=True)
        return np.where(total > 0, shares / np.where(total > 0, total, 1.0), 1 / shares.shape[-1])

    def _told(self, margins: Array) -> Array:
        from scipy.special import log_expit

        several = self.objective.kind == "log_loss" and margins.shape[1] > 1
        return log_expit(margins) if several else margins


def sgd(estimator: Any) -> SGDCore:
    """Return the core of an SGDClassifier; raise where its training cannot be repeated."""
    check_repeatable(estimator)
    return SGDCore(estimator)

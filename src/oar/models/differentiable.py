"""Models that are given by pure JAX functions of (parameters, one person's features, one person's target).

The operator's training problem is

    θ* = argmin_θ  R(θ) = Σ_i w̄_i ℓ(θ; x_i, y_i) + Ω(θ),        w̄_i = w_i / Σ w,

with targets y_i that are one-hot or soft class labels, or real vectors. Parameters are a pytree of float arrays;
JAX is imported only when such a model is used, and always computes in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.checks import need_jax, with_near_names
from oar.errors import DataError, NumericsError, OptionError
from oar.models.protocol import Capabilities, Score, asked_of_rows, class_code
from oar.people import Population
from oar.people.tables.arrays import as_floats

FITTED = 1e-8  # the gradient norm to which `fit` goes
ROWS = 1_000  # people whose outputs are computed side by side


class Differentiable(Capabilities):
    """Base class of differentiable models; a subclass defines the parameters and the losses.

    Its `oar.models.protocol.Capabilities` state what else it can do; `name` is its name in cards and reports.
    """

    name: str
    by_jax: bool = True

    def member_score(self, parameters: Any, signal: Any) -> Score:
        """Return the score that θ and v define, flat."""
        from oar.models.autodiff.passes import AutodiffScore

        return AutodiffScore(self, parameters, signal)

    def initial(self, dimensions: int, outputs: int) -> Any:
        """Return the parameters that every refit from scratch starts from."""
        raise NotImplementedError

    def outputs(self, parameters: Any, features: Any) -> Any:
        """Return the outputs (o,) for one person: logits, or predicted values."""
        raise NotImplementedError

    def example_loss(self, parameters: Any, features: Any, target: Any) -> Any:
        """Return the training loss ℓ of one person."""
        raise NotImplementedError

    def penalty(self, parameters: Any) -> Any:
        """Return the operator's regulariser Ω."""
        return 0.0

    def gauge(self, parameters: Any) -> Any:
        """Return a term that fixes directions which move no prediction, so that the Hessian can be inverted."""
        return 0.0

    def query_loss(self, parameters: Any, features: Any, target: Any) -> Any:
        """Return the loss at the query for its goal; the training loss unless a model says otherwise."""
        return self.example_loss(parameters, features, target)

    def target_rows(self, targets: Any) -> Any:
        """Return the targets (n, o) that outputs are compared with, for class shares or values (n, k)."""
        return targets

    def targets(self, people: Population) -> NDArray[np.float64]:
        """Return everyone's target (n, o)."""
        return self.target_rows(people.target_rows(self.regresses))

    def goal_target(self, people: Population, goal: Any) -> NDArray[np.float64]:
        """Return the target (o,) that belongs to a goal: a label, or a value."""
        if not self.regresses:
            shares = np.eye(len(people.classes))[people.coding.position(goal, "goal")]
            return self.target_rows(shares[None])[0]
        width = 1 if people.streamed else people.value_rows().shape[1]
        try:
            value = np.atleast_1d(np.asarray(goal, dtype=np.float64))
        except (TypeError, ValueError, OverflowError):
            raise DataError(f"goal: must be {width} number(s) for {self.name}, got {goal!r}.") from None
        if value.shape != (width,) or not np.isfinite(value).all():
            raise DataError(f"goal: must be {width} finite number(s) for {self.name}, got {goal!r}.")
        return value

    def training(self, people: Population) -> Any:
        """Bind the model to people, by automatic differentiation unless a model knows better."""
        need_jax(self.name)
        weights = people.row_weights
        training = self.bound(people.features, self.targets(people), weights / weights.sum())
        training.check_outputs()
        return training

    def bound(self, features: Any, targets: Any, weights: Any) -> Any:
        """Bind the model to features (n, d), targets (n, o) and weights (n,) that sum to 1."""
        from oar.models.autodiff.training import AutodiffTraining

        return AutodiffTraining(self, features, targets, weights)

    @with_near_names
    def fit(self, people: Population) -> Any:
        """Refit from scratch; return parameters in the model's own form (a pytree of NumPy arrays).

        They apply to features as they were given. Those of linear models are one matrix (o, d + 1), the intercept last.

        Raises:
            NumericsError: if the refit does not converge, or there is no minimum.
        """
        self.check(people)
        training = self.training(people)
        found = training.fit(training.moved(None), training.start(), FITTED)
        if not found.converged:
            raise NumericsError(
                f"model: {self.name} must be refitted to a gradient norm of {FITTED:.0e}, got {found.residual:.1e}; "
                "a larger penalty, standardised features or a smoother activation make training easier."
            )
        return training.parameters(found.parameters)

    @asked_of_rows
    def probabilities(self, parameters: Any, features: Any) -> NDArray[np.float64]:
        """Return class probabilities (..., k): softmax of the outputs, and for a single one of it and 0.

        The outputs of a linear SVM are margins: their softmax has the right order, and is not calibrated.
        """
        from scipy.special import softmax

        if self.regresses:
            raise OptionError(f"model: {self.name} predicts values here, which have no probabilities; use predict.")
        found = self._all_outputs(parameters, features)
        if found.shape[-1] == 1:
            found = np.concatenate([np.zeros_like(found), found], axis=-1)
        return softmax(found, axis=-1)

    @asked_of_rows
    def predict(self, parameters: Any, features: Any) -> NDArray[Any]:
        """Return class codes (...), or predicted values (..., o)."""
        found = self._all_outputs(parameters, features)
        if self.regresses:
            return found
        codes = [self.predicted_class(row) for row in found.reshape(-1, found.shape[-1])]
        return np.array(codes, dtype=np.intp).reshape(found.shape[:-1])

    @asked_of_rows
    def goal_loss(self, parameters: Any, features: Any, goal: Any) -> NDArray[np.float64]:
        """Return the query loss (...) for a goal: a class code, or one value for each output."""
        target = self._target_of(goal, self._all_outputs(parameters, features).shape[-1])
        return self._mapped(lambda own, row: self.query_loss(own, row, target), parameters, features)

    def _target_of(self, goal: Any, width: int) -> NDArray[np.float64]:
        """Return the target (o,) of a goal, a class code or values, where there are so many outputs."""
        if self.regresses:
            return np.broadcast_to(as_floats(goal, "goal"), (width,))
        classes = max(width, 2)
        return np.asarray(self.target_rows(np.eye(classes)[[class_code(goal, classes)]]))[0]

    def _all_outputs(self, parameters: Any, features: Any) -> NDArray[np.float64]:
        return self._mapped(self.outputs, parameters, features)

    def _mapped(self, function: Callable[..., Any], parameters: Any, features: Any) -> NDArray[np.float64]:
        """Call a function of (parameters, one person's features) for features (..., d)."""
        rows = np.asarray(features, dtype=np.float64)
        if not self.by_jax:
            found = np.array([function(parameters, row) for row in rows.reshape(-1, rows.shape[-1])])
            return found.reshape((*rows.shape[:-1], *found.shape[1:]))
        need_jax(self.name)
        import jax
        import jax.numpy as jnp

        with jax.enable_x64(True):
            own = jax.tree.map(jnp.asarray, parameters)
            flat = jnp.asarray(rows.reshape(-1, rows.shape[-1]))
            found = np.asarray(jax.lax.map(lambda row: function(own, row), flat, batch_size=ROWS))
        return found.reshape((*rows.shape[:-1], *found.shape[1:]))

    def predicted_class(self, outputs: NDArray[np.float64]) -> int:
        """Return the class code that outputs (o,) stand for."""
        return int(outputs[0] > 0) if outputs.size == 1 else int(outputs.argmax())

    def check(self, people: Population) -> None:
        """Raise a DataError if this model cannot be fitted to these people."""
        if self.regresses:
            if not people.streamed:
                people.value_rows()
            return
        if people.has_label_rows:
            rows = people.class_rows()
            wrong = np.flatnonzero((rows < 0).any(axis=1) | (np.abs(rows.sum(axis=1) - 1) > 1e-8))
            if wrong.size:
                raise DataError(
                    f"labels: soft labels must be shares ≥ 0 that add up to 1, got {rows[wrong[0]]} "
                    f"at position {wrong[0]}."
                )
        people.check_class_weights()
        if len(people.classes) < 2:
            raise DataError(
                f"labels: {self.name} needs at least two classes, got only {people.classes[0]!r}; "
                "add people of another class."
            )


def need_jax_functions(model: Differentiable, what: str) -> None:
    """Raise where something compiles a model's own functions, and they are not JAX's, or JAX is not there."""
    if not model.by_jax:
        raise OptionError(
            f"model: {what} differentiates models through JAX, and {model.name} is not written in it; use one of "
            "oar.models that is, such as oar.models.MLP or Custom."
        )
    need_jax(model.name)

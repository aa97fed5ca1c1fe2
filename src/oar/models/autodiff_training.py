"""Any differentiable model bound to data: everything that planning asks for, by automatic differentiation.

A model may offer two things beyond `Differentiable`:

* `closed_form(features, targets, weights) -> parameters`: the minimum itself (class means, variances). A refit is then
  exact, and where it starts makes no difference;
* `settled(features, targets, weights) -> {field: number}`: settings that it derives from the data once, when it is
  bound to them. The model must be a dataclass; these fields are replaced before its functions are called.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.errors import DataError, NumericsError
from oar.models.autodiff_passes import compiled, with_settings
from oar.models.curvature import Curvature
from oar.models.differentiable import Differentiable
from oar.models.minimise import minimise
from oar.models.objective import Objective, Point
from oar.models.parameters import flattened, float_tree
from oar.models.training import Array, Fit

CHUNK = 1_000


class AutodiffTraining:
    """Implements `Training` for any `Differentiable`.

    Args:
        model: what is trained.
        features: (n, d).
        targets: (n, o): one-hot or soft class labels, or real values.
        weights: (n,), not negative, with sum 1.
    """

    def __init__(self, model: Differentiable, features: Any, targets: Any, weights: Any) -> None:
        """Check everything, lay the data out in chunks, and trace the loss once."""
        import jax
        import jax.numpy as jnp

        self.model, self.passes = model, 0
        self._features, self._given_targets, self.weights = _checked(features, targets, weights)
        self.size, self.dimensions = self._features.shape
        self.output_count = self._given_targets.shape[1]
        with jax.enable_x64(True):
            self._start, self._unravel = flattened(model, self.dimensions, self.output_count)
        self.parameter_count = self._start.size
        self._rows = min(CHUNK, self.size)
        self._chunks = -(-self.size // self._rows)
        self._runs: dict[str, Any] = {}
        self._targets = self._pack(self._given_targets)
        with jax.enable_x64(True):
            padded = np.append(self.weights, np.zeros(self._chunks * self._rows - self.size))
            self._weights = jnp.asarray(padded.reshape(self._chunks, self._rows))
        settled = getattr(model, "settled", None)
        self._constants = {} if settled is None else settled(self._features, self._given_targets, self.weights)
        self._curvature = Curvature(self.product, self.hessian, self.parameter_count)
        self._check_loss()

    def _check_loss(self) -> None:
        """Trace the loss and its gradient without computing anything."""
        import jax

        row, target = self._features[0], self._given_targets[0]
        shape = self._trace(lambda: jax.eval_shape(self._pass("loss"), self._start, self._constants, row, target))
        if shape.shape != () or not jax.numpy.issubdtype(shape.dtype, np.floating):
            raise DataError(
                f"loss: must return one float for one person, got {shape.dtype} of shape {shape.shape} from "
                f"{self.model.name}; sum or average over the outputs, and return no counts."
            )
        arguments = (self._targets[:1, :1], self._weights[:1, :1])
        rows = np.zeros((1, 1, self.dimensions))
        self._trace(lambda: jax.eval_shape(self._pass("risk"), self._start, self._constants, rows, *arguments))

    def _trace(self, run: Any) -> Any:
        """Run something that may trace the model's functions; explain what JAX cannot digest."""
        import jax

        with jax.enable_x64(True):
            try:
                return run()
            except (TypeError, ValueError, IndexError, NotImplementedError, jax.errors.JAXTypeError) as reason:
                if isinstance(reason, (DataError, NumericsError)):
                    raise
                raise DataError(
                    f"loss: must be a pure JAX function of (parameters, features (d,), target (o,)) that JAX can "
                    f"differentiate; tracing {self.model.name} with d = {self.dimensions}, o = {self.output_count} "
                    f"stopped with {type(reason).__name__}: {str(reason).splitlines()[0]} "
                    "Use jax.numpy throughout: no NumPy, no float(), no `if` on values."
                ) from reason

    def _pack(self, array: Array) -> Any:
        """Lay rows out in chunks; padding repeats the first row, which no loss can choke on if that row is sound."""
        import jax
        import jax.numpy as jnp

        missing = self._chunks * self._rows - self.size
        padded = np.concatenate([array, np.repeat(array[:1], missing, axis=0)]) if missing else array
        with jax.enable_x64(True):
            return jnp.asarray(padded.reshape(self._chunks, self._rows, array.shape[1]))

    def _pass(self, kind: str) -> Any:
        if kind not in self._runs:
            self._runs[kind] = compiled(self.model, self.dimensions, self.output_count, kind)
        return self._runs[kind]

    def _over_people(self, kind: str, parameters: Array, features: Any, *directions: Array) -> Any:
        """Run one pass over everyone."""
        self.passes += 1
        run, data = self._pass(kind), (features, self._targets, self._weights)
        return self._trace(lambda: run(parameters, self._constants, *directions, *data))

    # -- what planning asks for --------------------------------------------------------------------------------------

    def start(self) -> Array:
        """Return the model's initial parameters, flat."""
        return self._start.copy()

    def parameters(self, flat: Array) -> Any:
        """Return flat parameters θ in the model's own form, with NumPy leaves."""
        import jax

        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, self._unravel(np.asarray(flat, dtype=np.float64)))

    def flat(self, parameters: Any) -> Array:
        """Return parameters in the model's own form as one vector θ."""
        import jax
        from jax.flatten_util import ravel_pytree

        with jax.enable_x64(True):
            return np.asarray(ravel_pytree(float_tree(parameters, f"parameters: {self.model.name}'s"))[0])

    def moved(self, moves: Array | None) -> Any:
        """Return features in chunks, on JAX's side."""
        return self._pack(self._features if moves is None else self._features + moves)

    def risk_gradient(self, parameters: Array, features: Any) -> tuple[float, Array]:
        """Return the risk, regulariser and gauge included, and its gradient: one pass."""
        value, gradient = self._over_people("risk", parameters, features)
        return float(value), np.asarray(gradient)

    def product(self, parameters: Array, features: Any, direction: Array) -> Array:
        """Return H times a direction: one pass."""
        return np.asarray(self._over_people("product", parameters, features, direction))

    def hessian(self, parameters: Array, features: Any) -> Array:
        """Return H (p, p): as much work as p products."""
        return np.asarray(self._over_people("hessian", parameters, features))

    def score_gradients(self, parameters: Array, features: Any, signal: Array) -> Array:
        """Return ∇_x s_i for everyone: one pass."""
        gradients = np.asarray(self._over_people("scores", parameters, features, signal))
        gradients = gradients.reshape(-1, self.dimensions)[: self.size]
        if not np.isfinite(gradients).all():
            people = np.flatnonzero(~np.isfinite(gradients).all(axis=1))
            raise NumericsError(
                f"loss: its mixed derivatives must be finite, got others for {people.size} of {self.size} people (the "
                f"first is number {people[0]}); look for the norm or square root of something that is zero there."
            )
        return gradients

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return the model's query loss and its gradients."""
        run = self._pass("goal")
        arguments = np.asarray(query, np.float64), np.asarray(target, np.float64)
        value, *gradients = self._trace(lambda: run(parameters, self._constants, *arguments))
        by_parameters, by_features = (np.asarray(gradient) for gradient in gradients)
        if not (np.isfinite(value) and np.isfinite(by_parameters).all() and np.isfinite(by_features).all()):
            raise NumericsError(
                f"query: its loss and gradients must be finite, got a loss of {float(value)} from {self.model.name}; "
                "the query may lie where the loss is not differentiable, or too far from the data."
            )
        return float(value), by_parameters, by_features

    def outputs(self, parameters: Array, query: Array) -> Array:
        """Return f_θ(x†)."""
        run = self._pass("outputs")
        return np.asarray(self._trace(lambda: run(parameters, self._constants, np.asarray(query, np.float64))))

    # -- refits ------------------------------------------------------------------------------------------------------

    def fit(self, features: Any, start: Array, tolerance: float) -> Fit:
        """Refit: by the model's closed form where it has one, otherwise by L-BFGS and Newton from `start`.

        From the model's own start the result is a function of the data alone, bit for bit.

        Raises:
            NumericsError: if the risk is not finite at the start, or does not change with any parameter.
        """
        if getattr(self.model, "closed_form", None) is not None:
            return self._closed_fit(features, tolerance)
        from_scratch = np.array_equal(start, self._start)
        if from_scratch:
            self._curvature.forget()
        objective = Objective(
            lambda parameters: self.risk_gradient(parameters, features),
            lambda parameters, direction: self.product(parameters, features, direction),
            lambda: self._curvature.spectrum,
            lambda parameters: self._curvature.spectrum_at(parameters, features),
        )
        first = objective.at(np.array(start, dtype=np.float64))
        self._check_start(first, features)
        point = minimise(objective, first, tolerance, from_scratch, many_minima=not self.model.convex)
        return Fit(point.parameters, features, point.residual, point.residual <= tolerance)

    def _closed_fit(self, features: Any, tolerance: float) -> Fit:
        rows = np.asarray(features).reshape(-1, self.dimensions)[: self.size]
        model = with_settings(self.model, self._constants)
        parameters = self.flat(model.closed_form(rows, self._given_targets, self.weights))
        value, gradient = self.risk_gradient(parameters, features)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            raise NumericsError(
                f"loss: must be finite at {self.model.name}'s closed form, got a risk of {value}; "
                "a class may have too little weight, or a feature no variance."
            )
        residual, rounding = float(np.linalg.norm(gradient)), 1e-12 * (1.0 + float(np.abs(rows).max()))
        return Fit(parameters, features, residual, residual <= max(tolerance, rounding))

    def _check_start(self, point: Point, features: Any) -> None:
        if not point.sound:
            got = "a risk" if not np.isfinite(point.value) else "a gradient"
            raise NumericsError(
                f"loss: risk and gradient must be finite where the refit starts, got {got} that is not "
                f"from {self.model.name}; check the initial parameters, the features' scale, and roots of zero."
            )
        if not point.gradient.any():
            direction = np.ones(self.parameter_count)
            if not self.product(point.parameters, features, direction).any():
                raise NumericsError(
                    f"loss: must change with the parameters, got a gradient and curvature of exactly zero from "
                    f"{self.model.name}; a loss of hard decisions (argmax, sign, round) cannot be differentiated."
                )

    # -- signals -----------------------------------------------------------------------------------------------------

    @property
    def damping(self) -> float:
        """What the last `solve` had to add where the Hessian was not positive (see `Curvature`); 0 for nothing."""
        return self._curvature.damping

    def solve(self, fit: Fit, right: Array, start: Array | None, tolerance: float) -> Array:
        """Solve H v = right: with its eigenvectors while H is small, by conjugate gradients when it is not.

        Raises:
            NumericsError: if H is flat along `right`, too far from positive definite, or not finite.
        """
        return self._curvature.solve(fit, right, start, tolerance)


def _checked(features: Any, targets: Any, weights: Any) -> tuple[Array, Array, Array]:
    """Return float64 arrays of matching shapes, or raise a DataError."""
    features, targets, weights = (np.asarray(array, dtype=np.float64) for array in (features, targets, weights))
    if features.ndim != 2 or 0 in features.shape:
        raise DataError(f"features: must be people by features, (n, d) with both at least 1, got {features.shape}.")
    size = len(features)
    if targets.ndim != 2 or len(targets) != size or targets.shape[1] == 0:
        raise DataError(f"targets: must be people by outputs, ({size}, o), got {targets.shape}.")
    if weights.shape != (size,):
        raise DataError(f"weights: must be one for each of the {size} people, got {weights.shape}.")
    for name, array in (("features", features), ("targets", targets), ("weights", weights)):
        if not np.isfinite(array).all():
            raise DataError(f"{name}: must be finite, got {int((~np.isfinite(array)).sum())} values that are not.")
    if weights.min() < 0 or abs(weights.sum() - 1) > 1e-9:
        raise DataError(
            f"weights: must not be negative and must sum to 1, got a least of {weights.min():.3g} and a sum of "
            f"{weights.sum():.6g}; divide them by their sum."
        )
    return features, targets, weights

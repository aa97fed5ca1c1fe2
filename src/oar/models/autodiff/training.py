"""Any differentiable model bound to data: everything that planning asks for, by automatic differentiation."""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.errors import DataError, NumericsError
from oar.models.autodiff.passes import UNTRACEABLE, compiled, flattened, float_tree, with_settings
from oar.models.differentiable import Differentiable
from oar.models.fit.curvature import Curvature
from oar.models.fit.refitting import SecondOrderTraining
from oar.models.training import ALL, Array, Fit, Some, displaced

CHUNK = 1_000
_PERSON = "(parameters, features (d,), target (o,))"
_TAKES = {"loss": _PERSON, "query_loss": _PERSON, "outputs": "(parameters, features (d,))"}
_TAKES |= {"penalty": "(parameters)", "gauge": "(parameters)"}
_KINDS = {"loss": np.floating, "query_loss": np.floating} | dict.fromkeys(("outputs", "penalty", "gauge"), np.number)


class AutodiffTraining(SecondOrderTraining):
    """Implements `Training` for any `Differentiable`."""

    def __init__(self, model: Differentiable, features: Any, targets: Any, weights: Any) -> None:
        import jax

        super().__init__(model, features, targets, weights)
        with jax.enable_x64(True):
            self._start, self._unravel = flattened(model, self.dimensions, self.output_count)
        self.parameter_count = self._start.size
        self._rows = min(CHUNK, self.size)
        self._chunks = -(-self.size // self._rows)
        self._runs: dict[str, Any] = {}
        self._constants: dict[str, Any] = {}
        self._bind()
        self._check_functions()

    def _bind(self) -> None:
        missing = self._chunks * self._rows - self.size
        self._targets = self._pack(self.targets)
        self._weights = self._chunked(np.append(self.weights, np.zeros(missing)))  # padding weighs nothing
        self._curvature = Curvature(self.product, self.hessian, self.parameter_count)

    def _check_functions(self) -> None:
        """Trace the model's functions, one by one, and the risk's gradient, without computing anything."""
        import jax

        row, target = self._features[0], self.targets[0]
        for argument in ("loss", "query_loss"):
            self._check_returned(argument, (row, target), (), "one float for one person (sum or average over outputs)")
        for argument in ("penalty", "gauge"):
            self._check_returned(argument, (), (), "one float for all parameters together")
        arguments = (self._targets[:1, :1], self._weights[:1, :1])
        rows = np.zeros((1, 1, self.dimensions))
        self._trace("loss", lambda: jax.eval_shape(self._pass("risk"), self._start, self._constants, rows, *arguments))

    def check_outputs(self) -> None:
        """Raise a DataError unless outputs are as many as targets: planning does without them, audits do not."""
        what = "a number for each entry of one person's target (for classes: a logit each)"
        self._check_returned("outputs", (self._features[0],), (self.output_count,), what)

    def _check_returned(self, argument: str, arguments: tuple[Array, ...], shape: tuple[int, ...], what: str) -> None:
        """Raise a DataError unless one of the model's functions returns numbers of some shape."""
        import jax

        run = self._pass(argument)
        returned = self._trace(argument, lambda: jax.eval_shape(run, self._start, self._constants, *arguments))
        if getattr(returned, "shape", None) == shape and jax.numpy.issubdtype(returned.dtype, _KINDS[argument]):
            return
        one = hasattr(returned, "shape")
        got = f"{returned.dtype} of shape {returned.shape}" if one else f"a {type(returned).__name__}"
        raise DataError(f"{argument}: must return {what}, shape {shape}, got {got} from model {self.model.name!r}.")

    def _trace(self, argument: str, run: Any) -> Any:
        """Run something that may trace one of the model's functions; explain what JAX cannot digest."""
        import jax

        with jax.enable_x64(True):
            try:
                return run()
            except UNTRACEABLE as reason:
                if isinstance(reason, (DataError, NumericsError, jax.errors.JaxRuntimeError)):
                    raise  # the last is the machine's (no memory left), not the function's
                raise DataError(
                    f"{argument}: must be a pure JAX function of {_TAKES[argument]} that JAX can "
                    f"differentiate; tracing {self.model.name} with d = {self.dimensions}, o = {self.output_count} "
                    f"stopped with {type(reason).__name__}: {str(reason).splitlines()[0]} "
                    "Use jax.numpy throughout: no NumPy, no float(), no `if` on values."
                ) from reason

    def _pack(self, array: Array) -> Any:
        """Lay rows out in chunks; padding repeats the first row, which no loss can choke on if that row is sound."""
        missing = self._chunks * self._rows - self.size
        return self._chunked(np.concatenate([array, np.repeat(array[:1], missing, axis=0)]) if missing else array)

    def _chunked(self, padded: Array) -> Any:
        import jax

        with jax.enable_x64(True):
            return jax.numpy.asarray(padded.reshape(self._chunks, self._rows, *padded.shape[1:]))

    def _pass(self, kind: str) -> Any:
        if kind not in self._runs:
            self._runs[kind] = compiled(self.model, self.dimensions, self.output_count, kind)
        return self._runs[kind]

    def _settings(self, features: Any) -> dict[str, Any]:
        """Return fields that are replaced in the model before its functions are called, for people who have moved."""
        return self._constants

    def _over_people(self, kind: str, parameters: Array, features: Any, *directions: Array) -> Any:
        self.passes += 1
        run, settings = self._pass(kind), self._settings(features)
        data = features, self._targets, self._weights
        return self._trace("loss", lambda: run(parameters, settings, *directions, *data))

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

    def moved(self, moves: Array | None, columns: Some = ALL) -> Any:
        """Return features in chunks, on JAX's side."""
        return self._pack(displaced(self._features, moves, columns))

    def scores(self, parameters: Array, features: Any, signal: Array, targets: Array) -> Array:
        """Return s = vᵀ∇_θ ℓ(θ; x, y) (n,) for everyone, if its target were that row of `targets` (n, o): one pass."""
        self.passes += 1
        run, rows, settings = self._pass("values"), self._pack(targets), self._settings(features)
        found = self._trace("loss", lambda: run(parameters, settings, signal, features, rows))
        return np.asarray(found).ravel()[: self.size]

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

    def score_gradients(self, parameters: Array, features: Any, signal: Array, columns: Some = ALL) -> Array:
        """Return ∇_x s_i for everyone, in these columns: one pass."""
        gradients = np.asarray(self._over_people("scores", parameters, features, signal))
        return self._sound_scores(gradients.reshape(-1, self.dimensions)[: self.size], columns)

    def goal(self, parameters: Array, query: Array, target: Array) -> tuple[float, Array, Array]:
        """Return the model's query loss and its gradients."""
        run = self._pass("goal")
        arguments = np.asarray(query, np.float64), np.asarray(target, np.float64)
        value, *gradients = self._trace("query_loss", lambda: run(parameters, self._constants, *arguments))
        return self._checked_goal(float(value), *(np.asarray(gradient) for gradient in gradients))

    def outputs(self, parameters: Array, query: Array) -> Array:
        """Return f_θ(x†)."""
        run = self._pass("outputs")
        at = np.asarray(query, np.float64)
        return self._checked_outputs(np.asarray(self._trace("outputs", lambda: run(parameters, self._constants, at))))

    def fit(self, features: Any, start: Array, tolerance: float) -> Fit:
        """Refit: by the model's closed form where it has one, exactly; otherwise by L-BFGS and Newton from `start`."""
        if self.model.closed_form is not None:
            return self._closed_fit(features, tolerance)
        return super().fit(features, start, tolerance)

    def _closed_fit(self, features: Any, tolerance: float) -> Fit:
        rows = np.asarray(features).reshape(-1, self.dimensions)[: self.size]
        model = with_settings(self.model, self._settings(features))
        parameters = self.flat(model.closed_form(rows, self.targets, self.weights))
        if parameters.size != self.parameter_count:
            raise DataError(
                f"closed_form: must return parameters like the initial ones, {self.parameter_count} numbers, got "
                f"{parameters.size} from model {self.model.name!r}."
            )
        value, gradient = self.risk_gradient(parameters, features)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            raise NumericsError(
                f"loss: must be finite at {self.model.name}'s closed form, got a risk of {value}; "
                "a class may have too little weight, or a feature no variance."
            )
        residual, rounding = float(np.linalg.norm(gradient)), 1e-12 * (1.0 + float(np.abs(rows).max()))
        return Fit(parameters, features, residual, residual <= max(tolerance, rounding))

    def _term(self, argument: str, parameters: Array) -> tuple[Any, Any]:
        import jax

        run = jax.value_and_grad(lambda *at: jax.numpy.asarray(self._pass(argument)(*at), float))
        return self._trace(argument, lambda: run(parameters, self._constants))

    def _gradient_without_people(self, parameters: Array, features: Any) -> Array:
        """Return the gradient of penalty and gauge: the risk's where nobody weighs anything, to the last bit."""
        run, nobody, settings = self._pass("risk"), np.zeros_like(self._weights), self._settings(features)
        found = self._trace("loss", lambda: run(parameters, settings, features, self._targets, nobody))
        return np.asarray(found[1])

"""An estimator whose own `fit` is the refit: what it ends at is no minimum, so nothing else would end there.

A clone is trained on the moved rows, in the order in which people are listed, and its parameters are read off. That is
what an audit does too. Gradients are those of the implicit function theorem as if training had ended where it is headed
to: they point the way, and every step is judged by a refit. With φ the estimator's loss of raw outputs f_θ,

    R(θ) = Σ_i w̄_i φ(f_θ(e_i), y_i) + Ω(θ)

is what `fit` is on its way to. Its second derivatives say how parameters answer to data, as far as training went.

**Curvature.** Training that is stopped early is held back as by a penalty on how far parameters have come: gradient
descent for a time t ends about where R + ‖θ − θ₀‖²/2t is least, where ∇R = −(θ − θ₀)/t. So λ = ‖∇R(θ)‖ / ‖θ‖ tells how
much, and

    (H + λ I) v = g

is solved; where training did converge, λ is next to nothing. A network's H need not be positive, and a hinge has none
at all: then the Gauss–Newton matrix G = Σ w̄ Jᵀ ∂²φ J + ∂²Ω, with J = ∂f/∂θ, takes its place, which is never negative.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from oar.checks import need_jax
from oar.errors import NumericsError
from oar.estimators.cores.protocol import NO_PLACES, Core
from oar.estimators.rows import EstimatorData, RowConversion, trained
from oar.models.autodiff.passes import Passes, added_up, matrix_of
from oar.models.autodiff.training import AutodiffTraining
from oar.models.differentiable import Differentiable
from oar.models.fit.quasi_newton import conjugate_gradients
from oar.models.linear.losses import single_output
from oar.models.training import Array, Fit
from oar.people import Population

SMALL = 600  # parameters up to which matrices are built and factored
MOST_PRODUCTS = 200
LEAST = 1e-12  # of the mean curvature: added to all, for directions that move no prediction
KEPT = 16  # refits that are remembered: solvers ask for the same one more tightly, and it cannot be had


class TrainedModel(Differentiable):
    """Base of these; φ is a function of raw outputs, which a query's outputs may be made of."""

    convex = False  # there may be one minimum, but training does not end there
    equivariant = False
    raw: Callable[[Any, Any], Any]
    """f_θ(e) (o,) of parameters, for one person."""
    loss: Callable[[Any, Any], Any]
    """φ of raw outputs and a target."""

    def bent(self, raw: Any, target: Any) -> Any:
        """Return a loss whose second derivatives stand for φ's; a hinge has none but at its kink."""
        return self.loss(raw, target)

    def outputs(self, parameters: Any, features: Any) -> Any:
        """Return what queries are judged by."""
        return self.raw(parameters, features)

    def example_loss(self, parameters: Any, features: Any, target: Any) -> Any:
        """Return φ of one person."""
        return self.loss(self.raw(parameters, features), target)

    def query_loss(self, parameters: Any, features: Any, target: Any) -> Any:
        """Return the cross-entropy of the outputs, or of values ½‖z − y‖²."""
        found = self.outputs(parameters, features)
        return 0.5 * ((found - target) ** 2).sum() if self.regresses else cross_entropy(found, target)


def cross_entropy(outputs: Any, target: Any) -> Any:
    """Return log Σ e^z − yᵀz; a single output is measured against 0."""
    import jax
    import jax.numpy as jnp

    logits = jnp.append(0.0, outputs) if outputs.shape == (1,) else outputs
    return jax.nn.logsumexp(logits) - target @ outputs


class GaussNewton(Passes):
    """Products with G, by the Hessian of the risk with f linear in θ."""

    def gauss_newton(self, theta: Any, constants: Any, direction: Any, *chunks: Any) -> Any:
        """Return G times a direction."""
        import jax
        import jax.numpy as jnp

        model: Any = self._bound(constants)

        def linear(step: Any, rows: Any, targets: Any, weights: Any) -> Any:
            def person(row: Any, target: Any) -> Any:
                raw, change = jax.jvp(lambda at: model.raw(self._unravel(at), row), (theta,), (step,))
                return model.bent(jax.lax.stop_gradient(raw) + change, target)

            return weights @ jax.vmap(person)(rows, targets)

        still = jnp.zeros_like(theta)

        def bend(*chunk: Any) -> Any:
            return jax.jvp(lambda step: jax.grad(linear)(step, *chunk), (still,), (direction,))[1]

        extra = jax.jvp(lambda at: jax.grad(self._extras)(at, constants), (theta,), (direction,))[1]
        return added_up(bend, chunks, extra)

    def gauss_newton_matrix(self, theta: Any, constants: Any, *chunks: Any) -> Any:
        """Return G."""
        return matrix_of(lambda unit: self.gauss_newton(theta, constants, unit, *chunks), theta.size)


@lru_cache(maxsize=64)
def compiled(model: Any, dimensions: int, outputs: int, kind: str) -> Callable[..., Any]:
    """Return one of these passes, compiled."""
    import jax

    return jax.jit(getattr(GaussNewton(model, dimensions, outputs), kind))


class TrainedCore(Core):
    """An estimator that is trained by its own `fit` alone."""

    convex = False
    estimator: Any  # unfitted; with a `random_state`, so that training can be repeated
    objective: TrainedModel  # what its training is headed to
    bends: bool = True  # whether its own second derivatives are used where they are positive
    constants: Callable[[Population, Any, Array], dict[str, Any]]
    """Settings of the objective that follow from who is there: labels and weights (n,) as handed over."""

    def training(self, rows: Array, people: Population) -> TrainedTraining:
        """Bind it to rows."""
        need_jax(self.name)
        return TrainedTraining(self, np.ascontiguousarray(rows, dtype=np.float64), people)

    def target_rows(self, targets: Any) -> Any:
        """Return a single output's targets for two classes."""
        return targets if self.regresses else single_output(targets)


class TrainedTraining(AutodiffTraining):
    """Implements `Training`; `sparse` says whether rows are handed over as a sparse matrix."""

    damping = 0.0  # λ of the last `solve`: how much training was held back by stopping early

    def __init__(self, core: TrainedCore, rows: Array, people: Population) -> None:
        """Bind the objective; nothing is trained yet."""
        self.core, self.sparse = core, False
        weights = people.row_weights
        shares = people.target_rows(core.regresses)
        super().__init__(core.objective, rows, core.target_rows(shares), weights / weights.sum())
        self._take(people)

    def _take(self, people: Population) -> None:
        """Keep what is handed over beside rows, and what follows from it."""
        self._people = people
        self._handing = RowConversion(people, regresses=self.core.regresses)
        self._present, self._labels, self._given = self._handing.told(people)
        weights = np.ones(len(self._labels)) if self._given is None else self._given
        self._constants = self.core.constants(people, self._labels, weights)
        self._fits: OrderedDict[bytes, Fit] = OrderedDict()

    def contributing(self, targets: Array, weights: Array) -> TrainedTraining:
        """Return the same for other targets and weights; of those who are left, weights keep their proportions."""
        other: Any = super().contributing(targets, weights)
        given = self._people.first_row_weights
        left = np.where(weights > 0, given, 0.0)
        single = not self.core.regresses and targets.shape[1] == 1
        rows = np.column_stack([1 - targets, targets]) if single else targets
        other._take(self._people.contributing(left, rows, self.core.regresses))
        return other

    placed = AutodiffTraining._pack  # rows in the form in which other methods want them, to the last bit

    def fit(self, features: Any, start: Array, tolerance: float) -> Fit:
        """Train a clone on these rows, whatever the start; the residual is that of the objective where it stops."""
        rows = np.array(np.asarray(features).reshape(-1, self.dimensions)[: self.size])
        key = hashlib.blake2b(rows.tobytes()).digest()
        if key in self._fits:
            self._fits.move_to_end(key)
            return self._fits[key]
        handed: Any = rows[self._present]
        if self.sparse:
            from scipy.sparse import csr_matrix

            handed = csr_matrix(handed)
        fitted, _ = trained(self.core.estimator, EstimatorData(handed, self._labels, self._given))
        self.passes += int(np.max(getattr(fitted, "n_iter_", 1)))
        places = NO_PLACES if self.core.regresses else self._handing.class_places(fitted.classes_)
        if not self.core.regresses and places.size < len(self._people.classes):
            raise NumericsError("labels: nobody is left in some class, so that the estimator forgets it.")
        parameters = self.flat(self.core.read(fitted, places))
        residual = float(np.linalg.norm(self.risk_gradient(parameters, features)[1]))
        if not np.isfinite(residual):
            raise NumericsError(f"model: {self.core.name} must be trained to finite parameters, got others.")
        self._fits[key] = Fit(parameters, features, residual, True)
        if len(self._fits) > KEPT:
            self._fits.popitem(last=False)
        return self._fits[key]

    def solve(self, fit: Fit, right: Array, start: Array | None, tolerance: float) -> Array:
        """Return v with (H + λ I) v = right, or with the Gauss–Newton matrix where H is not positive."""
        if not np.isfinite(right).all():
            raise NumericsError("right: must be finite, got entries that are not; the query's gradient has overflowed.")
        if not right.any():
            return np.zeros_like(right)
        theta, features = fit.parameters, fit.features
        self.damping = fit.residual / max(float(np.linalg.norm(theta)), np.finfo(float).tiny)

        def gauss_newton(kind: str, *directions: Array) -> Array:
            self.passes += 1
            function = compiled(self.model, self.dimensions, self.output_count, kind)
            data = (features, self._targets, self._weights)
            return np.asarray(self._trace("loss", lambda: function(theta, self._constants, *directions, *data)))

        for own in (True, False) if self.core.bends else (False,):
            if self.parameter_count <= SMALL:
                matrix = self.hessian(theta, features) if own else gauss_newton("gauss_newton_matrix")
                found = _solved_densely(matrix, right, self.damping)
            else:
                product = partial(self.product, theta, features) if own else partial(gauss_newton, "gauss_newton")
                found = _solved_by_products(product, right, self.damping, tolerance)
            if found is not None:
                return found
        raise NumericsError(
            "Hessian: training must have some curvature where it stops, got none that is positive and finite; a larger "
            "alpha or standardised features make training easier."
        )


def _solved_densely(matrix: Array, right: Array, damping: float) -> Array | None:
    """Return (M + λ I)⁻¹ g; None where that is not positive."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    if not np.isfinite(matrix).all():
        return None
    lift = damping + LEAST * float(np.abs(np.diag(matrix)).mean())
    try:
        return cho_solve(cho_factor(matrix + lift * np.eye(len(matrix))), right)
    except LinAlgError:
        return None


def _solved_by_products(
    product: Callable[[Array], Array], right: Array, damping: float, tolerance: float
) -> Array | None:
    """Return the same by conjugate gradients, as near as a number of products gets."""
    size = float(np.linalg.norm(right))
    found = conjugate_gradients(
        lambda direction: product(direction) + damping * direction, right, tolerance * size, MOST_PRODUCTS
    )
    return found.solution if found.descent is None and np.isfinite(found.residual) else None

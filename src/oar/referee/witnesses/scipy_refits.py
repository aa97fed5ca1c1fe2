"""Refits by SciPy: of linear models on a risk that is written out again, of others on their own.

    softmax regression  Σ w̄ (log Σ e^z − y·z) + l2/2 ‖W‖²                   (a single logit is measured against 0)
    linear SVM          Σ w̄ Σ_o max(0, 1 − t_o z_o)² + l2/2 (‖W‖² [+ b²]),   t = 2y − 1

with z = W x + b, minimised by a trust region with the Hessian, in units of the features' spreads. Both are convex, so
that who minimises makes no difference. Nothing here is the solvers' or the models' code.

Training that defines a model (a network's start and optimiser) cannot be replaced; there SciPy's L-BFGS-B is let loose
on the model's own risk: from elsewhere where the model says that it is convex, and from a little beside what training
returned where it is not. Training is confirmed where nothing lower is found.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.models import LinearSVM, SoftmaxRegression
from oar.models.training import Array, Fit

TIGHT = 1e-11
FACTORED = 600  # parameters up to which the Hessian is factored
STEPS, FEW = 1_000, 100
BESIDE = 1e-3  # how far beside a minimum the search begins, as a share of a parameter's size or 1
LOWER = 1e-7  # share of a risk by which another must be lower to be lower
SAME = 1e-5  # share of a risk by which L-BFGS-B, which ends early, may be above the minimum


class LinearRisk:
    """A linear model's training risk, its gradient and its Hessian, in NumPy; θ is (o, d + 1), flat."""

    def __init__(self, model: SoftmaxRegression | LinearSVM, rows: Array, targets: Array, weights: Array) -> None:
        """Measure features from their means, where nothing holds the intercept, and by their spreads."""
        self.model, self.targets, self.weights = model, targets, weights
        self.hinge = isinstance(model, LinearSVM)
        self.held = bool(getattr(model, "penalise_intercept", False))
        self.centres = np.zeros(rows.shape[1]) if self.held else weights @ rows
        spreads = np.sqrt(weights @ (rows - self.centres) ** 2)
        self.scales = np.where(spreads > 0, spreads, 1.0)
        self.rows = np.column_stack([(rows - self.centres) / self.scales, np.ones(len(rows))])
        self.ridge = model.l2 * np.append(1 / self.scales**2, 1.0 if self.held else 0.0)
        self.outputs = targets.shape[1]

    def _bends(self, found: Array) -> tuple[float, Array, Array]:
        """Return Σ w̄ φ, w̄ ∂φ/∂z (n, o) and w̄ ∂²φ/∂z² (n, o, o) for z (n, o)."""
        weights = self.weights[:, None]
        if self.hinge:
            signs = 2 * self.targets - 1
            short = np.maximum(0.0, 1 - signs * found)
            bend = 2 * weights * signs**2 * (short > 0)
            value = float((weights * short**2).sum())
            return value, -2 * weights * signs * short, bend[:, :, None] * np.eye(self.outputs)
        logits = found if self.outputs > 1 else np.column_stack([np.zeros(len(found)), found])
        total = np.logaddexp.reduce(logits, axis=1)
        shares = np.exp(found - total[:, None])
        value = float(self.weights @ (total - (self.targets * found).sum(axis=1)))
        bend = weights[:, :, None] * (shares[:, :, None] * np.eye(self.outputs) - shares[:, :, None] * shares[:, None])
        return value, weights * (shares - self.targets), bend

    def value(self, theta: Array) -> tuple[float, Array]:
        """Return the risk and its gradient."""
        own = theta.reshape(self.outputs, -1)
        value, slopes, _ = self._bends(self.rows @ own.T)
        held = self.ridge * own
        return value + 0.5 * float((held * own).sum()), (slopes.T @ self.rows + held).ravel()

    def hessian(self, theta: Array) -> Array:
        """Return the Hessian."""
        bends = self._bends(self.rows @ theta.reshape(self.outputs, -1).T)[2]
        blocks = np.einsum("ni,nab,nj->aibj", self.rows, bends, self.rows, optimize=True)
        return blocks.reshape(theta.size, theta.size) + np.diag(np.tile(self.ridge, self.outputs))

    def product(self, theta: Array, along: Array) -> Array:
        """Return the Hessian times a direction."""
        bends = self._bends(self.rows @ theta.reshape(self.outputs, -1).T)[2]
        ahead = along.reshape(self.outputs, -1)
        bent = np.einsum("nab,nb->na", bends, self.rows @ ahead.T)
        return (bent.T @ self.rows + self.ridge * ahead).ravel()

    def given_units(self, theta: Array) -> Array:
        """Return (W, b) as they apply to features as they were given."""
        own = theta.reshape(self.outputs, -1).copy()
        own[:, :-1] /= self.scales
        own[:, -1] -= own[:, :-1] @ self.centres
        return own


def fitted_by_scipy(
    model: SoftmaxRegression | LinearSVM, rows: Array, targets: Array, weights: Array
) -> tuple[Array, float]:
    """Return (W, b), (o, d + 1), from a start at 0, and the norm of the gradient there, by features' spreads."""
    from scipy.optimize import minimize

    risk = LinearRisk(model, rows, targets, weights)
    start = np.zeros(risk.outputs * risk.rows.shape[1])
    if start.size <= FACTORED:
        second: dict[str, Any] = {"method": "trust-exact", "hess": risk.hessian}
    else:
        second = {"method": "trust-krylov", "hessp": risk.product}
    found = minimize(risk.value, start, jac=True, options={"gtol": TIGHT, "maxiter": STEPS}, **second)
    return risk.given_units(found.x), float(np.linalg.norm(risk.value(found.x)[1]))


def confirmation(training: Any, fit: Fit, convex: bool) -> str:
    """Return in words what SciPy makes of a training's own risk; "" where it does not confirm the fit."""
    from scipy.optimize import minimize

    draw = np.random.default_rng(0).standard_normal(fit.parameters.size)
    size = 1.0 + np.abs(fit.parameters)
    start = fit.parameters + (1.0 if convex else BESIDE) * size * draw

    def risk(theta: Array) -> tuple[float, Array]:
        value, gradient = training.risk_gradient(theta, fit.features)
        sound = np.isfinite(value) and np.isfinite(gradient).all()
        return (value, gradient) if sound else (np.inf, np.zeros_like(theta))

    options = {"maxiter": STEPS if convex else FEW}
    reached = float(minimize(risk, start, jac=True, method="L-BFGS-B", options=options).fun)
    here = risk(fit.parameters)[0]
    room = 1.0 + abs(here)
    if not np.isfinite(reached) or reached < here - LOWER * room:
        return ""
    if not convex:
        return "SciPy's L-BFGS-B finds nothing lower around it"
    return "SciPy's L-BFGS-B reaches the same minimum from elsewhere" if reached <= here + SAME * room else ""

"""Passes over the data of a PyTorch model: derivatives by `torch.func`, reverse over reverse.

With θ flat, v a direction in parameter space, and rows that the module treats one by one:

    risk     R(θ) = Σ_i w̄_i ℓ(θ; x_i, y_i) + Ω(θ) + gauge(θ), and ∇R
    product  H v = ∇_θ (vᵀ∇R(θ))
    hessian  H, a row for each unit vector
    values   s = J v with J = ∂ℓ/∂θ (m, p): vᵀJᵀu is linear in u, and its gradient there is J v
    scores   ∇_x Σ_i s_i, of which row i is ∇_x s_i, because s_i is a matter of x_i alone

Forward mode would be as quick, but not every layer of PyTorch knows it; second derivatives nearly all do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oar.models.torch.module import ModuleFunction, torch_library

DIRECTIONS = 32  # Hessian rows that are computed side by side
Loss = Callable[[Any, Any], Any]
LOSSES = ("cross-entropy", "squared")


class TorchPasses:
    """Functions of θ, rows (m, d), targets (m, o) and weights (m,), all of them tensors.

    Losses are functions of outputs and targets (m, o), everybody's (m,); penalty and gauge are functions of θ.
    """

    def __init__(
        self,
        module: ModuleFunction,
        apply: Callable[..., Any],
        loss: Loss,
        query_loss: Loss,
        penalty: Callable[[Any], Any],
        gauge: Callable[[Any], Any],
    ) -> None:
        self.module, self._apply, self._loss, self._query_loss = module, apply, loss, query_loss
        self._penalty, self._gauge = penalty, gauge

    def outputs(self, theta: Any, rows: Any) -> Any:
        """Return f_θ (m, o)."""
        attention = torch_library("torch.nn.attention")  # of its kernels, the plain one alone has second derivatives
        with attention.sdpa_kernel(attention.SDPBackend.MATH):
            return self.module(theta, self._apply, rows)

    def losses(self, theta: Any, rows: Any, targets: Any) -> Any:
        """Return everyone's ℓ (m,)."""
        return self._loss(self.outputs(theta, rows), targets)

    def query_losses(self, theta: Any, rows: Any, targets: Any) -> Any:
        """Return everyone's L (m,), as queries."""
        return self._query_loss(self.outputs(theta, rows), targets)

    def penalty(self, theta: Any) -> Any:
        """Return Ω, as a tensor that depends on θ in form, even where it is a number."""
        return self._penalty(theta) + 0.0 * theta[0]

    def gauge(self, theta: Any) -> Any:
        """Return the gauge, likewise."""
        return self._gauge(theta) + 0.0 * theta[0]

    def risk(self, theta: Any, rows: Any, targets: Any, weights: Any) -> Any:
        """Return Σ w̄ ℓ + Ω + gauge."""
        return self.weighed(theta, rows, targets, weights) + self._penalty(theta) + self._gauge(theta)

    def weighed(self, theta: Any, rows: Any, targets: Any, weights: Any) -> Any:
        """Return Σ w̄ ℓ."""
        return weights @ self.losses(theta, rows, targets)

    def value_gradient(self, function: Callable[..., Any], theta: Any, *rest: Any) -> tuple[Any, Any]:
        """Return a function's value and its gradient by θ."""
        gradient, value = torch_library().func.grad_and_value(function)(theta, *rest)
        return value, gradient

    def bend(self, function: Callable[..., Any], theta: Any, direction: Any, *rest: Any) -> Any:
        """Return the function's second derivatives by θ, times a direction."""
        torch = torch_library()
        return torch.func.grad(lambda at: torch.func.grad(function)(at, *rest) @ direction)(theta)

    def hessian(self, function: Callable[..., Any], theta: Any, *rest: Any) -> Any:
        """Return the function's second derivatives by θ (p, p)."""
        torch = torch_library()
        _, pull = torch.func.vjp(lambda at: torch.func.grad(function)(at, *rest), theta)
        units = torch.eye(theta.numel(), dtype=theta.dtype, device=theta.device)
        return torch.func.vmap(lambda unit: pull(unit)[0], chunk_size=DIRECTIONS)(units)

    def scores(self, theta: Any, signal: Any, rows: Any, targets: Any) -> Any:
        """Return ∇_x s (m, d)."""
        grad = torch_library().func.grad
        return grad(lambda there: signal @ grad(lambda at: self.losses(at, there, targets).sum())(theta))(rows)

    def values(self, theta: Any, signal: Any, rows: Any, targets: Any) -> Any:
        """Return s (m,)."""
        torch = torch_library()

        def along(shares: Any) -> Any:
            return signal @ torch.func.grad(lambda at: shares @ self.losses(at, rows, targets))(theta)

        return torch.func.grad(along)(torch.ones(len(rows), dtype=theta.dtype, device=theta.device))

    def goals(self, theta: Any, rows: Any, targets: Any) -> tuple[Any, Any, Any]:
        """Return everyone's L (m,), the gradient of their sum by θ (p,), and each one's by x (m, d)."""
        torch = torch_library()

        def total(at: Any, points: Any) -> tuple[Any, Any]:
            losses = self.query_losses(at, points, targets)
            return losses.sum(), losses

        (by_parameters, by_features), losses = torch.func.grad(total, argnums=(0, 1), has_aux=True)(theta, rows)
        return losses, by_parameters, by_features


def loss_of_rows(loss: str | Loss, one_logit: bool) -> Loss:
    """Return a function from outputs (m, o) and targets (m, o) to everyone's loss (m,)."""
    if loss == "squared":
        return lambda outputs, targets: 0.5 * ((outputs - targets) ** 2).sum(dim=-1)
    if loss == "cross-entropy":
        return _logistic if one_logit else _cross_entropy
    return lambda outputs, targets: torch_library().func.vmap(loss)(outputs, targets)


def _cross_entropy(outputs: Any, targets: Any) -> Any:
    """Return log Σ e^f − yᵀf, for shares y of the classes that add up to 1."""
    return outputs.logsumexp(dim=-1) * targets.sum(dim=-1) - (targets * outputs).sum(dim=-1)


def _logistic(outputs: Any, targets: Any) -> Any:
    """Return log(1 + e^f) − y f, for the share y of the second of two classes."""
    softplus = torch_library().nn.functional.softplus
    return (softplus(outputs) - targets * outputs).sum(dim=-1)

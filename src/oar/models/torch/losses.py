"""The losses of PyTorch models: by name, or a user's function of one person's outputs and target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oar.models.torch.library import torch_library

LOSSES = ("cross-entropy", "squared")
Loss = Callable[[Any, Any], Any]


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

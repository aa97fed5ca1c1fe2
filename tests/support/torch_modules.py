"""PyTorch for tests, where it is installed, and a few modules."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest


def torch_or_skip() -> Any:
    """Return `torch`; skip the module that asks where there is none, or fail where nothing may skip."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        reason = "torch is not installed (it is in the extra 'torch': make setup-torch)"
        if os.environ.get("OAR_REQUIRE_ALL") == "1":
            pytest.fail(f"{reason}, but OAR_REQUIRE_ALL=1 allows no test to skip", pytrace=False)
        pytest.skip(reason, allow_module_level=True)


def linear_layer(dimensions: int = 3, outputs: int = 3, seed: int = 0) -> Any:
    """Return a layer with weights and biases drawn from the seed, and no global draw."""
    torch = torch_or_skip()
    layer = torch.nn.Linear(dimensions, outputs)
    _draw(layer, seed)
    return layer


def tanh_network(*widths: int, seed: int = 0) -> Any:
    """Return a network of layers of these widths, with tanh between them."""
    torch = torch_or_skip()
    layers: list[Any] = []
    for inputs, outputs in zip(widths, widths[1:], strict=False):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.Tanh()]
    network = torch.nn.Sequential(*layers[:-1])
    _draw(network, seed)
    return network


def _draw(module: Any, seed: int) -> None:
    torch = torch_or_skip()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in module.parameters():
            value.copy_(0.7 * torch.randn(value.shape, generator=generator))

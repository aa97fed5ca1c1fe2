"""PyTorch, where it is installed; it is imported only when a model is made of it."""

from __future__ import annotations

import importlib
from typing import Any

from oar.errors import OptionError


def torch_library(name: str = "torch") -> Any:
    """Return the package `torch`, or a part of it; raise, with what to install, where it is not there."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise OptionError(
            "module: oar.models.from_torch needs PyTorch, which is not installed; pip install 'oar-recourse[torch]'."
        ) from None

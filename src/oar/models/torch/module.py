"""A user's `torch.nn.Module` as a function of one flat vector θ of what it learns.

The user's module is copied and never touched. What it learns are its parameters that ask for gradients, each once even
where layers share it, in the order of `named_parameters()`; frozen parameters and buffers stay as they are.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from oar.errors import DataError, OptionError
from oar.models.training import Array

_EVAL = "call module.eval() first: training here is on everybody at once, and nothing in it is random"


class ModuleFunction:
    """A module in float64, which is called with any θ; `start` is θ as it has it now, and `names` what is learned.

    `in_matrices` (p,) are 1 for entries of parameters that have two dimensions or more (weights), 0 for others.
    """

    def __init__(self, module: Any) -> None:
        torch = torch_library()
        self._held = _holder()(copied(module).double())
        learned = {name: value for name, value in self._held.module.named_parameters() if value.requires_grad}
        self.names = tuple(learned)
        self._shapes = [tuple(value.shape) for value in learned.values()]
        self._sizes = [value.numel() for value in learned.values()]
        self.device = next(iter(learned.values())).device
        self.start = numbers_of(torch.cat([value.detach().reshape(-1) for value in learned.values()]))
        self.in_matrices = self.tensor(
            np.repeat([float(len(shape) > 1) for shape in self._shapes], [int(size) for size in self._sizes])
        )

    def tensor(self, array: Any) -> Any:
        """Return numbers as a float64 tensor where the module is; a copy, so that nobody's array is shared."""
        return torch_library().tensor(np.asarray(array, dtype=np.float64), device=self.device)

    def split(self, theta: Any) -> dict[str, Any]:
        """Return θ (p,), a tensor, by name."""
        parts = theta.split(self._sizes)
        return {name: part.reshape(shape) for name, part, shape in zip(self.names, parts, self._shapes, strict=True)}

    def __call__(self, theta: Any, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return function(module, *arguments), with θ for what the module has learned."""
        named = {f"module.{name}": value for name, value in self.split(theta).items()}
        return torch_library().func.functional_call(self._held, named, (function, *arguments))

    def arrays(self, flat: Array) -> dict[str, Array]:
        """Return θ by name, as NumPy arrays."""
        return {name: numbers_of(value) for name, value in self.split(self.tensor(flat)).items()}

    def flat(self, named: Any) -> Array:
        """Return what is learned, by name, as one vector."""
        known = isinstance(named, dict)
        if (
            not known
            or set(named) != set(self.names)
            or any(np.shape(named[name]) != shape for name, shape in zip(self.names, self._shapes, strict=True))
        ):
            raise DataError(
                f"parameters: must be arrays by name, like those of model.fit: {', '.join(self.names)}; got "
                f"{'other names or shapes' if known else type(named).__name__}."
            )
        return np.concatenate([np.asarray(named[name], dtype=np.float64).ravel() for name in self.names])

    def buffers(self) -> dict[str, Any]:
        """Return copies of the buffers, and of parameters that are not learned."""
        return constants_of(self._held.module)


def constants_of(module: Any) -> dict[str, Any]:
    """Return copies of what a module keeps and does not learn: buffers, and frozen parameters."""
    frozen = {name: value for name, value in module.named_parameters() if not value.requires_grad}
    return {name: value.detach().clone() for name, value in (frozen | dict(module.named_buffers())).items()}


def differing(first: dict[str, Any], second: dict[str, Any]) -> str:
    """Return the name of the first tensor that is not the same in both; "" where all are."""
    torch = torch_library()
    for name in first:
        if name not in second or not torch.equal(first[name], second[name].to(first[name])):
            return name
    return ""


def copied(module: Any) -> Any:
    """Return a copy; raise a DataError where there can be none."""
    try:
        return copy.deepcopy(module)
    except (RuntimeError, TypeError, ValueError) as reason:
        raise DataError(
            f"module: must be one that copy.deepcopy can copy, so that yours stays as it is, got {_kind(module)}: "
            f"{first_line(reason)}"
        ) from reason


def check_module(module: Any) -> None:
    """Refuse what cannot be trained on everybody at once, or is random, as far as kinds of layers tell."""
    torch = torch_library()
    if not isinstance(module, torch.nn.Module):
        raise DataError(f"module: must be a torch.nn.Module, got {_kind(module)}; is it a class that is not called?")
    everything = [*module.parameters(), *module.buffers()]
    if any(torch.nn.parameter.is_lazy(value) for value in everything):
        raise DataError(
            f"module: must know its shapes, got {_kind(module)} with lazy layers; call it once on some rows first."
        )
    learned = [value for value in module.parameters() if value.requires_grad]
    if not sum(value.numel() for value in learned):
        frozen = " that ask for gradients (requires_grad)" if list(module.parameters()) else ""
        raise DataError(
            f"module: must have parameters{frozen}, got {_kind(module)} with none; there is nothing to retrain."
        )
    devices = {str(value.device) for value in everything}
    if len(devices) > 1 or not devices <= {"cpu", *(f"cuda:{place}" for place in range(64))}:
        raise DataError(
            f"module: must be on the CPU or on one CUDA device, where there is float64, got {', '.join(devices)}; "
            "call module.cpu() first."
        )
    for name, value in module.named_parameters():
        if not value.is_floating_point() or not bool(torch.isfinite(value).all()):
            raise DataError(f"module: must have finite floats as parameters, got others in {name!r}.")
    for name, layer in module.named_modules():
        _check_layer(name, layer)


def _check_layer(name: str, layer: Any) -> None:
    torch = torch_library()
    if not layer.training:
        return
    where = f" at {name!r}" if name else ""
    if isinstance(layer, torch.nn.modules.batchnorm._NormBase):
        raise DataError(
            f"module: must treat each person alone, got {_kind(layer)}{where} in training mode, which normalises by "
            f"the batch; {_EVAL}."
        )
    share = getattr(layer, "p", 0.0) if isinstance(layer, torch.nn.modules.dropout._DropoutNd) else 0.0
    share = share or getattr(layer, "dropout", 0.0)  # of recurrent and attention layers
    if isinstance(share, float) and share > 0:
        raise DataError(f"module: must not be random, got {_kind(layer)}{where} that drops at random; {_EVAL}.")


def first_line(reason: BaseException) -> str:
    """Return what an error says first, as the end of a sentence."""
    said = str(reason).strip().splitlines()
    return f"{said[0].rstrip('.')}." if said else f"{type(reason).__name__}."


@cache
def _holder() -> Any:
    """Return a module that holds another and calls any function of it: so that θ is in place while it runs."""
    base: Any = torch_library().nn.Module

    class Holder(base):
        def __init__(self, module: Any) -> None:
            super().__init__()
            self.module = module

        def forward(self, function: Callable[..., Any], *arguments: Any) -> Any:
            return function(self.module, *arguments)

    return Holder


def _kind(thing: Any) -> str:
    return f"a {type(thing).__name__}"


def numbers_of(tensor: Any) -> Array:
    """Return a tensor as an array of float64."""
    return tensor.detach().cpu().numpy().astype(np.float64, copy=False)


def torch_library(name: str = "torch") -> Any:
    """Return the package `torch`, or a part of it; raise, with what to install, where it is not there."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise OptionError(
            "module: oar.models.from_torch needs PyTorch, which is not installed; pip install 'oar-recourse[torch]'."
        ) from None

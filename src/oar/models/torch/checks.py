"""Checks of a user's module and loss on a few people, before anything is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from oar.errors import DataError, OARError
from oar.models.torch.module import differing, first_line, torch_library
from oar.models.torch.passes import TorchPasses
from oar.models.training import Array

FEW = 3  # people that everything is tried on
ALIKE = 1e-9  # how far outputs may differ by rounding, beside their size
BROKEN = (RuntimeError, TypeError, ValueError, IndexError, AttributeError, KeyError)
"""What PyTorch and users' code raise where shapes, kinds or derivatives are not as they should be."""


def check_functions(model: Any, features: Array, targets: Array) -> None:
    """Call everything once on a few people; raise a DataError that says what is wrong, and what to do."""
    run: TorchPasses = model.passes
    theta, rows = run.module.tensor(run.module.start), run.module.tensor(features[:FEW])
    goals = run.module.tensor(targets[:FEW])
    _check_outputs(model, run, theta, rows, targets.shape[1])
    for argument, person in (("loss", run.losses), ("query_loss", run.query_losses)):
        found = _called(argument, person, model, theta, rows, goals)
        _check_returned(argument, found, (len(rows),), "one float for one person", model)
    for argument, term in (("penalty", run.penalty), ("gauge", run.gauge)):
        _check_returned(argument, _called(argument, term, model, theta), (), "one float for all parameters", model)
    weights = run.module.tensor(np.ones(len(rows)))
    with _explained("loss", "module and loss must have second derivatives that torch.func can take", model):
        run.bend(run.weighed, theta, theta, rows, goals, weights)
        run.scores(theta, theta, rows, goals)
    with _explained("penalty", "penalty and gauge must have second derivatives that torch.func can take", model):
        run.bend(lambda at: run.penalty(at) + run.gauge(at), theta, theta)


def _check_outputs(model: Any, run: TorchPasses, theta: Any, rows: Any, width: int) -> None:
    """Check that outputs have the right shape, are no matter of chance or of company, and leave no trace."""
    torch, before = torch_library(), run.module.buffers()
    devices = [] if rows.device.type == "cpu" else [rows.device]
    found = []
    with torch.random.fork_rng(devices=devices):
        for seed in (0, 1):
            torch.manual_seed(seed)
            with _explained("module", f"must take rows (m, {rows.shape[1]}) of float64 numbers", model):
                found.append(run.outputs(theta, rows))
    outputs, wanted = found[0], (len(rows), width)
    if not torch.is_tensor(outputs) or tuple(outputs.shape) != wanted:
        got = f"shape {tuple(outputs.shape)}" if torch.is_tensor(outputs) else f"a {type(outputs).__name__}"
        single = torch.is_tensor(outputs) and tuple(outputs.shape) == (len(rows), 1) and width == 2
        hint = "give one_logit=True where its only output is the second class's logit" if single else "see `apply`"
        raise DataError(
            f"module: must return a number for each entry of every person's target, shape {wanted} for {len(rows)} "
            f"people (for classes: a logit each), got {got} from {model.name}; {hint}."
        )
    if outputs.dtype != torch.float64:
        raise DataError(
            f"module: must compute in its parameters' own dtype, which is float64 here, got {outputs.dtype} from "
            f"{model.name}; look for .float() and for tensors made without dtype=."
        )
    changed = differing(before, run.module.buffers())
    if changed:
        raise DataError(
            f"module: must not change when it is called, got {model.name}, whose {changed!r} does; call module.eval() "
            "first, or keep nothing between calls."
        )
    size = ALIKE * (1 + float(outputs.detach().abs().max()))
    if not torch.allclose(found[0], found[1], rtol=0, atol=size, equal_nan=True):
        raise DataError(
            f"module: must not be random, got other outputs from {model.name} for the same rows; call module.eval() "
            "first."
        )
    with _explained("module", "must take one person's row as it takes many", model):
        alone = run.outputs(theta, rows[:1])
    if not torch.allclose(alone, outputs[:1], rtol=0, atol=size, equal_nan=True):
        raise DataError(
            f"module: must treat each person alone, got other outputs from {model.name} for one person in company; "
            "call module.eval() first, and let nothing in it depend on the whole batch."
        )


def _called(argument: str, function: Callable[..., Any], model: Any, *arguments: Any) -> Any:
    with _explained(argument, _MUST[argument], model):
        return function(*arguments)


def _check_returned(argument: str, found: Any, shape: tuple[int, ...], what: str, model: Any) -> None:
    torch = torch_library()
    if torch.is_tensor(found) and tuple(found.shape) == shape and found.is_floating_point():
        return
    got = f"shape {tuple(found.shape[1:] if shape else found.shape)}" if torch.is_tensor(found) else repr(found)
    raise DataError(f"{argument}: must return {what}, shape (), got {got} from model {model.name!r}.")


_PERSON = "must be a torch function of one person's (outputs (o,), target (o,))"
_MUST = {"loss": _PERSON, "query_loss": _PERSON}
_MUST |= {argument: "must be a torch function of the module, or a number" for argument in ("penalty", "gauge")}


@contextmanager
def _explained(argument: str, must: str, model: Any) -> Iterator[None]:
    """Say which argument is to blame where the user's code, or PyTorch inside it, raises."""
    try:
        yield
    except BROKEN as reason:
        if isinstance(reason, OARError | torch_library().OutOfMemoryError):
            raise
        raise DataError(
            f"{argument}: {must}; {model.name} stopped with {type(reason).__name__}: {first_line(reason)}"
        ) from reason

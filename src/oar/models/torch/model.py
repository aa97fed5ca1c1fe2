"""A user's `torch.nn.Module` as a model that is retrained and differentiated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from oar.checks import check_flag, check_not_negative, check_seed, check_that, check_whole, choose, with_near_names
from oar.errors import DataError, NumericsError, OptionError
from oar.models.differentiable import Differentiable
from oar.models.protocol import asked_of_rows
from oar.models.torch.module import ModuleFunction, check_module, constants_of, copied, differing, torch_library
from oar.models.torch.passes import LOSSES, TorchPasses, loss_of_rows
from oar.models.training import Array
from oar.people import Population


@dataclass(frozen=True, eq=False, repr=False)
class TorchModel(Differentiable):
    """A module with its loss; `from_torch` makes it, and explains the settings.

    Two such models are the same only if they are the same object. What is learned is kept as NumPy arrays by the names
    of the module's parameters.
    """

    module: Any
    loss: str | Callable[..., Any]
    weight_penalty: float | Callable[..., Any]
    gauge_term: Callable[..., Any] | None
    loss_at_query: Callable[..., Any] | None
    apply: Callable[..., Any]
    train: Callable[..., Any] | None
    seed: int
    chunk: int
    one_logit: bool
    name: str
    convex: bool
    equivariant: bool
    regresses: bool
    by_jax = False

    def __repr__(self) -> str:
        by = "" if self.train is None else ", train=…"
        return f"TorchModel(name={self.name!r}, convex={self.convex}, equivariant={self.equivariant}{by})"

    @property
    def least_loss(self) -> float:  # type: ignore[override]
        """A lower bound of every query's loss: nothing is known of a user's function."""
        return 0.0 if isinstance(self.loss, str) and self.loss_at_query is None else -np.inf

    @property
    def witness(self) -> str:
        """The name, in words, of what retrains."""
        by = "its own training, by L-BFGS and Newton" if self.train is None else "the `train` that was given"
        return f"torch {torch_library().__version__}: {self.name} retrained from scratch by {by}"

    @cached_property
    def passes(self) -> TorchPasses:
        """The module and its loss as functions of θ."""
        function = ModuleFunction(self.module)
        loss = loss_of_rows(self.loss, self.one_logit)
        asked = loss if self.loss_at_query is None else loss_of_rows(self.loss_at_query, self.one_logit)
        penalty = self._term(function, self.weight_penalty)
        return TorchPasses(function, self.apply, loss, asked, penalty, self._term(function, self.gauge_term or 0.0))

    def _term(self, function: ModuleFunction, given: float | Callable[..., Any]) -> Callable[[Any], Any]:
        """Return a penalty or gauge as a function of θ: of the module, or l2/2 ‖W‖² for a number l2."""
        if callable(given):
            return lambda theta: function(theta, given)
        if given == 0:
            return lambda theta: 0.0
        half = 0.5 * given * function.in_matrices
        return lambda theta: half @ theta**2

    def initial(self, dimensions: int, outputs: int) -> dict[str, Array]:
        """Return the parameters that the module has, which every refit from scratch starts from."""
        return self.passes.module.arrays(self.passes.module.start)

    def target_rows(self, targets: Any) -> Any:
        """Return what outputs are compared with: of two classes only the second's share where there is one logit."""
        if not self.one_logit:
            return targets
        if targets.shape[1] != 2:
            raise OptionError(
                f"one_logit: stands for the second of two classes, got {targets.shape[1]} classes; leave it out, and "
                "let the module return a logit for each."
            )
        return targets[:, 1:]

    def bound(self, features: Any, targets: Any, weights: Any) -> Any:
        """Bind the model to features (n, d), targets (n, o) and weights (n,) that sum to 1."""
        from oar.models.torch.training import TorchTraining

        return TorchTraining(self, features, targets, weights)

    def training(self, people: Population) -> Any:
        """Bind the model to people."""
        weights = people.row_weights
        return self.bound(people.features, self.targets(people), weights / weights.sum())

    def outputs(self, parameters: Any, features: Any) -> Array:
        """Return the outputs (o,) for one person."""
        return self._all_outputs(parameters, features)

    def example_loss(self, parameters: Any, features: Any, target: Any) -> float:
        """Return the training loss of one person."""
        return float(self._of_rows(self.passes.losses, parameters, features, target))

    def query_loss(self, parameters: Any, features: Any, target: Any) -> float:
        """Return the loss of one query for its goal."""
        return float(self._of_rows(self.passes.query_losses, parameters, features, target))

    def penalty(self, parameters: Any) -> float:
        """Return the operator's regulariser."""
        return float(self.passes.penalty(self._theta(parameters)))

    def gauge(self, parameters: Any) -> float:
        """Return the gauge."""
        return float(self.passes.gauge(self._theta(parameters)))

    @asked_of_rows
    def goal_loss(self, parameters: Any, features: Any, goal: Any) -> Array:
        """Return the query loss (...) for a goal: a class code, or one value for each output."""
        first = np.reshape(features, (-1, np.shape(features)[-1]))[:1]
        target = self._target_of(goal, self._all_outputs(parameters, first).shape[-1])
        return self._of_rows(self.passes.query_losses, parameters, features, target)

    def loaded(self, parameters: Any) -> Any:
        """Return a copy of the user's module, of its own dtype and on its device, that has learned these parameters."""
        torch, module = torch_library(), copied(self.module)
        arrays = self.passes.module.arrays(self.passes.module.flat(parameters))
        with torch.no_grad():
            for name, value in module.named_parameters():
                if name in arrays:
                    value.copy_(torch.as_tensor(arrays[name]))
        return module

    def _theta(self, parameters: Any) -> Any:
        return self.passes.module.tensor(self.passes.module.flat(parameters))

    def _all_outputs(self, parameters: Any, features: Any) -> Array:
        return self._of_rows(self.passes.outputs, parameters, features)

    def _of_rows(self, function: Callable[..., Any], parameters: Any, features: Any, target: Any = None) -> Array:
        """Call a pass for features (..., d), in chunks, with the same target for all of them."""
        rows, tensor = np.asarray(features, dtype=np.float64), self.passes.module.tensor
        theta, flat = self._theta(parameters), rows.reshape(-1, rows.shape[-1])
        parts = []
        for begin in range(0, len(flat), self.chunk):
            some = flat[begin : begin + self.chunk]
            rest = () if target is None else (tensor(np.broadcast_to(target, (len(some), np.size(target)))),)
            parts.append(function(theta, tensor(some), *rest).detach().cpu().numpy())
        found = np.concatenate(parts)
        return found.reshape((*rows.shape[:-1], *found.shape[1:]))

    def trained(self, features: Array, targets: Array, weights: Array) -> Array:
        """Return θ of what the user's `train` makes of a copy of the module; chance in PyTorch is drawn from the seed.

        Raises:
            DataError: if it returns anything but such a module, or changes what is not learned.
            NumericsError: if what it learned is not finite.
        """
        assert self.train is not None
        torch, module = torch_library(), copied(self.module)
        first = next(module.parameters())
        data = (torch.tensor(array, dtype=first.dtype, device=first.device) for array in (features, targets, weights))
        with torch.random.fork_rng(devices=[] if first.device.type == "cpu" else [first.device]), torch.enable_grad():
            torch.manual_seed(self.seed)
            found = self.train(module, *data)
        if not isinstance(found, torch.nn.Module):
            raise DataError(f"train: must return the trained module, got {found!r}; end it with `return module`.")
        changed = differing(constants_of(self.module), constants_of(found))
        if changed:
            raise DataError(
                f"train: must change only what is learned, got {changed!r} changed, which no gradient knows of; keep "
                "batch normalisation in eval mode while training."
            )
        learned = {name: value.detach().cpu().double().numpy() for name, value in found.named_parameters()}
        try:
            theta = self.passes.module.flat({name: learned.get(name) for name in self.passes.module.names})
        except DataError:
            raise DataError(
                f"train: must return the module that it was given, trained, got a {type(found).__name__} with "
                "parameters of other names or shapes."
            ) from None
        if not np.isfinite(theta).all():
            raise NumericsError(
                f"train: must return finite parameters, got {int((~np.isfinite(theta)).sum())} of {theta.size} that "
                "are not; a smaller learning rate may help."
            )
        return theta


@with_near_names
def from_torch(
    module: Any,
    *,
    loss: str | Callable[..., Any],
    penalty: float | Callable[..., Any] = 0.0,
    gauge: Callable[..., Any] | None = None,
    query_loss: Callable[..., Any] | None = None,
    apply: Callable[..., Any] | None = None,
    train: Callable[..., Any] | None = None,
    seed: int | None = None,
    one_logit: bool = False,
    regresses: bool = False,
    convex: bool = False,
    equivariant: bool = False,
    name: str | None = None,
    chunk: int = 1_000,
) -> TorchModel:
    """Return a model that is trained as a PyTorch module is: Σ_i w̄_i loss(module(x_i), y_i) + penalty(module).

    The module is copied, and yours stays as it is; it is retrained from the weights that it has now, in float64, on
    everybody at once. PyTorch is an extra: pip install 'oar-recourse[torch]'.

    Args:
        module: a `torch.nn.Module` from rows (m, d) to outputs (m, o): a logit for each class, or values. Parameters
            with requires_grad=False stay as they are. It must be neither random nor aware of the batch: call
            `module.eval()` first where it has dropout or batch normalisation.
        loss: "cross-entropy", "squared" (½‖f − y‖²), or `loss(outputs, target)`, one float for one person from its
            outputs (o,) and target (o,) (class shares, or values), such as `torch.nn.functional.cross_entropy`.
        penalty: a number l2 stands for l2/2 Σ ‖W‖² over parameters of two dimensions or more (weights, not biases); or
            `penalty(module)`.
        gauge: `gauge(module)`, a term that fixes directions which move no prediction; None for none.
        query_loss: how the query is judged, called like `loss`; None to judge it by `loss`.
        apply: `apply(module, rows)`, how the module is called; None for `module(rows)`.
        train: your own training, `train(module, features, targets, weights)`, which gets a fresh copy of the module
            and tensors (n, d), (n, o) and (n,) of its dtype, and returns the trained module. Weights sum to 1, are 0
            for who has left, and must be used. Audits retrain by it. `loss` and `penalty` must then be what it trains
            on: gradients are those of a minimum of them. None trains to a minimum by L-BFGS and Newton.
        seed: of PyTorch's random numbers while `train` runs; None means 0.
        one_logit: whether the module's only output is the logit of the second of two classes.
        regresses: whether targets are real values rather than classes.
        convex: whether training has one minimum, whatever the start. A claim, as the next: `check_model` tries it.
        equivariant: whether shifting all people and the query together changes nothing.
        name: under which results and reports know it; None for the module's class.
        chunk: how many people are computed side by side.
    """
    torch_library()
    check_module(module)
    flags = {"one_logit": one_logit, "regresses": regresses, "convex": convex, "equivariant": equivariant}
    for argument, value in flags.items():
        check_flag(argument, value)
    _check_functions(loss=loss, penalty=penalty, gauge=gauge, query_loss=query_loss, apply=apply, train=train)
    if one_logit and regresses:
        raise OptionError("one_logit: is for classes, got it with regresses=True; leave one of them out.")
    if loss == "cross-entropy" and regresses:
        raise OptionError("loss: must be 'squared' or a function where values are predicted, got 'cross-entropy'.")
    if seed is not None:
        check_seed(seed)
        if train is None:
            raise OptionError("seed: is for `train`, and nothing is random without one; leave it out.")
    check_whole("chunk", chunk)
    check_that(name is None or (isinstance(name, str) and name), "name", "a word or two", name)
    if not callable(penalty) and penalty and not any(one.ndim > 1 for one in module.parameters() if one.requires_grad):
        raise OptionError(
            "penalty: a number is for parameters of two dimensions or more, and the module learns none; give a "
            "function of the module."
        )
    return TorchModel(
        module=copied(module),
        loss=loss,
        weight_penalty=penalty if callable(penalty) else float(penalty),
        gauge_term=gauge,
        loss_at_query=query_loss,
        apply=apply or (lambda module, rows: module(rows)),
        train=train,
        seed=seed or 0,
        chunk=int(chunk),
        name=name or type(module).__name__,
        **{argument: bool(value) for argument, value in flags.items()},
    )


def _check_functions(*, loss: Any, penalty: Any, **optional: Any) -> None:
    if not callable(loss):
        choose("loss", loss, LOSSES)
    if not callable(penalty):
        check_not_negative("penalty", penalty)
    for argument, function in optional.items():
        if function is not None and not callable(function):
            raise DataError(f"{argument}: must be a function, got {type(function).__name__}.")

"""A user's own model: any loss that is a pure JAX function of (parameters, one person's features, one target)."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from oar.checks import check_flag, check_seed, check_that, is_text, with_near_names
from oar.errors import DataError, OptionError
from oar.models.autodiff.passes import float_tree
from oar.models.differentiable import Differentiable
from oar.people import Population

CALLED_WITH = {
    "loss": "parameters, x, y",
    "outputs": "parameters, x",
    "penalty": "parameters",
    "gauge": "parameters",
    "query_loss": "parameters, x, y",
    "closed_form": "features, targets, weights",
}


@with_near_names
class Custom(Differentiable):
    """A model given by functions. Its training minimises Σ_i w̄_i loss(θ; x_i, y_i) + penalty(θ).

    Two such models are equal only if they are the same object; reuse it to reuse its compiled functions.
    `oar.testing.check_model` reports what a new model lacks.

    >>> import jax.numpy as jnp
    >>> ridge = Custom(
    ...     loss=lambda w, x, y: 0.5 * jnp.sum((w @ x - y) ** 2),
    ...     init=lambda dimensions, outputs: jnp.zeros((outputs, dimensions)),
    ...     outputs=lambda w, x: w @ x,
    ...     penalty=lambda w: 0.05 * jnp.sum(w**2),
    ...     name="ridge",
    ...     convex=True,
    ... )
    >>> ridge
    Custom(name='ridge', convex=True, equivariant=False)
    >>> ridge.initial(2, 1).shape
    (1, 2)
    """

    def __init__(
        self,
        *,
        loss: Callable[..., Any],
        init: Any,
        outputs: Callable[..., Any] | None = None,
        penalty: Callable[..., Any] | None = None,
        gauge: Callable[..., Any] | None = None,
        query_loss: Callable[..., Any] | None = None,
        closed_form: Callable[..., Any] | None = None,
        name: str = "custom",
        convex: bool = False,
        equivariant: bool = False,
        regresses: bool = False,
        seed: int = 0,
    ) -> None:
        """Keep the functions.

        Args:
            loss: `loss(parameters, x, y)`, one float for one person: x is (d,), y is (o,) (one-hot or soft labels, or
                values).
            init: the parameters that every refit from scratch starts from: a pytree of float arrays, or a function
                `init(dimensions, outputs)` or `init(dimensions, outputs, seed)` that returns one.
            outputs: `outputs(parameters, x)`, shape (o,), as many as y: a logit for each class (two for two classes),
                or predicted values. None, for classes only: the class with the least loss is predicted, and minus the
                loss of each class stands in for its logit.
            penalty: `penalty(parameters)`, the operator's regulariser; None for none.
            gauge: `gauge(parameters)`, a term that fixes directions which move no prediction; None for none.
            query_loss: how the query is judged, called like `loss`; None to judge it by `loss`.
            closed_form: `closed_form(features, targets, weights)`, the minimising parameters; None to search.
            name: under which cards and reports know it.
            convex: whether training has one minimum, whatever the start. A claim, as the next: `check_model` tries it.
            equivariant: whether shifting all people and the query together changes nothing.
            regresses: whether targets are real values rather than classes.
            seed: passed to `init` if it takes three arguments.
        """
        optional = {"outputs": outputs, "penalty": penalty, "gauge": gauge}
        optional |= {"query_loss": query_loss, "closed_form": closed_form}
        given = {key: value for key, value in optional.items() if value is not None}
        for argument, function in ({"loss": loss} | given).items():
            if not callable(function):
                raise DataError(f"{argument}: must be a function, got {type(function).__name__}.")
            called_with = CALLED_WITH[argument]
            if not _takes(function, called_with.count(",") + 1):
                raise OptionError(f"{argument}: must take ({called_with}), got a function of others.")
        if regresses and "outputs" not in given:
            raise OptionError("outputs: must be given for real-valued targets, got none; what does the model predict?")
        check_that(is_text(name), "name", "a word or two", name)
        for argument, claim in (("convex", convex), ("equivariant", equivariant), ("regresses", regresses)):
            check_flag(argument, claim)
        if callable(init) and not (_takes(init, 2) or _takes(init, 3)):
            raise OptionError("init: must take (dimensions, outputs) or (dimensions, outputs, seed), got another.")
        check_seed(seed)
        self.name, self.convex, self.equivariant = name, bool(convex), bool(equivariant)
        self.regresses, self.closed_form = bool(regresses), closed_form
        self.least_loss = -np.inf  # nothing is known of it
        self._loss, self._init, self._outputs = loss, init, outputs
        usual = {"penalty": _nothing, "gauge": _nothing, "query_loss": loss} | given
        self._penalty, self._gauge, self._query_loss = (usual[name] for name in ("penalty", "gauge", "query_loss"))
        self._seed = seed
        self._with_outputs: dict[int, Custom] = {}  # one for each number of classes, so that it is compiled once

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what was made for each number of classes: it is made anew elsewhere."""
        return self.__dict__ | {"_with_outputs": {}}

    def __repr__(self) -> str:
        return f"Custom(name={self.name!r}, convex={self.convex}, equivariant={self.equivariant})"

    def initial(self, dimensions: int, outputs: int) -> Any:
        """Return `init`, or what it returns, in float64."""
        given = self._init
        if callable(given):
            seeded = (self._seed,) if _takes(given, 3, otherwise=False) else ()
            given = given(dimensions, outputs, *seeded)
        import jax

        tree = float_tree(given, "init:")
        leaves = jax.tree.leaves(tree)
        wrong = sum(int((~np.isfinite(leaf)).sum()) for leaf in leaves)
        if wrong or not sum(leaf.size for leaf in leaves):
            got = f"{wrong} that are not finite" if wrong else "none"
            raise DataError(f"init: must be finite numbers, at least one, got {got}.")
        return tree

    def training(self, people: Population) -> Any:
        """Bind the model to people; where it has no outputs of its own, minus each class's loss are its outputs."""
        complete = self if self.regresses else self.completed(len(people.classes))
        return super(Custom, complete).training(people)

    def completed(self, count: int) -> Custom:
        """Return this model with outputs for so many classes; itself where it has outputs of its own."""
        if self._outputs is not None:
            return self
        if count not in self._with_outputs:
            import jax

            def minus_losses(parameters: Any, features: Any) -> Any:
                return -jax.vmap(lambda target: self._loss(parameters, features, target))(jax.numpy.eye(count))

            complete = self._with_outputs[count] = copy.copy(self)
            complete._outputs = minus_losses
        return self._with_outputs[count]

    def outputs(self, parameters: Any, features: Any) -> Any:
        """Return the user's outputs."""
        if self._outputs is None:
            raise OptionError("outputs: were not given, so they are known only once the model is bound to people.")
        return self._outputs(parameters, features)

    def example_loss(self, parameters: Any, features: Any, target: Any) -> Any:
        """Return the user's loss."""
        return self._loss(parameters, features, target)

    def penalty(self, parameters: Any) -> Any:
        """Return the user's penalty, or 0."""
        return self._penalty(parameters)

    def gauge(self, parameters: Any) -> Any:
        """Return the user's gauge, or 0."""
        return self._gauge(parameters)

    def query_loss(self, parameters: Any, features: Any, target: Any) -> Any:
        """Return the user's query loss, or else the training loss."""
        return self._query_loss(parameters, features, target)


@with_near_names
def from_equinox(
    module: Any, *, loss: Callable[..., Any], apply: Callable[..., Any] | None = None, **settings: Any
) -> Custom:
    """Return a model whose parameters are the float arrays of an Equinox module (or of any callable pytree).

    An Equinox module is a pytree, so nothing of Equinox itself is needed: float arrays are what is learned (in float64,
    starting from the values that they have now), and everything else in the module is kept as it is.

    Args:
        module: a callable pytree, such as `equinox.nn.MLP(d, o, 16, 1, key=key)`. Layers that draw random numbers or
            carry state (dropout, batch normalisation) must be set to inference first: training here is full-batch
            and deterministic.
        loss: `loss(outputs, y)`, one float for one person, from the module's outputs (o,) and the target (o,).
        apply: `apply(module, x)`, how the module is called; None for `module(x)`.
        settings: whatever else `Custom` takes; `penalty` and `gauge` are given the module, `query_loss` is called like
            `loss`. `init` and `outputs` come from the module.
    """
    import jax

    for argument in ("init", "outputs", "closed_form"):
        if argument in settings:
            raise OptionError(f"{argument}: comes from the module; make a Custom model to choose it.")
    leaves, structure = jax.tree.flatten(module)
    floats = [hasattr(leaf, "shape") and getattr(leaf, "dtype", None) for leaf in leaves]
    learned = [bool(kind) and jax.numpy.issubdtype(kind, np.floating) for kind in floats]
    if not any(learned):
        raise DataError(
            f"module: must hold at least one float array, got a {type(module).__name__} with none among "
            f"{len(leaves)} leaves; is it a pytree?"
        )
    call = apply or (lambda whole, x: whole(x))

    def combined(parameters: Any) -> Any:
        """The module with the learned leaves put back."""
        numbers = iter(parameters)
        return jax.tree.unflatten(
            structure, [next(numbers) if own else leaf for own, leaf in zip(learned, leaves, strict=True)]
        )

    def on_outputs(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda parameters, x, y: function(call(combined(parameters), x), y)

    def on_module(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda parameters: function(combined(parameters))

    for argument, wrap in (("penalty", on_module), ("gauge", on_module), ("query_loss", on_outputs)):
        if settings.get(argument) is not None:
            settings[argument] = wrap(settings[argument])
    return Custom(
        loss=on_outputs(loss),
        init=[np.asarray(leaf, dtype=np.float64) for own, leaf in zip(learned, leaves, strict=True) if own],
        outputs=lambda parameters, x: call(combined(parameters), x),
        **({"name": type(module).__name__} | settings),
    )


def _nothing(parameters: Any) -> float:
    """Return the penalty, or gauge, of a model that has none."""
    return 0.0


def _takes(function: Callable[..., Any], count: int, otherwise: bool = True) -> bool:
    """Report whether a function can be called with so many arguments; `otherwise` where it does not say."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return otherwise
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True

"""Models whose outputs are linear in the features: z = W x + b, with a convex loss φ(z, y).

With a = ∂φ/∂z and B = ∂²φ/∂z² everything that planning needs has a closed form. Write V, c for the blocks of a
direction v in parameter space that belong to W, b, and u = V x + c:

    ∇_θ ℓ = a ⊗ (x, 1)          vᵀ∇_θ ℓ = aᵀu          H = Σ w̄ B ⊗ (x, 1)(x, 1)ᵀ          ∇_x (aᵀu) = Vᵀa + Wᵀ B u

With a free intercept these models are translation-equivariant.

**Passes** are sums of these over people, each one fused function of a chunk: features (rows, d), targets (rows, o) and
weights (rows,). Inside it outputs are (o, rows), so that a person's softmax is a column. Without an intercept (x, 1) is
(x, 0), and b, which starts at 0, never leaves it. Many people come in chunks that XLA maps over; a few are one chunk,
for which NumPy is the quicker: calling compiled code costs more than the work itself. One formula serves both
libraries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.checks import check_flag, check_not_negative, need_jax, with_near_names
from oar.models.autodiff.passes import added_up
from oar.models.differentiable import Differentiable
from oar.models.linear.identifiability import dependent, separates
from oar.models.training import Array
from oar.people import Population

if TYPE_CHECKING:
    from oar.models.linear.training import LinearTraining

Chunk = tuple[Any, Any, Any]
AT_MARGIN = 1e-12  # nearer to a margin than this share of the output is at it
SHORT = 1e-9  # who is short of a margin by less than this may as well have met it


class Linear(Differentiable):
    """z = W x + b. Parameters are one array (o, d + 1): the last column is the intercept.

    The functions below take outputs and targets as (o, ...): one column a person.
    """

    convex = True
    linear = True
    quick = True
    quadratic = False
    penalise_intercept = False
    intercept: bool = True  # whether there is one; without, the last column of the parameters stays 0
    l2: float
    steepest: float  # β with B ≤ β I, whatever the outputs
    output_loss: Callable[[Any, Any], Any]  # φ (...), of outputs and targets
    slopes: Callable[[Any, Any], Any]  # a = ∂φ/∂z, shape (o, ...)
    bend: Callable[[Any, Any, Any], Any]  # B u for directions u, shape (o, ...)
    curvature: Callable[[Any, Any], Any]  # B, shape (o, o, ...)
    # The t (o,) at which the risk is least along each output's own direction, for models that know them: of z and their
    # direction u, both (o, n); of targets (o, n) and weights (n,); and of the penalty's slope and curvature, both (o,)
    best_lengths: Any = None

    def __post_init__(self) -> None:
        check_not_negative("l2", self.l2)

    def member_score(self, parameters: Array, signal: Array) -> LinearScore:
        """Return the score of a signal, in closed form."""
        return LinearScore(self, parameters, signal)

    def target_rows(self, targets: Any) -> Any:
        """Return all columns, but for two classes only the second's: a single output."""
        return targets if self.regresses else single_output(targets)

    def initial(self, dimensions: int, outputs: int) -> Any:
        """Start every refit from zero."""
        return np.zeros((outputs, dimensions + 1))

    def outputs(self, parameters: Any, features: Any) -> Any:
        """Return z (o,)."""
        return parameters[:, :-1] @ features + parameters[:, -1]

    def example_loss(self, parameters: Any, features: Any, target: Any) -> Any:
        """Return φ(W x + b, y)."""
        return self.output_loss(self.outputs(parameters, features), target)

    @property
    def intercept_share(self) -> float:
        """The share of the penalty that is on the intercept: l2/2 · share · ‖b‖²."""
        return 1.0 if self.penalise_intercept else 0.0

    @property
    def free_intercept(self) -> bool:
        """Whether there is an intercept that nothing holds: then features may be measured from anywhere."""
        return self.intercept and self.intercept_share == 0

    @property
    def judge(self) -> Linear:
        """The model by whose loss a query's outputs are judged."""
        return self

    def penalty(self, parameters: Any) -> Any:
        """Return l2/2 ‖W‖², and b's share of it where the intercept is penalised too."""
        on_intercept = self.intercept_share * (parameters[:, -1] ** 2).sum()
        return 0.5 * self.l2 * ((parameters[:, :-1] ** 2).sum() + on_intercept)

    def fixes_gauge(self, outputs: int) -> bool:
        """Report whether adding a constant to all intercepts moves no prediction, so that it must be ruled out."""
        return False

    def gauge(self, parameters: Any) -> Any:
        """Return ½ (Σ b / o)² where that is needed: no stiffer than the rest of the risk, so that series converge.

        Without a penalty the same goes for every column of W.
        """
        if not self.fixes_gauge(len(parameters)):
            return 0.0
        free = parameters[:, -1:] if self.l2 > 0 else parameters
        return 0.5 * ((free.sum(axis=0) / len(parameters)) ** 2).sum()

    def why_no_minimum(
        self, parameters: Array, rows: Array, targets: Array, slope: float, flattest: Callable[[], float]
    ) -> str:
        """Return why the fit without a regulariser that ended here is none, although features are independent; or "".

        Parameters (o, d + 1) apply to rows (n, d), people of some weight; `slope` is the norm of the gradient there,
        `flattest()` H's least eigenvalue, or 0 where it cannot be had.
        """
        return ""

    def training(self, people: Population) -> LinearTraining:
        """Bind the model to people: passes over their data, refits, and Hessian solves."""
        from oar.models.linear.training import LinearTraining  # which reads this file

        need_jax(self.name)
        weights = people.row_weights
        features = np.ascontiguousarray(people.features, dtype=np.float64)
        return LinearTraining(self, features, self.targets(people), weights / weights.sum())


@with_near_names
@dataclass(frozen=True)
class SoftmaxRegression(Linear):
    """Multinomial logistic regression: mean cross-entropy + l2/2 ‖W‖², free intercept.

    The same as scikit-learn's `LogisticRegression(C=1/(n·l2))`, which for two classes has a single logit.
    """

    l2: float = 1e-2
    name = "softmax-regression"
    steepest = 0.5
    equivariant = True

    def fixes_gauge(self, outputs: int) -> bool:
        """Softmax over several logits does not see a common constant."""
        return outputs > 1

    def why_no_minimum(
        self, parameters: Array, rows: Array, targets: Array, slope: float, flattest: Callable[[], float]
    ) -> str:
        """Look for a direction V along which the risk falls for ever: one that separates.

        V separates if (V_y − V_c)·x̃ ≥ 0 for everybody's class y and every class c, with > somewhere; x̃ = (x, 1). There
        every p_c (V_y − V_c)·x̃ is at most what the gradient says, so VᵀHV = Σ w̄ Var_p(V x̃) ≤ |gᵀV| max |(V_y − V_c)·x̃|
        ≤ 2 ‖g‖ ‖V‖² max ‖x̃‖. Where H bends more than that there is none.
        """
        longest = float(np.sqrt(1 + (rows**2).sum(axis=1).max()))
        if flattest() > 2 * slope * longest:
            return ""
        shares = targets if targets.shape[1] > 1 else np.column_stack([1 - targets, targets])
        matrix = parameters if len(parameters) > 1 else np.vstack([np.zeros_like(parameters), parameters])
        if not separates(matrix, rows, shares, self.intercept):
            return ""
        return "separates some of these people from the others perfectly, so its optimum is at infinity"

    def output_loss(self, outputs: Any, target: Any) -> Any:
        """Return log Σ e^z − yᵀz, for targets y on the simplex."""
        library, highest = library_of(outputs), _highest(outputs)
        total = library.exp(outputs - highest).sum(axis=0) + _reference(outputs, highest)
        return highest + library.log(total) - (target * outputs).sum(axis=0)

    def slopes(self, outputs: Any, target: Any) -> Any:
        """Return p − y."""
        return softmax(outputs) - target

    def bend(self, outputs: Any, target: Any, direction: Any) -> Any:
        """Return (diag p − p pᵀ) u."""
        shares = softmax(outputs)
        return shares * (direction - (shares * direction).sum(axis=0))

    def curvature(self, outputs: Any, target: Any) -> Any:
        """Return diag p − p pᵀ."""
        shares = softmax(outputs)
        return library_of(shares).eye(len(shares))[..., None] * shares - shares[:, None] * shares[None]


@with_near_names
@dataclass(frozen=True)
class Ridge(Linear):
    """Linear regression on real vectors: mean ½‖z − y‖² + l2/2 ‖W‖², free intercept.

    The same as scikit-learn's `Ridge(alpha=n·l2)`.
    """

    l2: float = 1e-2
    name = "ridge"
    quadratic = True
    steepest = 1.0
    equivariant = True
    regresses = True

    def output_loss(self, outputs: Any, target: Any) -> Any:
        """Return ½‖z − y‖²."""
        return 0.5 * ((outputs - target) ** 2).sum(axis=0)

    def slopes(self, outputs: Any, target: Any) -> Any:
        """Return z − y."""
        return outputs - target

    def bend(self, outputs: Any, target: Any, direction: Any) -> Any:
        """Return u: the curvature is the identity."""
        return direction

    def curvature(self, outputs: Any, target: Any) -> Any:
        """Return the identity for everyone."""
        library = library_of(outputs)
        return library.broadcast_to(library.eye(len(outputs))[..., None], (len(outputs), *outputs.shape))


@with_near_names
@dataclass(frozen=True)
class LinearSVM(Linear):
    """Linear support vector machine with the squared hinge, one against the rest: differentiable everywhere.

    Mean Σ_o max(0, 1 − t_o z_o)² + l2/2 ‖W‖² with t = 2y − 1: ±1 for labels, less for soft ones. With
    `penalise_intercept` it is scikit-learn's `LinearSVC(C=1/(n·l2))`, which penalises its intercept and so is not
    translation-equivariant.
    """

    l2: float = 1e-2
    penalise_intercept: bool = False
    name = "linear-svm"
    steepest = 2.0
    smooth = False
    margins = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag("penalise_intercept", self.penalise_intercept)

    def best_lengths(
        self, outputs: tuple[Array, Array], people: tuple[Array, Array], penalty: tuple[Array, Array]
    ) -> Array:
        """Search each machine's line exactly: machines share nothing, and along a line each is a piecewise parabola.

        With Newton directions that ends after finitely many steps (Keerthi and DeCoste 2005); without, active margins
        can go round in circles.
        """
        (at, ahead), (targets, weights) = outputs, people
        signs = 2 * targets - 1
        lines = zip(1 - signs * at, signs * ahead, *penalty, strict=True)
        return np.array([least_along(*line, weights) for line in lines])

    def why_no_minimum(
        self, parameters: Array, rows: Array, targets: Array, slope: float, flattest: Callable[[], float]
    ) -> str:
        """Look at those short of their margins: they alone bend the risk, so they must settle every parameter."""
        short = _shortfall(outputs_of(parameters, rows), targets.T) * np.abs(2 * targets.T - 1) > SHORT
        if not any(dependent(rows[some], self.intercept) for some in short):
            return ""
        return (
            "has no unique fit to these people, because those who are short of their margins are too few to settle it"
        )

    @property
    def equivariant(self) -> bool:  # type: ignore[override]
        """Whether shifting everyone changes nothing: only with a free intercept."""
        return not self.penalise_intercept

    def output_loss(self, outputs: Any, target: Any) -> Any:
        """Return Σ max(0, 1 − t z)² for targets that are 0 or 1 (t = 2y − 1)."""
        return (_shortfall(outputs, target) ** 2).sum(axis=0)

    def slopes(self, outputs: Any, target: Any) -> Any:
        """Return −2 t max(0, 1 − t z)."""
        return -2 * (2 * target - 1) * _shortfall(outputs, target)

    def bend(self, outputs: Any, target: Any, direction: Any) -> Any:
        """Return 2 t² u where the margin is violated, 0 elsewhere."""
        return _hinge_curvature(outputs, target) * direction

    def curvature(self, outputs: Any, target: Any) -> Any:
        """Return the diagonal 2 t² [margin violated]."""
        return library_of(outputs).eye(len(outputs))[..., None] * _hinge_curvature(outputs, target)


def single_output(targets: Any) -> Any:
    """Return class shares (n, k), but for two classes only the second's."""
    return targets[:, 1:] if targets.shape[1] == 2 else targets


def _shortfall(outputs: Any, target: Any) -> Any:
    return library_of(outputs).maximum(1 - (2 * target - 1) * outputs, 0.0)


def _hinge_curvature(outputs: Any, target: Any) -> Any:
    """Return 2 t² where the margin is violated, or met to rounding: support vectors of little weight stand there.

    Without these a Newton step would leave them out, and end before it has begun.
    """
    signs = 2 * target - 1
    return 2 * signs**2 * (1 - signs * outputs > -AT_MARGIN * (1 + abs(outputs)))


def softmax(outputs: Any) -> Any:
    """Return e^z / Σ e^z over the first axis, safely; a single logit is measured against a second one that is 0."""
    highest = _highest(outputs)
    exponentials = library_of(outputs).exp(outputs - highest)
    return exponentials / (exponentials.sum(axis=0) + _reference(outputs, highest))


def _highest(outputs: Any) -> Any:
    return outputs.max(axis=0) if len(outputs) > 1 else library_of(outputs).maximum(outputs[0], 0.0)


def _reference(outputs: Any, highest: Any) -> Any:
    """Return e^(0 − highest) for the logit that is not there where there is a single one."""
    return 0.0 if len(outputs) > 1 else library_of(outputs).exp(-highest)


def library_of(array: Any) -> Any:
    """Return the library that an array belongs to, so that NumPy arrays need no JAX."""
    if isinstance(array, np.ndarray):
        return np
    import jax.numpy as jnp

    return jnp


def least_along(short: Array, gain: Array, slope: float, bend: float, weights: Array) -> float:
    """Return t ≥ 0 where Σ w̄ max(0, short − t gain)² + slope t + bend t²/2 is least; 1 where rounding hides it.

    A squared hinge along a line is a piecewise parabola. Its derivative rises, and is straight between neighbours among
    the t at which somebody meets the margin: bisect for the two between which it changes sign.
    """

    def line(length: float) -> tuple[float, float]:
        """Return the derivative's value at 0 and its rise, extended from `length`."""
        counted = short > length * gain
        pull = weights[counted] * gain[counted]
        return slope - 2 * float(pull @ short[counted]), bend + 2 * float(pull @ gain[counted])

    meets = np.divide(short, gain, out=np.zeros_like(short), where=(gain != 0) & (weights > 0))
    stops = np.append(0.0, np.unique(meets[(meets > 0) & np.isfinite(meets)]))
    low, high = 0, len(stops)  # the derivative is negative at `low` and not at `high`
    while high - low > 1:
        middle = (low + high) // 2
        value, rise = line(stops[middle])
        low, high = (middle, high) if value + rise * stops[middle] < 0 else (low, middle)
    end = stops[high] if high < len(stops) else 2 * stops[low] + 2
    value, rise = line(0.5 * (stops[low] + end))
    if not rise > 0:
        return 1.0
    return float(np.clip(-value / rise, stops[low], end if high < len(stops) else np.inf))


@lru_cache(maxsize=64)
def compiled(model: Linear, kind: str) -> Callable[..., Any]:
    """Compile one kind of pass over chunks (chunks, rows, …); compiled once for each shape, and kept."""
    import jax

    one = KINDS[kind]

    def over_chunks(features: Any, targets: Any, weights: Any, *arguments: Any) -> Any:
        chunks = features, targets, weights

        def each(*chunk: Any) -> Any:
            return one(model, chunk, *arguments)

        if kind == "scores":
            return jax.lax.map(lambda chunk: each(*chunk), chunks)
        shapes = jax.eval_shape(each, *(array[0] for array in chunks))
        return added_up(each, chunks, jax.tree.map(jax.numpy.zeros_like, shapes))

    return jax.jit(over_chunks)


def outputs_of(parameters: Any, rows: Any) -> Any:
    """Return W x + b for every row: (o, rows)."""
    return parameters[:, :-1] @ rows.T + parameters[:, -1:]


def weighted_sum(model: Linear, values: Any, rows: Any) -> Any:
    """Return Σ_n values_on (x_n, 1): (o, d + 1)."""
    sums = values.sum(axis=1, keepdims=True)
    return library_of(rows).concatenate([values @ rows, sums if model.intercept else 0.0 * sums], axis=1)


def _risk(model: Linear, chunk: Chunk, parameters: Any) -> Any:
    """Mean loss and its gradient: Σ w̄ φ and Σ w̄ a ⊗ (x, 1)."""
    rows, target, weight = chunk
    out = outputs_of(parameters, rows)
    loss = (weight * model.output_loss(out, target.T)).sum()
    return loss, weighted_sum(model, model.slopes(out, target.T) * weight, rows)


def _product(model: Linear, chunk: Chunk, parameters: Any, direction: Any) -> Any:
    """Hessian of the mean loss times a direction: Σ w̄ B u ⊗ (x, 1)."""
    rows, target, weight = chunk
    bent = model.bend(outputs_of(parameters, rows), target.T, outputs_of(direction, rows))
    return weighted_sum(model, bent * weight, rows)


def _hessian(model: Linear, chunk: Chunk, parameters: Any) -> Any:
    """Hessian of the mean loss: Σ w̄ B ⊗ (x, 1)(x, 1)ᵀ, as (o, d + 1, o, d + 1)."""
    rows, target, weight = chunk
    library, extended = library_of(rows), _extended(model, rows)
    curvature = model.curvature(outputs_of(parameters, rows), target.T) * weight

    # One output's rows of H at a time, so that memory stays O(rows · parameters).
    def block(bend: Any) -> Any:
        return ((bend[:, :, None] * extended).swapaxes(1, 2) @ extended).swapaxes(0, 1)

    if library is np:
        return np.stack([block(bend) for bend in curvature])
    import jax

    return jax.lax.map(block, curvature)


def _gram(model: Linear, chunk: Chunk) -> Any:
    """Σ w̄ (x, 1)(x, 1)ᵀ, (d + 1, d + 1)."""
    rows, _, weight = chunk
    extended = _extended(model, rows)
    return (extended * weight[:, None]).T @ extended


def _extended(model: Linear, rows: Any) -> Any:
    library = library_of(rows)
    return library.concatenate([rows, library.full((rows.shape[0], 1), float(model.intercept))], axis=1)


def _scores(model: Linear, chunk: Chunk, parameters: Any, signal: Any, weights: Any, along: Any) -> Any:
    """∇_x s for everyone: Vᵀa + Wᵀ B u, as (rows, r), with the columns of W and V that are asked for."""
    rows, target, _ = chunk
    out = outputs_of(parameters, rows)
    slopes, bent = model.slopes(out, target.T), model.bend(out, target.T, outputs_of(signal, rows))
    return slopes.T @ along + bent.T @ weights


class LinearScore:
    """A member's score, s(x) = vᵀ∇_θ ℓ(θ; x, y), for z = W x + b: s = aᵀu and ∇_x s = Vᵀa + WᵀB u, without JAX."""

    def __init__(self, model: Linear, parameters: Array, signal: Array) -> None:
        """Keep θ and v, flat; their shape is found from the rows."""
        self._model, self._parameters, self._signal = model, parameters, signal

    def __call__(self, rows: Array, targets: Array) -> tuple[Array, Array]:
        """Return s (n,) and ∇_x s (n, d)."""
        theta, signal = (flat.reshape(-1, rows.shape[1] + 1) for flat in (self._parameters, self._signal))
        outputs, along = outputs_of(theta, rows), outputs_of(signal, rows)
        slopes, bent = self._model.slopes(outputs, targets.T), self._model.bend(outputs, targets.T, along)
        return (slopes * along).sum(axis=0), slopes.T @ signal[:, :-1] + bent.T @ theta[:, :-1]

    def entries(self) -> list[LinearScore]:
        """Return the score of each entry of v alone, as s is linear in v: Σ_j v_j times these is this one."""
        return [LinearScore(self._model, self._parameters, unit) for unit in np.eye(self._signal.size)]


KINDS: dict[str, Callable[..., Any]] = {
    "risk": _risk,
    "product": _product,
    "hessian": _hessian,
    "gram": _gram,
    "scores": _scores,
}
"""Kinds of passes over people who are a single chunk: NumPy arrays, or JAX's inside of what it compiles."""

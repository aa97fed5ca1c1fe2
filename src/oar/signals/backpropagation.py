"""Gradient descent with momentum, run forwards and differentiated backwards.

Forwards, from θ_0 and m_0 = 0:

    m_{t+1} = β m_t − η ∇R(θ_t)            θ_{t+1} = θ_t + m_{t+1}

Backwards, with λ_T = ∇_θ L(θ_T) and μ_T = 0 the derivatives of L with respect to θ and m:

    μ ← μ + λ          v_t = η μ at θ_t          λ ← λ − η H_t μ          μ ← β μ

Without momentum this is v_t = η λ_{t+1}, λ_t = (I − η H_t) λ_{t+1}. Member i's move enters ∇R(θ_t) at every t, so

    dL/dδ_i = −w̄_i Σ_t ∇_x s_i(θ_t; v_t).

The path is needed in reverse order. Only every `every`-th state is kept, and the stretch between two of them is run
again when the way back comes to it: with every ≈ √T, memory is 2√T states for one more gradient pass a step.
(Checkpoints rather than running the optimiser itself backwards, as Maclaurin et al. do: nothing is lost to rounding.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.errors import NumericsError
from oar.models.training import Array, Training

ALL_KEPT = 1 << 23  # floats; a path that fits into 64 MB is kept whole
COLD, WARM = 12, 2  # power iterations without and with the direction of an earlier estimate
SAFETY = 1.1  # power iteration looks from below
RUNAWAY = 1e30  # no model's parameters are this large


@dataclass(frozen=True)
class Descent:
    """The settings of the unrolled optimiser: T steps of η with momentum β, keeping every `every`-th state."""

    steps: int
    step: float
    momentum: float
    every: int


@dataclass(frozen=True, eq=False)
class Unrolling:
    """The result of an unrolled descent: θ_T, the query's loss there, (dL/dδ_i) / w̄_i (n, d) of it, and Σ_t v_t.

    The last tends to H⁻¹ g as T grows.
    """

    last: Array
    loss: float
    gradient: Array
    signal: Array


def spacing(steps: int, parameter_count: int) -> int:
    """Return how far apart states are kept: each of them where they fit into memory, otherwise every √T-th.

    >>> spacing(400, 15), spacing(400, 10_000_000)
    (1, 20)
    """
    return 1 if 2 * steps * parameter_count <= ALL_KEPT else math.isqrt(steps - 1) + 1


def unroll(training: Training, features: Any, start: Array, descent: Descent, query: Array, target: Array) -> Unrolling:
    """Run T steps from `start` on the moved features, and differentiate the query's loss at the end of them."""
    state, kept = (start, np.zeros_like(start)), []
    for begin in range(0, descent.steps, descent.every):
        kept.append(state)
        state = _stretch(training, features, descent, state, min(descent.every, descent.steps - begin))[-1]
    last = state[0]
    loss, pull, _ = training.goal(last, query, target)
    if not math.isfinite(loss):
        raise _diverged(descent)

    by_parameters, by_momentum, total = pull, np.zeros_like(pull), np.zeros_like(pull)
    gradient: Array | float = 0.0
    for number, parameters in _backwards(training, features, descent, kept):
        by_momentum = by_momentum + by_parameters
        signal = descent.step * by_momentum
        gradient = gradient - training.score_gradients(parameters, features, signal)
        total = total + signal
        if number > 0:  # nothing lies before θ_0
            by_parameters = by_parameters - training.product(parameters, features, signal)
        by_momentum = descent.momentum * by_momentum
    return Unrolling(last, loss, np.asarray(gradient), total)


def _stretch(
    training: Training, features: Any, descent: Descent, state: tuple[Array, Array], steps: int
) -> list[tuple[Array, Array]]:
    """Run some steps; return the states at their ends."""
    parameters, momentum = state
    states = []
    for _ in range(steps):
        _, gradient = training.risk_gradient(parameters, features)
        momentum = descent.momentum * momentum - descent.step * gradient
        parameters = parameters + momentum
        if not np.abs(parameters).max() < RUNAWAY:
            raise _diverged(descent)
        states.append((parameters, momentum))
    return states


def _backwards(
    training: Training, features: Any, descent: Descent, kept: list[tuple[Array, Array]]
) -> Iterator[tuple[int, Array]]:
    """Yield t and θ_t for t = T − 1, …, 0, running each stretch between kept states once more."""
    stop = descent.steps
    for begin, state in reversed(list(zip(range(0, descent.steps, descent.every), kept, strict=True))):
        states = [state, *_stretch(training, features, descent, state, stop - begin - 1)]
        yield from zip(range(stop - 1, begin - 1, -1), (parameters for parameters, _ in reversed(states)), strict=True)
        stop = begin


def _diverged(descent: Descent) -> NumericsError:
    return NumericsError(
        f"step: must be below 2/‖H‖ for gradient descent to converge, got {descent.step:.3g}, which diverges: "
        "give a smaller step, or None to have it estimated."
    )


def sharpness(
    training: Training, parameters: Array, features: Any, earlier: Array | None = None
) -> tuple[float, Array]:
    """Estimate ‖H‖, the sharpness of the risk, which bounds every stable step η < 2/‖H‖; return it, and a direction.

    It is H's largest |eigenvalue| at θ and moved features, by power iteration. The next estimate may start from the
    direction that was found, as this one does from an `earlier` one.
    """
    # A random start is orthogonal to the leading direction with probability zero; the seed keeps runs alike.
    rounds = WARM
    if earlier is None:
        earlier, rounds = np.random.default_rng(0).standard_normal(parameters.size), COLD
    direction = earlier / np.linalg.norm(earlier)
    size = 0.0
    for _ in range(rounds):
        image = training.product(parameters, features, direction)
        size = float(np.linalg.norm(image))
        if size == 0.0:
            break
        direction = image / size
    return SAFETY * size, direction

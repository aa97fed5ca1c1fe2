"""The interface of signals: what a signal maker is given and what it returns, and the choice among them.

A round of the outer loop has two halves, and only the second differs from maker to maker:

    outcome = refit(training, moves, query, target, memory, tolerance)     the loss, at a true refit
    step    = signal.differentiate(training, outcome, memory)              where the moves should go from there

A line search judges its trial points by the first half alone, so it never trusts an approximation; and a maker cannot
report a loss of its own making, because it is handed the outcome. `signal.at(...)` does both halves.

**Gradients** are (n, d) rows −∇_x s_i, that is (dL/dδ_i) / w̄_i: the gradient in the metric Σ w̄_i ‖δ_i‖², in which the
outer loop measures moves. Members of no weight have one too, and it moves nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from oar.checks import check_that, choose, is_number, is_whole
from oar.errors import OptionError
from oar.models.training import Array, Fit, Training


@dataclass(frozen=True, eq=False)
class Memory:
    """The memory that one round leaves to the next as a warm start; None means a cold start."""

    parameters: Array  # θ of the last true refit
    signal: Array | None = None  # v of the last round, if the signal has one
    own: Any = None  # the signal's own state, without meaning for others
    maker: str | None = None  # the signal whose memory it is


@dataclass(frozen=True, eq=False)
class Outcome:
    """The outcome for the query of the operator's retraining on the moved data."""

    moves: Array | None  # (n, d), or None where nobody moves
    query: Array  # x† (d,)
    target: Array  # the goal's (o,)
    fit: Fit  # the true refit θ*
    loss: float  # L(θ*)
    pull: Array  # the gradient g = ∇_θ L(θ*), (p,)
    query_slope: Array  # the gradient ∇_x† L(θ*), (d,)
    own_slopes: Array | None = None  # ∂L/∂δ_i (n, d) of members who are queries themselves, other than through θ

    @property
    def outcome(self) -> Outcome:
        """The outcome itself, as of a step: whoever keeps either of them asks alike."""
        return self


@dataclass(frozen=True, eq=False)
class Step:
    """A gradient, the outcome that it starts from, and what to remember."""

    outcome: Outcome  # the true refit and the query's loss there
    gradient: Array  # −∇_x s_i for everyone (n, d); weights not included
    signal: Array | None  # v (p,), which with θ is all that a member needs; None where there is no single v
    memory: Memory  # to be passed to the next round
    own_loss: float | None  # the loss whose gradient this is, where that is not the outcome's (unrolled: at θ_T)
    note: str  # one sentence on how the gradient was computed and how accurate it is

    @property
    def loss(self) -> float:
        """The query's loss at the true refit."""
        return self.outcome.loss

    @property
    def fit(self) -> Fit:
        """The true refit."""
        return self.outcome.fit

    @property
    def members(self) -> Array:
        """The gradient in the members' moves (n, d), with what those who ask gain by moving themselves."""
        own = self.outcome.own_slopes
        return self.gradient if own is None else self.gradient + own

    @property
    def slopes(self) -> Array:
        """The gradient in everyone's move (n + 1, d): the members' rows, then the query's."""
        return np.concatenate([self.members, self.outcome.query_slope[None]])


class Signal(ABC):
    """Base class of signals: ways of differentiating through training, as frozen dataclasses of settings."""

    name: ClassVar[str]  # by which users choose it
    exact: ClassVar[bool] = False  # whether its gradient is that of the true refit's loss, up to solver tolerances
    needs: ClassVar[tuple[str, ...]]  # the methods of `Training` that it calls

    def refusal(self, training: Training) -> str | None:
        """Return why this maker cannot work with this training; None if it can."""
        missing = [method for method in self.needs if not callable(getattr(training, method, None))]
        if not missing:
            return None
        return f"{type(training).__name__} has no {', '.join(f'`{method}`' for method in missing)}"

    def own(self, memory: Memory | None) -> Any:
        """Return what this maker kept for itself; None where there is nothing, or where another maker left it."""
        return memory.own if memory is not None and memory.maker == self.name else None

    @abstractmethod
    def differentiate(self, training: Training, outcome: Outcome, memory: Memory | None) -> Step:
        """Return the gradient at an outcome."""

    def at(
        self,
        training: Training,
        moves: Array | None,
        query: Array,
        target: Array,
        memory: Memory | None = None,
        tolerance: float = 1e-8,
    ) -> Step:
        """Refit to `tolerance` and differentiate there; refuse what cannot work."""
        _check_applies(self, training)
        return self.differentiate(training, refit(training, moves, query, target, memory, tolerance), memory)


def refit(
    training: Training,
    moves: Array | None,
    query: Array,
    target: Array,
    memory: Memory | None = None,
    tolerance: float = 1e-8,
) -> Outcome:
    """Retrain on the moved data, from the last refit if there is one, and compute the goal loss there."""
    start = training.start() if memory is None else memory.parameters
    fit = training.fit(training.moved(moves), start, tolerance)
    judged = getattr(training, "goal_after", lambda *_: None)(fit.parameters, moves)
    if judged is None:
        return Outcome(moves, query, target, fit, *training.goal(fit.parameters, query, target))
    loss, pull, own = judged
    # Members who weigh nothing may not move, so what they would gain does not matter.
    own = own / np.where(training.weights > 0, training.weights, 1.0)[:, None]
    return Outcome(moves, query, target, fit, loss, pull, np.zeros_like(query), own)


SIGNALS: dict[str, type[Signal]] = {}
"""Every signal by its name, in the order in which messages list them; `oar.signals` fills it."""
FACTORED = 2_000  # parameters up to which a factor of H makes tight solves nearly free
SOLVED = 1_000_000  # parameters up to which a looser solve is still worth its products


def as_signal(signal: Any, training: Training) -> tuple[Signal, str]:
    """Return the signal of a name or settings, with one sentence on why it is used."""
    if isinstance(signal, str):
        name = choose("signal", signal, ["auto", *SIGNALS])
        if name == "auto":
            return choose_signal(training)
        signal = SIGNALS[name]()
    if not isinstance(signal, Signal):
        names = ", ".join(repr(name) for name in ("auto", *SIGNALS))
        kinds = ", ".join(f"oar.signals.{kind.__name__}" for kind in SIGNALS.values())
        raise OptionError(f"signal: must be one of {names}, or settings such as {kinds}; got {signal!r}.")
    _check_applies(signal, training)
    return signal, f"Signal: {signal.name}, as asked for."


def _check_applies(signal: Signal, training: Training) -> None:
    reason = signal.refusal(training)
    if reason:
        raise OptionError(f"signal: {signal.name!r} does not apply here: {reason}. Or use signal='auto'.")


def choose_signal(training: Training) -> tuple[Signal, str]:
    """Choose a signal by the training's capabilities and number of parameters; return it and one sentence on why."""
    refusals = []
    for name, settings, reason in _candidates(training.parameter_count):
        signal = SIGNALS[name](**settings)
        refusal = signal.refusal(training)
        if not refusal:
            return signal, f"Signal: {signal.name}, because {reason}."
        refusals.append(f"{signal.name}: {refusal}")
    raise OptionError(f"signal: none applies to this training ({'; '.join(refusals)}).")


def _candidates(count: int) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield names of signals for `count` parameters, their settings and what speaks for each, the best first."""
    if count <= FACTORED:
        yield "implicit", {}, f"with {count:,} parameters H v = g is cheap to solve, and the gradient is exact"
    elif count <= SOLVED:
        why = f"with {count:,} parameters H v = g is solved by conjugate gradients, to 1e-4"
        yield "implicit", {"tolerance": 1e-4}, why
    else:
        why = f"with {count:,} parameters a solve is out of reach, and a short series points nearly the same way"
        yield "neumann", {"terms": 20}, why
    yield "unrolled", {}, "it can be run step by step, but H cannot be solved with"
    yield "hypernetwork", {}, "training can be refitted, but not differentiated"


def caution(fit: Fit) -> str:
    """Return a warning to add to a note where the refit fell short of what was asked for."""
    return "" if fit.converged else f" The refit stopped short, with a gradient of norm {fit.residual:.1e}."


def check_count(name: str, value: object, least: int = 1) -> None:
    """Refuse anything but a whole number from `least` on."""
    check_that(is_whole(value) and value >= least, name, f"a whole number ≥ {least}", value)


def check_positive(name: str, value: object) -> None:
    """Refuse anything but a finite number above 0."""
    check_that(is_number(value) and 0 < value < np.inf, name, "a finite number > 0", value)


def check_given(check: Callable[[str, object], None], name: str, value: object) -> None:
    """Refuse what a check refuses, but for None, which leaves the choice to the signal."""
    if value is not None:
        check(name, value)


def check_share(name: str, value: object) -> None:
    """Refuse anything but a number of at least 0 and below 1."""
    check_that(is_number(value) and 0 <= value < 1, name, "a number of at least 0 and below 1", value)

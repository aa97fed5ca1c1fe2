"""Signals as users name them: a string, an immutable bag of settings, or "auto"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oar.errors import OptionError, choose
from oar.models.training import Training
from oar.signals.alternating import Alternating
from oar.signals.base import Signal
from oar.signals.gradient_matching import GradientMatching
from oar.signals.hypernetworks.signal import Hypernetwork
from oar.signals.implicit import Implicit
from oar.signals.neumann import Neumann
from oar.signals.unrolled import Unrolled

SIGNALS: dict[str, type[Signal]] = {
    kind.name: kind for kind in (Implicit, Neumann, Unrolled, Alternating, GradientMatching, Hypernetwork)
}
FACTORED = 2_000  # parameters up to which a factor of H makes tight solves nearly free
SOLVED = 1_000_000  # parameters up to which a looser solve is still worth its products


def as_signal(signal: Any, training: Training) -> tuple[Signal, str]:
    """Read a signal's name or settings; return it with one sentence on why it is used."""
    if isinstance(signal, str):
        name = choose("signal", signal, ["auto", *SIGNALS])
        if name == "auto":
            return choose_signal(training)
        signal = SIGNALS[name]()
    if not isinstance(signal, Signal):
        names = ", ".join(repr(name) for name in ("auto", *SIGNALS))
        kinds = ", ".join(f"oar.signals.{kind.__name__}" for kind in SIGNALS.values())
        raise OptionError(f"signal: must be one of {names}, or settings such as {kinds}; got {signal!r}.")
    reason = signal.refusal(training)
    if reason:
        raise OptionError(f"signal: {signal.name!r} does not apply here: {reason}. Or use signal='auto'.")
    return signal, f"Signal: {signal.name}, as asked for."


def choose_signal(training: Training) -> tuple[Signal, str]:
    """Choose by what the training can do and how many parameters it has; return the signal and one sentence on why."""
    refusals = []
    for kind, settings, reason in _candidates(training.parameter_count):
        signal = kind(**settings)
        refusal = signal.refusal(training)
        if not refusal:
            return signal, f"Signal: {signal.name}, because {reason}."
        refusals.append(f"{signal.name}: {refusal}")
    raise OptionError(f"signal: none applies to this training ({'; '.join(refusals)}).")


def _candidates(count: int) -> Iterator[tuple[type[Signal], dict[str, Any], str]]:
    """Yield kinds of signals for `count` parameters, their settings and what speaks for each, the best first."""
    if count <= FACTORED:
        yield Implicit, {}, f"with {count:,} parameters H v = g is cheap to solve, and the gradient is exact"
    elif count <= SOLVED:
        why = f"with {count:,} parameters H v = g is solved by conjugate gradients, to 1e-4"
        yield Implicit, {"tolerance": 1e-4}, why
    else:
        why = f"with {count:,} parameters a solve is out of reach, and a short series points nearly the same way"
        yield Neumann, {"terms": 20}, why
    yield Unrolled, {}, "it can be run step by step, but H cannot be solved with"
    yield Hypernetwork, {}, "training can be refitted, but not differentiated"

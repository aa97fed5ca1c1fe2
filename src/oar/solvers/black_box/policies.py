"""Policies of few numbers: from a point that a search tries to what every member does, within its own limits.

    classes   δ_i = P_i(m_i + b_iᵀ S)       m the moves it starts from, b_i the person's class (of values: 1 and the
                                            standardised value), S one shift a class, P_i the person's own limits
    signal    δ_i = answer_i(Σ_j a_j v_j)   the surrogates' signals, each member's best response to their sum

On a table moves are whole: there b_iᵀ S is added to the slopes that members respond to. Numbers are scaled so that 1 is
a move of about everyone's budget, and a search may start with steps of about 0.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from oar.models.linear.losses import Linear
from oar.models.score import LinearScore
from oar.models.wrap.scaled import unscaled
from oar.solvers.black_box.surrogate.planning import Outlook
from oar.solvers.black_box.surrogate.signals import Answers, ProxySignal

Array = NDArray[np.float64]
ENTRIES = 12  # of a linear surrogate's signal, up to which each is searched over


class Policy(Protocol):
    """What is searched over."""

    start: Array
    """Where the search begins."""

    def moves(self, point: Array) -> Array:
        """Return everyone's move (n, d)."""
        ...


class ClassShifts:
    """A shift for each class, added to the moves that the search starts from."""

    def __init__(self, answers: Answers, outlook: Outlook | None) -> None:
        self._answers, problem = answers, answers.problem
        size, width = len(answers.features), answers.width
        if problem.regresses:
            values = answers.labels.mean(axis=1)
            spread = float(values.std()) or 1.0
            self._basis = np.column_stack([np.ones(size), (values - values.mean()) / spread])
        else:
            self._basis = answers.labels
        self.start = np.zeros(self._basis.shape[1] * width)
        self._base = np.zeros((size, width))
        if answers.measured is None:
            self._scale = float(answers.budgets.max(initial=0.0)) / np.sqrt(width)
            if outlook is not None:
                self._base = outlook.deed.moves
        else:
            self._scale = 1.0
            if outlook is not None and outlook.moved:
                slopes = answers.in_cost(answers.scored(outlook.moved, outlook.deed.moves)[1])
                self._base = slopes / (np.abs(slopes).mean() or 1.0)

    def moves(self, point: Array) -> Array:
        """Return everyone's move."""
        shifts = self._basis @ point.reshape(self._basis.shape[1], -1)
        aims, answers = self._base + self._scale * shifts, self._answers
        if answers.measured is None:
            return answers.problem.allowance.norm.project(aims, answers.budgets)
        return answers.respond(aims)


class SignalAnswers:
    """Weights of signals, or the entries of one; members answer their sum, once from where the plan left them."""

    def __init__(self, answers: Answers, outlook: Outlook) -> None:
        self._answers, self._at = answers, outlook.deed.moves
        signals = (*outlook.moved, *outlook.still) if outlook.deed.moves.any() else outlook.moved
        entries = _entries(outlook.moved[0])
        spread = [self._slopes(one, None) for one in signals]
        if entries is not None and len(entries) <= ENTRIES:
            spread += [self._slopes(one, self._at) for one in entries]
        sizes = np.array([np.abs(one).mean() for one in spread])
        felt = sizes > 0  # a signal that nobody feels cannot be answered
        self._spread = np.array([one / size for one, size in zip(spread, sizes, strict=True) if size > 0])
        # The plan's own signal: a sum of all surrogates' slopes, as large as they are beside each other
        start = np.where(np.arange(sizes.size) < len(outlook.moved), sizes, 0.0)
        self.start = start[felt] / max(start.max(), np.finfo(float).tiny)

    def _slopes(self, signal: ProxySignal, moves: Array | None) -> Array:
        return self._answers.in_cost(self._answers.scored([signal], moves)[1])

    def moves(self, point: Array) -> Array:
        """Return everyone's move."""
        # Without BLAS: its threads would wait for those that the black box's training has left spinning.
        return self._answers.respond(np.einsum("j,jnr->nr", point, self._spread))


def _entries(signal: ProxySignal) -> list[ProxySignal] | None:
    """Return a linear surrogate's score for each entry of v alone: s is linear in v; None for other models."""
    model = unscaled(signal.model)
    if not isinstance(model, Linear) or not isinstance(signal.score, LinearScore):
        return None
    return [ProxySignal(signal.model, one, signal.centres, signal.scales) for one in signal.score.entries()]


def policies(kind: str, answers: Answers, outlook: Outlook | None) -> Iterator[tuple[str, Policy]]:
    """Yield the policy that is asked for, with its name; for "auto" signals where there are any, and then shifts."""
    if kind in ("auto", "signal") and outlook is not None and outlook.moved:
        answered = SignalAnswers(answers, outlook)
        if answered.start.size:
            yield "signal", answered
            if kind == "signal":
                return
    yield "classes", ClassShifts(answers, outlook)

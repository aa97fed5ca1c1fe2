"""Refits as update rules, θ_t = argmin R(θ; those who are read), and what other rules share with them.

θ* = argmin R(θ; X) has ∇R(θ*; X) = 0 whatever the moves, so it moves with them by dθ* = −w̄_i H⁻¹ ∂_x∇_θ ℓ_i dδ_i. With
v = H⁻¹ λ, dL/dδ_i = −w̄_i ∇_x s_i(θ*; v): the implicit signal, once a round. Where the fit started makes no difference.

What rules need of the people whom they read (some weight, every class) and of their settings is checked here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from oar.checks import check_flag, check_whole, is_number, with_near_names
from oar.errors import DataError, NumericsError, OptionError
from oar.models.training import Array, Fit
from oar.models.wrap.scaled import ScaledTraining
from oar.online.rules.protocol import PulledBack, Update
from oar.online.stream import HISTORY, Stream
from oar.tolerances import CONVERGED, TIGHT

SOLVED = 1e-10  # the residual of H v = λ, as a share of ‖λ‖


def refitted(update: Update, rule: str, warm: bool = False) -> Array:
    """Return θ* of everyone whom the update reads.

    A model of one minimum is fitted from θ before, which is only quicker; one of many from its own start, so that θ* is
    a function of the data alone, unless `warm`.
    """
    check_present(update, rule)
    return fitted(update, rule, warm)


def fitted(update: Update, rule: str, warm: bool = False) -> Array:
    """Return θ* where every class need not be there, as for nearest centroid, where an absent class stays as it was."""
    training, start, model = update.training, update.before, getattr(update.training, "model", None)
    if isinstance(training, ScaledTraining):  # in units of its own, in which no other round's θ means anything
        start, model = update.near, training.inner.model
    if start is None or not (warm or getattr(model, "convex", True)):
        start = training.start()
    found = training.fit(update.features, start, TIGHT)
    if not found.residual <= CONVERGED:
        raise NumericsError(
            f"rule: {rule} must refit to a gradient norm of {CONVERGED:.0e} or less, got {found.residual:.1e} in "
            f"{round_words(update.number)}; a larger penalty or standardised features make training easier."
        )
    return np.asarray(found.parameters)


def check_present(update: Update, rule: str) -> None:
    """Raise where nobody of some class is read."""
    if not update.classes:
        return
    training = update.training
    totals = training.weights @ training.targets
    if totals.size == 1 and len(update.classes) == 2:  # a single output stands for the second class
        totals = np.append(1 - totals, totals)
    check_classes(rule, totals, update.classes, update.number)


def pulled_through(update: Update, minimum: Array, adjoint: Array) -> tuple[Array, Array]:
    """Return dL/dδ (m, d) and v (p,) for the adjoint (p,) of a refit that ended at `minimum`."""
    training = update.training
    signal = training.solve(Fit(minimum, update.features, 0.0, True), adjoint, None, SOLVED)
    return moved_by(update, minimum, signal), signal


def moved_by(update: Update, parameters: Array, signal: Array) -> Array:
    """Return −w̄_i ∇_x s_i(θ; v) for everyone whom the update reads."""
    training = update.training
    return -training.weights[:, None] * training.score_gradients(parameters, update.features, signal)


def round_words(number: int) -> str:
    """Return what a round is called.

    >>> round_words(2), round_words(-1)
    ('round 2', 'the history')
    """
    return "the history" if number == HISTORY else f"round {number}"


def check_classes(rule: str, totals: Array, classes: tuple[Any, ...], number: int) -> None:
    """Raise where a rule refits and some class weighs nothing; `totals` (k,) are the classes' weights."""
    for code in np.flatnonzero(~(totals > 0)):
        raise DataError(
            f"stream: {rule} refits in {round_words(number)}, for which it reads nobody of class {classes[code]!r}; "
            "add people of that class to the batch, read more batches (a longer Window, or FullRefit), or use a rule "
            "that needs no full batch (GradientSteps, FineTune)."
        )


def check_every_class(rule: str, reads: int | None, stream: Stream, model: Any, rounds: Iterable[int]) -> None:
    """Raise where a rule that refits reads no one of some class in one of these rounds."""
    if getattr(model, "regresses", False):
        return
    totals = class_totals(stream)
    for number in rounds:
        check_classes(rule, read_in(totals, reads, number), stream.people.classes, number)


def read_in(totals: Array, reads: int | None, number: int) -> Array:
    """Return the sum of batches' totals (1 + T, …), history first, over those that a rule reads in a round."""
    first = max(0, number - reads + 2) if reads else 0  # round t is row t + 1
    return np.asarray(totals[first : number + 2].sum(axis=0))


def class_totals(stream: Stream) -> Array:
    """Return each batch's weight by class, (1 + T, k), history first; a soft label counts by its shares."""
    people, batch = stream.people, stream.when + 1
    weights = people.row_weights
    totals = np.zeros((stream.rounds + 1, len(people.classes)))
    if people.has_label_rows:
        np.add.at(totals, batch, weights[:, None] * people.class_rows())
    else:
        np.add.at(totals, (batch, people.codes(0, people.size)), weights)
    return totals


def check_weights(reads: int | None, stream: Stream) -> None:
    """Raise where everybody whom a rule reads weighs nothing."""
    if stream.people.weights is None:
        return
    totals = np.bincount(stream.when + 1, stream.people.weights, stream.rounds + 1).astype(np.float64)
    for number in range(stream.rounds):
        if not read_in(totals, reads, number) > 0:
            raise DataError(
                f"weights: somebody whom the rule reads in round {number} must weigh something, got 0 for all."
            )


def check_positive(argument: str, value: Any) -> None:
    """Refuse anything but a finite number above 0.

    >>> check_positive("rate", 0)
    Traceback (most recent call last):
    oar.errors.DataError: rate: must be a number above 0, got 0.
    """
    if not (is_number(value) and math.isfinite(value) and value > 0):
        raise DataError(f"{argument}: must be a number above 0, got {value!r}.")


def check_share(argument: str, value: Any) -> None:
    """Refuse anything but a number above 0 and at most 1."""
    if not (is_number(value) and 0 < value <= 1):
        raise DataError(f"{argument}: must be a number above 0 and at most 1, got {value!r}.")


def check_begun(rule: str, model: Any, started: bool) -> None:
    """Raise where a rule must begin somewhere, and neither the model nor anybody says where."""
    if model.keeps_absent and not started:
        raise OptionError(
            f"start: {rule} begins at what was deployed before, and nearest centroid has no start of its own; give the "
            "stream a history, or the problem a start (centroids)."
        )


class OfTheNewest:
    """What rules have in common that go on from the last θ with the newest batch alone."""

    name: ClassVar[str]
    reads: ClassVar[int | None] = 1

    def check(self, stream: Stream, model: Any, started: bool) -> None:
        """Raise where there is nowhere to begin."""
        check_begun(self.name, model, started)


def last_or_start(update: Update, rule: str) -> Any:
    """Return θ before, or the model's own start where nothing was deployed."""
    if update.before is not None:
        return update.before
    check_begun(rule, update.training.model, started=False)
    return update.training.start()


class _Refit:
    """What both have in common: θ_t depends on θ_{t−1} in no way that can be differentiated."""

    name: ClassVar[str]
    reads: ClassVar[int | None]
    warm: bool

    def __post_init__(self) -> None:
        """Refuse settings that cannot be."""
        check_flag("warm", self.warm)

    @property
    def remembers(self) -> bool:
        """Whether θ before is needed: of a model with many minima, to say which one a warm refit goes to."""
        return self.warm

    def check(self, stream: Stream, model: Any, started: bool) -> None:
        """Raise where some round lacks a class, or where `warm` would do nothing."""
        if self.warm and getattr(model, "convex", True):
            raise OptionError(
                f"warm: does nothing for {model.name}, which has one minimum wherever it starts; leave it out."
            )
        if self.warm and getattr(model, "train", None) is not None:
            raise OptionError(
                f"warm: does nothing for {model.name}, whose own `train` starts from its module as given; leave it out."
            )
        check_every_class(self.name, self.reads, stream, model, range(stream.rounds))

    def update(self, update: Update) -> Array:
        """Refit."""
        return refitted(update, self.name, self.warm)

    def kept_share(self, class_weights: Array, started: bool) -> Array:
        """Return κ of μ_c ← κ_c μ_c + (1 − κ_c) mean_c: nothing is kept."""
        return np.zeros_like(class_weights)

    def pull_back(self, update: Update, after: Array, adjoint: Array) -> PulledBack:
        """Solve H v = λ_t; nothing goes on to θ_{t−1}."""
        check_present(update, self.name)
        moves, signal = pulled_through(update, after, adjoint)
        return PulledBack(np.zeros_like(adjoint), moves, ((after, signal),))


@with_near_names
@dataclass(frozen=True)
class FullRefit(_Refit):
    """Refit from everything so far, history included.

    Args:
        warm: for models with many minima: start from the last θ rather than from the model's own start. θ_{t−1} then
            selects the minimum, and does not shift it.
    """

    warm: bool = False
    name: ClassVar[str] = "full refit"
    reads: ClassVar[int | None] = None


@with_near_names
@dataclass(frozen=True)
class Window(_Refit):
    """Refit from the newest batches; the history counts as the batch before round 0.

    Args:
        batches: how many, at least 1; no more than the stream has.
        warm: as for `FullRefit`.

    >>> Window(3).reads
    3
    """

    batches: int
    warm: bool = False
    name: ClassVar[str] = "window refit"

    def __post_init__(self) -> None:
        """Refuse settings that cannot be."""
        check_whole("batches", self.batches)
        super().__post_init__()

    @property
    def reads(self) -> int | None:  # type: ignore[override]
        """How many of the newest batches an update reads."""
        return self.batches

"""Refitting, and differentiating a refit: what several rules are made of.

θ* = argmin R(θ; X) has ∇R(θ*; X) = 0 whatever the moves, so it moves with them by dθ* = −w̄_i H⁻¹ ∂_x∇_θ ℓ_i dδ_i. With
v = H⁻¹ λ, dL/dδ_i = −w̄_i ∇_x s_i(θ*; v): the implicit signal, once a round. Where the fit started makes no difference.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError
from oar.models.training import Fit
from oar.models.wrap.scaled import ScaledTraining
from oar.online.rules.protocol import Update
from oar.online.rules.requirements import check_classes, round_words

Array = NDArray[np.float64]
ASKED = 1e-10  # the gradient norm that a refit is asked for,
ENOUGH = 1e-6  # and the largest that is taken for one
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
    training, start = update.training, update.before
    scaled = isinstance(training, ScaledTraining)  # in units of its own, in which no other round's θ means anything
    if start is None or scaled or not (warm or getattr(training.model, "convex", True)):
        start = training.start()
    found = training.fit(update.features, start, ASKED)
    if not found.residual <= ENOUGH:
        raise NumericsError(
            f"rule: {rule} must refit to a gradient norm of {ENOUGH:.0e} or less, got {found.residual:.1e} in "
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

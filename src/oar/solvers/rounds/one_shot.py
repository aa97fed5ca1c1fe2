"""The fast plan over time: every round's signal is published once, and each batch answers it on its own.

From (θ_t, v_t) of the rounds that read a member, its slope is Σ −w̄_i ∇_x s_i(θ_t; v_t); its answer is a full move
against it, and all go the first common share of the way that lowers the loss.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from oar.errors import OptionError
from oar.online import Back, OnlineProblem, Path
from oar.online.rules.refits import moved_by
from oar.solvers.descent.descent import DescentEnd, Way, armijo
from oar.solvers.rounds.gradient import RolloutObjective, RoundSearchResult, limits_of

Array = NDArray[np.float64]
Signals = tuple[tuple[tuple[Array, Array], ...], ...]


def answer(objective: RolloutObjective, path: Path, signals: Signals) -> Array:
    """Return everyone's slope dL/dδ (n, d), as follows from what is published and each one's own row."""
    problem, walk = objective.rollout.problem, objective.rollout
    slopes = np.zeros((problem.radii.size, problem.stream.people.dimensions))
    for number, pairs in enumerate(signals):
        if not pairs and not problem.weights[number]:
            continue
        before = path.parameters[number - 1] if number else path.first
        update = walk.update(number, before, None)
        for parameters, signal in pairs:
            slopes[walk.rows(number)] += moved_by(update, parameters, signal)
        if walk.aim.members is not None and problem.weights[number]:  # who asks also sees what its own move does
            _, _, own = walk.aim.at(update.training, path.parameters[number], None)
            np.add.at(slopes, walk.aim.members, problem.weights[number] * own)
    return slopes


def solve(problem: OnlineProblem) -> tuple[RoundSearchResult, Signals]:
    """Return one full response to one set of signals, and the signals."""
    objective, limits = RolloutObjective.of(problem), limits_of(problem)
    stay = np.zeros((problem.radii.size, problem.stream.people.dimensions))
    unmoved = objective.refit(stay)
    back = objective.back(unmoved)
    _check(problem, back)
    unmoved = replace(unmoved, gradient=answer(objective, unmoved.kept, back.signals))
    aim = limits.respond(unmoved.gradient)
    slope = limits.slope(unmoved.gradient, stay, aim)
    found = armijo(Way(objective, limits, unmoved, aim, slope, 0.0))
    here = unmoved if found is None else objective.differentiate(found)
    arrived = DescentEnd(here, limits.gap(here.moves, here.gradient), [unmoved.loss, here.loss], "steps")
    return RoundSearchResult(
        arrived, unmoved.gradient, unmoved.loss, 1, objective.rollouts, objective.rollout.passes
    ), back.signals


def _check(problem: OnlineProblem, back: Back) -> None:
    """Raise where moves do not follow from signals."""
    silent = any(size > 0 and not pairs for size, pairs in zip(back.adjoints, back.signals, strict=True))
    if silent:
        raise OptionError(
            f"solver: 'one-shot' publishes signals, and {problem.rule.name} has none for this model; use "
            "'projected-gradient'."
        )

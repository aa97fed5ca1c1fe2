"""The slope of the goal loss in everyone's move, at a refit that may be defended."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from oar.defences.base import weights_of
from oar.defences.refit import DefendedRefit
from oar.errors import NumericsError, OptionError
from oar.problem import Problem
from oar.signals.base import Step
from oar.signals.choice import FACTORED, choose_signal
from oar.signals.implicit import Implicit

Array = NDArray[np.float64]
TIGHT = 1e-10  # the gradient norm of the refit
CONVERGED = 1e-6  # a larger gradient is not that of a minimum


def refit_slopes(problem: Problem, refit: DefendedRefit) -> tuple[Step, Array]:
    """Return the step at the defended refit, and dL/dδ (n, d) of everyone, in the features' own units."""
    model = refit.model
    trained = replace(problem, people=refit.everyone, model=model)
    training = trained.training()
    signal, why = choose_signal(training)
    if not isinstance(signal, Implicit):
        raise OptionError(f"model: leverage needs exact gradients, and there are none. {why}")
    tight = Implicit(tolerance=TIGHT)
    if training.parameter_count <= FACTORED and tight.refusal(training) is None:  # a factored H is solved so anyway
        signal = tight
    step = signal.at(training, None, trained.first_query, trained.goal_target, tolerance=TIGHT)
    # What stops before its minimum, as stochastic gradients do, is where its own training ends: that is its refit.
    if not step.fit.converged and step.fit.residual > CONVERGED:
        raise NumericsError(
            f"model: {model.name} must be refitted to a gradient norm of {CONVERGED:.0e}, got "
            f"{step.fit.residual:.1e}; a larger penalty or standardised features make training easier."
        )
    shares = training.weights
    slopes = shares[:, None] * step.gradient
    if step.outcome.own_slopes is not None:  # of members who ask: handed over divided by weights above 0
        slopes = slopes + np.where(shares > 0, shares, 1.0)[:, None] * step.outcome.own_slopes
    if refit.prepared.pull_back is not None:
        scores = training.scores(step.fit.parameters, step.fit.features, step.signal, model.targets(refit.everyone))
        by_weight = -(scores - shares @ scores) / weights_of(refit.everyone).sum()
        slopes[refit.prepared.kept] += refit.prepared.pull_back(by_weight[refit.prepared.kept])
    return step, slopes


def allowed(problem: Problem, slopes: Array) -> Array:
    """Return slopes in the units in which moves are measured, 0 where the loss falls only in a forbidden way."""
    if problem.limits is None:
        return slopes
    measured = problem.measured(query=False)
    region, size = measured.unruled, problem.people.size
    by_cost = slopes[:, measured.columns] / measured.costs
    falls = np.where(by_cost < 0, region.upper[:size] > 0, region.lower[:size] < 0)
    found = np.zeros_like(slopes)
    found[:, measured.columns] = np.where(falls, by_cost, 0.0)
    return found

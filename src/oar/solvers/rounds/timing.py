"""When a plan acts, and why then: how much a unit of move does in each round."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oar.online import OnlineProblem
from oar.plans.rounds.plan import OnlinePlan

Array = NDArray[np.float64]
SPARED = 1e-6  # share of all effort below which a round is not acted in
MANY = 4  # rounds that are named one by one


def leverage(problem: OnlineProblem, slopes: Array) -> Array:
    """Return the steepest fall of the loss per unit of move among each round's members (T,): max ‖dL/dδ_i‖_q."""
    steep = np.where(problem.radii > 0, problem.everyone.allowance.norm.dual.length(slopes), 0.0)
    found, acts = np.zeros(problem.rounds), problem.stream.when >= 0
    np.maximum.at(found, problem.stream.when[acts], steep[acts])
    return found


def why(plan: OnlinePlan, levers: Array, shares: Array | None = None) -> str:
    """Return a sentence on when the plan acts and why then.

    Args:
        plan: the plan.
        levers: (T,), each round's leverage before any move.
        shares: (T,), what each round's data weigh in the last model, where that is known.
    """
    efforts = plan.efforts()
    if not efforts.any():
        return ""
    acting = np.flatnonzero(efforts > SPARED * efforts.sum())
    when = f"The plan acts in {_rounds(acting, efforts.size)}"
    if len(efforts) == 1:
        return f"{when}."
    largest = acting[efforts[acting] >= efforts.max() * (1 - SPARED)]
    most = f", most in {_rounds(largest, 0)}" if 0 < largest.size < acting.size else ""
    told = levers if shares is None else shares
    high, low = acting[told[acting].argmax()], int(told.argmin())
    even = told[high] <= told[low] * (1 + SPARED)
    if shares is not None:
        rest = "" if even else f", round {low}'s {told[low]:.3g}"
        whose = "every round's" if even else f"round {high}'s"
        return f"{when}{most}: {whose} data weigh {told[high]:.3g} in the last model{rest}."
    rest = "" if even else f" in round {high}, and by up to {told[low]:.3g} in round {low}"
    return f"{when}{most}: before any move, a unit of move lowers the loss by up to {told[high]:.3g}{rest}."


def _rounds(numbers: NDArray[np.intp], of: int) -> str:
    if numbers.size == of > 1:
        return "every round"
    if numbers.size == 1:
        return f"round {numbers[0]}{' alone' if of else ''}"
    if numbers.size <= MANY:
        return f"rounds {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
    return f"{numbers.size} of {of} rounds, from {numbers[0]} to {numbers[-1]}"

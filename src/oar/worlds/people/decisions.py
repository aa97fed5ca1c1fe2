"""Outcomes that depend on decisions: records of people after the deployed model has decided about them.

An applicant who is refused a loan has no chance to repay it. Arrivals with a method `decided`
(`oar.worlds.protocol.DecisionArrivals`) define the records after a decision. A world asks them in every round, for the
deployed model, for the shadow's, and for any model that an operator considers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from oar.errors import DataError
from oar.worlds.deployed.predictions import predictions
from oar.worlds.protocol import Array, Crowd, State
from oar.worlds.rounds.read_only import sealed


def depends_on_decisions(arrivals: Any) -> bool:
    """Report whether records depend on the deployed model."""
    return hasattr(arrivals, "decided")


def once_decided(
    arrivals: Any, model: Any, state: State, crowd: Crowd, applied: Array, number: int, rng: np.random.Generator
) -> Crowd:
    """Return a crowd's records after this model has decided about it by the features `applied` (n, d).

    Only codes and groups may change.
    """
    found = arrivals.decided(crowd, predictions(model, state.parameters, applied), number, rng)
    where = f"arrivals, round {number}: decided must return"
    if not isinstance(found, Crowd) or found.size != crowd.size or found.groups.shape != (crowd.size,):
        got = f"{found.size} people" if isinstance(found, Crowd) else f"an object of type {type(found).__name__}"
        raise DataError(f"{where} the Crowd of the {crowd.size} people who arrived, got {got}.")
    if (found.features != crowd.features).any() or (found.persons != crowd.persons).any():
        raise DataError(f"{where} people with the features and persons that they had, got others.")
    codes, known = np.asarray(found.codes), len(crowd.classes)
    if codes.shape != (crowd.size,) or codes.dtype.kind not in "iu" or codes.min() < 0 or codes.max() >= known:
        raise DataError(f"{where} a class code 0 to {known - 1} for each of {crowd.size} people, got {codes!r}.")
    return sealed(replace(found, features=crowd.features, persons=crowd.persons))

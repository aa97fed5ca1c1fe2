"""Labels that depend on what is deployed: records after a decision, and label policies for people who move.

An applicant who is refused a loan has no chance to repay it. Arrivals with a method `decided`
(`oar.worlds.protocol.DecisionArrivals`) define the records after a decision. A world asks them in every round, for the
deployed model, for the shadow's, and for any model that an operator considers.

There is no default policy, because outcomes depend strongly on the choice: at full adoption advice stays valid if
labels follow features, and becomes invalid if labels stay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from oar.checks import choose
from oar.errors import DataError, OptionError
from oar.worlds.deployed.predictions import predictions
from oar.worlds.protocol import Array, Crowd, Rows, State
from oar.worlds.rounds.read_only import sealed

KEEP, ORACLE, RELABEL = "keep", "oracle", "relabel"
POLICIES = {
    KEEP: "labels stay as they were",
    ORACLE: "true labels at the new features, as the arrivals know them",
    RELABEL: "the deployed model's own prediction at the new features",
}


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


def check_labels(labels: Any) -> str:
    """Return a label policy; raise where it is missing or unknown."""
    if labels is None:
        listing = "; ".join(f"{name!r} ({meaning})" for name, meaning in POLICIES.items())
        raise OptionError(f"labels: must say what becomes of the labels of those who move: {listing}; got none.")
    return choose("labels", labels, POLICIES)


def labels_after(
    world: Any, state: State, crowd: Crowd, rows: Rows, features: Array, number: int, rng: np.random.Generator
) -> Rows:
    """Return the codes (m,) of people of the crowd (`rows`) who moved to features (m, d), by the world's policy.

    `state` is the operator's before this round's refit.
    """
    if world.labels == KEEP or not rows.size:
        return crowd.codes[rows]
    if world.labels == RELABEL:
        return predictions(world.operator.model, state.parameters, features)
    codes = np.asarray(world.arrivals.label(features, crowd, rows, number, rng))
    if codes.shape != rows.shape or codes.min() < 0 or codes.max() >= len(crowd.classes):
        raise DataError(
            f"arrivals, round {number}: label must return a class code 0 to {len(crowd.classes) - 1} for each of "
            f"{rows.size} people, got {codes!r}."
        )
    return codes.astype(np.intp)

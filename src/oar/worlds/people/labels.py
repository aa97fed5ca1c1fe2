"""Label policies: the labels of people who move. There is no default, because outcomes depend strongly on the choice.

At full adoption advice stays valid if labels follow features, and becomes invalid if labels stay.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.checks import choose
from oar.errors import DataError, OptionError
from oar.worlds.deployed.predictions import predictions
from oar.worlds.protocol import Array, Arrivals, Crowd, Rows, State

KEEP, ORACLE, RELABEL = "keep", "oracle", "relabel"
POLICIES = {
    KEEP: "labels stay as they were",
    ORACLE: "true labels at the new features, as the arrivals know them",
    RELABEL: "the deployed model's own prediction at the new features",
}


def check_labels(labels: Any) -> str:
    """Return a label policy; raise where it is missing or unknown."""
    if labels is None:
        listing = "; ".join(f"{name!r} ({meaning})" for name, meaning in POLICIES.items())
        raise OptionError(f"labels: must say what becomes of the labels of those who move: {listing}; got none.")
    return choose("labels", labels, POLICIES)


def labels_after(
    policy: str,
    arrivals: Arrivals,
    crowd: Crowd,
    rows: Rows,
    features: Array,
    deployed: tuple[Any, State],
    number: int,
    rng: np.random.Generator,
) -> Rows:
    """Return the codes (m,) of people of the crowd (`rows`) who moved to features (m, d).

    `deployed` is the operator's model and its state before this round's refit.
    """
    if policy == KEEP or not rows.size:
        return crowd.codes[rows]
    if policy == RELABEL:
        return predictions(deployed[0], deployed[1].parameters, features)
    codes = np.asarray(arrivals.label(features, crowd, rows, number, rng))
    if codes.shape != rows.shape or codes.min() < 0 or codes.max() >= len(crowd.classes):
        raise DataError(
            f"arrivals, round {number}: label must return a class code 0 to {len(crowd.classes) - 1} for each of "
            f"{rows.size} people, got {codes!r}."
        )
    return codes.astype(np.intp)

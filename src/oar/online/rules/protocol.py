"""The protocol of update rules: how θ is updated when a batch arrives, forwards and backwards.

A rule is a small object. It is handed an `Update`: θ before, and the people that it may read, bound to the model as a
`Training` (`oar.models.training`). Forwards it returns θ after. Backwards it takes λ_t = dL/dθ_t and returns

    λ_{t−1} = (∂θ_t/∂θ_{t−1})ᵀ λ_t          and, for every person that it read,          dL/dδ_i = (∂θ_t/∂δ_i)ᵀ λ_t.

For one gradient step θ_t = θ_{t−1} − η ∇R_t(θ_{t−1}) that is the recursion v_t = η λ_t, λ_{t−1} = (I − η H_t) λ_t,
and dL/dδ_i = −w̄_i ∇_x s_i(θ_{t−1}; v_t). Nothing else is kept from round to round: memory is O(T · parameters).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from oar.models.training import Array


@dataclass(frozen=True, eq=False)
class Update:
    """One update: the data of one round.

    Attributes:
        number: the round, 0, 1, ….
        before: θ_{t−1} (p,), in the units of the features as given; None in the first round where nothing was
            deployed before.
        training: the model bound to the people whom the rule reads, as they are before any move.
        features: their features after the moves, as `training.moved` made them.
        newest: (m,) bool, who of them arrived in this round.
        classes: the labels in the order of their codes; empty where values are predicted. Messages name them.
        near: θ (p,) of the same round after other moves, from where a refit is quick; None where none is known.
    """

    number: int
    before: Array | None
    training: Any
    features: Any
    newest: NDArray[np.bool_]
    classes: tuple[Any, ...] = ()
    near: Array | None = None


@dataclass(frozen=True, eq=False)
class PulledBack:
    """The result of propagating an adjoint back through one update.

    Attributes:
        before: λ_{t−1} (p,).
        moves: dL/dδ_i (m, d), weights included, of the people whom the rule read.
        signals: what was broadcast: pairs (θ, v), each (p,), at which moves are −w̄_i ∇_x s_i(θ; v), added up. Empty
            where moves do not come from scores.
    """

    before: Array
    moves: Array
    signals: tuple[tuple[Array, Array], ...] = ()


class Rule(Protocol):
    """An update rule of the operator. `oar.testing.check_rule` checks a user-defined one.

    A rule may also have `remembers = False`, where θ_t does not depend on θ_{t−1} (then nothing needs to be deployed
    before), a method `check(stream, model, started)` that raises where it cannot work (`started` says whether there is
    a θ before the first round), and, if it updates nearest centroid by μ_c ← κ_c μ_c + (1 − κ_c) mean_c, a method
    `kept_share(class_weights, started)` that returns κ (k,), so that plans are solved exactly.
    """

    @property
    def name(self) -> str:
        """The name under which messages know it."""
        ...

    @property
    def reads(self) -> int | None:
        """How many of the newest batches an update reads; None means everything so far."""
        ...

    def update(self, update: Update) -> Array:
        """Return θ_t (p,)."""
        ...

    def pull_back(self, update: Update, after: Array, adjoint: Array) -> PulledBack:
        """Return λ_{t−1} and dL/dδ for λ_t = `adjoint` (p,), where `update` led to θ_t = `after`."""
        ...

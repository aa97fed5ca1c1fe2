"""Curators: people who add data or hold data back so that a query gets its goal.

After protective optimisation technologies (POTs; Kulynych et al. 2020), which poison a credit model by choosing which
real profiles take up loans. The choice is greedy: each step has the largest estimated fall of the goal loss, and a
retraining confirms it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oar.checks import with_near_names
from oar.errors import DataError, OptionError
from oar.worlds.actors.common import CheckedActor, code_of, foresight
from oar.worlds.actors.greedy import NONE, Greedy, SingleChanges
from oar.worlds.people.uniform_draws import drawn_share
from oar.worlds.protocol import Array, Caps, Crowd, Deed, Rows, View

ADD, DROP = 0, 1


@with_near_names
@dataclass(frozen=True, eq=False)
class Curators(CheckedActor):
    """Curators, who add points and withhold their own, one at a time, until nothing helps.

    Args:
        query: x† (d,), the query that they help.
        goal: its goal, a label.
        add: the largest number of points that they add in a round.
        drop: the largest number of their own points that they withhold in a round.
        pool: (features, labels) of points that may be added, each once a round; None for copies of their own points.
        share: the share of arrivals whose points are their own, to be copied or withheld, drawn once for each person.
        refits: the largest number of retrainings that they may try in a round.
        name: their name in records.
    """

    query: Any
    goal: Any
    add: int = 0
    drop: int = 0
    pool: Any = None
    share: float = 1.0
    refits: int = 60
    name: str = "curators"

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        super().__post_init__()
        if self.pool is not None:
            if not self.add:
                raise OptionError(
                    "pool: is what points are added from, and none may be added; leave it out, or set add."
                )
            object.__setattr__(self, "pool", _checked_pool(self.pool, self.query.size))

    @property
    def caps(self) -> Caps:
        """They add points and leave."""
        return Caps(added=self.add, leavers=self.drop)

    def members(self, crowd: Crowd, number: int, rng: np.random.Generator) -> Rows:
        """Draw the people whose points are theirs; nobody where they only add points of a pool."""
        eligible = np.arange(crowd.size if self.drop or self.pool is None else 0)
        return drawn_share(self.share, eligible, crowd, rng)

    def act(self, view: View) -> Deed:
        """Add and drop as long as that helps."""
        points, labels = self._candidates(view)
        own = view.crowd.features[view.mine]
        count, size = len(points), len(own)
        changes = SingleChanges(
            features=np.concatenate([points, own]),
            weights=np.concatenate([np.ones(count), view.crowd.row_weights[view.mine]]),
            lost=np.concatenate([np.full(count, NONE), view.crowd.codes[view.mine]]).astype(np.intp),
            gained=np.concatenate([labels, np.full(size, NONE)]).astype(np.intp),
            kinds=np.repeat([ADD, DROP], [count, size]).astype(np.intp),
            owners=np.arange(count + size),
        )

        def deed(chosen: list[int]) -> Deed:
            added = [change for change in chosen if change < count]
            leaves = np.zeros(size, dtype=bool)
            leaves[[change - count for change in chosen if change >= count]] = True
            return Deed(
                leaves=leaves if leaves.any() else None,
                added=(points[added], labels[added]) if added else None,
            )

        asked = foresight(view, self.query, self.goal)
        found = Greedy(asked, changes, (self.add, self.drop), deed, 1, self.refits).run()
        done = deed(found.changes)
        counts = done.counts(view.crowd.codes[view.mine])
        note = {"added": counts["added"], "dropped": counts["left"], "foreseen": found.loss, "refits": found.refits}
        return replace(done, note=note)

    def _candidates(self, view: View) -> tuple[Array, Rows]:
        if self.pool is None:
            return view.crowd.features[view.mine], view.crowd.codes[view.mine]
        features, labels = self.pool
        codes = [code_of(label, view.crowd.classes, "pool labels") for label in labels]
        return features, np.array(codes, dtype=np.intp)


def _checked_pool(pool: Any, dimensions: int) -> tuple[Array, tuple[Any, ...]]:
    try:
        features, labels = pool
        rows, names = np.array(features, dtype=np.float64), tuple(np.asarray(labels).tolist())
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            f"pool: must be a pair (features, labels), got an object of type {type(pool).__name__}."
        ) from None
    if rows.ndim != 2 or rows.shape[1] != dimensions or not np.isfinite(rows).all() or len(names) != len(rows):
        raise DataError(
            f"pool: must be finite features (m, {dimensions}), as many as the query has, and m labels, got features of "
            f"shape {rows.shape} and {len(names)} labels."
        )
    return rows, names

"""Labellers and curators: people who change labels, add data or hold data back so that a query gets its goal.

Labellers assign labels and change a few of them. Curators are after protective optimisation technologies (POTs;
Kulynych et al. 2020), which poison a credit model by choosing which real profiles take up loans. The choice is greedy:
each step has the largest estimated fall of the goal loss, and a retraining confirms it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oar.checks import with_near_names
from oar.errors import DataError, OptionError
from oar.models import Centroids
from oar.typing import Label
from oar.worlds.actors.common import CheckedActor, code_of, foresight
from oar.worlds.actors.greedy import NONE, Greedy, SingleChanges
from oar.worlds.people.random_streams import drawn_count, drawn_share
from oar.worlds.protocol import Array, Caps, Crowd, Deed, Rows, View

ADD, DROP = 0, 1


@with_near_names
@dataclass(frozen=True, eq=False)
class Labellers(CheckedActor):
    """Labellers, who relabel at most `most` arrivals a round: those with the largest estimated fall of the goal loss.

    The estimated fall for a label y' instead of y is w̄_i [s_i(y') − s_i(y)], with the score s of the signal at the
    deployed model; for nearest centroid the change of class means is exact, and labels are changed one by one. The
    operator's own retraining tests each estimate; changes that do not help are not made.

    Args:
        query: x† (d,), the query that they help.
        goal: its goal, a label.
        most: the largest number of labels that they change in a round.
        share: the share of arrivals whose labels they assign, drawn once for each person.
        count: the number of such arrivals, instead of a share.
        refits: the largest number of retrainings that they may try in a round.
        name: their name in records.
    """

    query: Any
    goal: Label
    most: int
    share: float = 1.0
    count: int | None = None
    refits: int = 60
    name: str = "labellers"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.count is not None and self.share != 1.0:
            raise OptionError(f"Labellers: must be given one of share and count, got {self.share} and {self.count}.")

    @property
    def caps(self) -> Caps:
        """They change labels."""
        return Caps(labels=self.most)

    def members(self, crowd: Crowd, number: int, rng: np.random.Generator) -> Rows:
        """Draw the people whose labels they assign."""
        everyone = np.arange(crowd.size)
        if self.count is not None:
            return drawn_count(self.count, everyone, crowd, rng)
        return drawn_share(self.share, everyone, crowd, rng)

    def act(self, view: View) -> Deed:
        """Change labels as long as that helps."""
        crowd, mine = view.crowd, view.mine
        own = crowd.codes[mine]
        people, to = np.divmod(np.arange(mine.size * len(crowd.classes)), len(crowd.classes))
        other = to != own[people]
        people, to = people[other], to[other]
        weights = crowd.row_weights[mine][people]
        changes = SingleChanges(
            crowd.features[mine][people], weights, own[people], to, np.zeros(to.size, dtype=np.intp), people
        )

        def deed(chosen: list[int]) -> Deed:
            codes = own.copy()
            codes[people[chosen]] = to[chosen]
            return Deed(codes=codes)

        # First-order promises are made once for many labels; those of nearest centroid are exact for the next one.
        batch = 1 if isinstance(view.deployed.parameters, Centroids) else self.most
        asked = foresight(view, self.query, self.goal)
        chosen, note = Greedy(asked, changes, (self.most,), deed, batch, self.refits).run()
        return Deed(codes=deed(chosen).codes if chosen else None, note={"relabelled": len(chosen)} | note)


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
        own, codes = view.crowd.features[view.mine], view.crowd.codes[view.mine]
        points, labels = own, codes
        if self.pool is not None:
            points, names = self.pool
            labels = np.array([code_of(name, view.crowd.classes, "pool labels") for name in names], dtype=np.intp)
        count, size = len(points), len(own)
        changes = SingleChanges(
            features=np.concatenate([points, own]),
            weights=np.concatenate([np.ones(count), view.crowd.row_weights[view.mine]]),
            lost=np.concatenate([np.full(count, NONE), codes]).astype(np.intp),
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
        chosen, note = Greedy(asked, changes, (self.add, self.drop), deed, 1, self.refits).run()
        added = sum(change < count for change in chosen)
        return replace(deed(chosen), note={"added": added, "dropped": len(chosen) - added} | note)


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

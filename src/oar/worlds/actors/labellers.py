"""Labellers, who assign labels and change a few of them so that a query gets its goal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.checks import with_near_names
from oar.errors import OptionError
from oar.models import Centroids
from oar.typing import Label
from oar.worlds.actors.common import CheckedActor, foresight
from oar.worlds.actors.greedy import Greedy, SingleChanges
from oar.worlds.people.uniform_draws import drawn_count, drawn_share
from oar.worlds.protocol import Caps, Crowd, Deed, Rows, View


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
        """Refuse what cannot be."""
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
        found = Greedy(foresight(view, self.query, self.goal), changes, (self.most,), deed, batch, self.refits).run()
        note = {"relabelled": len(found.changes), "foreseen": found.loss, "refits": found.refits}
        return Deed(codes=deed(found.changes).codes if found.changes else None, note=note)

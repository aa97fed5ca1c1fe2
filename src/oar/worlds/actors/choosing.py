"""Labellers and curators: people who change labels, add data or hold data back so that a query gets its goal.

Labellers assign labels and change a few of them. Curators are after protective optimisation technologies (POTs;
Kulynych et al. 2020), which poison a credit model by choosing which real profiles take up loans.

The choice is greedy: each step has the largest estimated fall of the goal loss, and a refit confirms it. Every such
change takes weight w at x away from one class, gives it to another, or both: a flip does both, a leaver takes, an added
point gives. With v = H⁻¹g at θ, s(x, y) = vᵀ∇_θ ℓ(θ; x, y) and W the total training weight, the goal loss changes to
first order by

    −(w / W') [ (s(x, gained) − s̄) − (s(x, lost) − s̄) ],        W' = W ± w,        s̄ = Σ w_i s_i / W,

with one term for each class that gains or loses; s̄ appears because the operator averages over the rest. For
nearest centroid the change is exact: μ_c = S_c / W_c, with w x and w added to or taken from S_c and W_c.

These estimates assume that the operator refits to everything so far. The operator's own retraining on the resulting
contributions tests them. In a round without retraining the estimates alone decide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oar.checks import with_near_names
from oar.errors import DataError, OARError, OptionError
from oar.models import Centroids
from oar.models.centroid.nearest_centroid import goal_loss
from oar.progress import is_late
from oar.solvers.discrete.greedy import falls
from oar.tolerances import FALLS
from oar.typing import Label
from oar.worlds.actors.common import CheckedActor, Foresight, code_of, foresight, handed_in_before, handed_in_now
from oar.worlds.deployed.model import deployed
from oar.worlds.people.crowds import Data
from oar.worlds.people.random_streams import drawn_count, drawn_share
from oar.worlds.protocol import Array, Caps, Crowd, Deed, Rows, State, View

NONE = -1
Outcome = tuple[State, float]  # after retraining, with the goal loss
SHORTLIST = 3  # single changes that are tried by refits before nothing is said to help
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


@dataclass(frozen=True, eq=False)
class SingleChanges:
    """The q single changes that are still possible.

    Attributes:
        features, weights: (q, d) and (q,), the place and the amount of the weight that is taken or given.
        lost, gained: (q,), the classes that lose and gain it, or NONE.
        kinds: (q,), the kinds by which limits count. owners: (q,), each of whom may make at most one change.
    """

    features: Array
    weights: Array
    lost: Rows
    gained: Rows
    kinds: Rows
    owners: Rows


@dataclass(eq=False)
class Greedy:
    """One round's search, with at most `limits` changes of each kind, and at most so many `refits`.

    The first step has `batch` changes; one that does not help is halved.
    """

    foresight: Foresight
    changes: SingleChanges
    limits: tuple[int, ...]
    deed: Callable[[list[int]], Deed]
    batch: int
    refits: int

    def __post_init__(self) -> None:
        self._spent, self._before = 0, handed_in_before(self.foresight.view)

    def run(self) -> tuple[list[int], dict[str, Any]]:
        """Return changes that were chosen until nothing helps, or limits or refits are used up, and a note of them."""
        chosen: list[int] = []
        loss, found = np.inf, self._after(chosen)  # None: not even what people hand in by themselves can be trained on
        while found is not None:
            state, loss = found
            liked = self._liked(state, chosen)
            if not liked or is_late():
                break
            if state.retrained:
                chosen, found = self._step(chosen, liked, loss)
            else:  # nothing can be confirmed in this round
                chosen = [*chosen, liked[0]]
        return chosen, {"foreseen": loss, "refits": self._spent}

    @property
    def _may_try(self) -> bool:
        """Whether there are refits and time left."""
        return self._spent < self.refits and not is_late()

    def _after(self, chosen: list[int]) -> Outcome | None:
        self._spent += 1
        try:
            state, loss = self.foresight.after(self.deed(chosen))
        except OARError:  # such as a class that would be left empty
            return None
        return (state, loss) if np.isfinite(loss) else None

    def _step(self, chosen: list[int], liked: list[int], loss: float) -> tuple[list[int], Outcome | None]:
        """Make many changes at once if that helps, else half as many, else the best of a few; None if nothing helps."""
        while self.batch > 1 and self._may_try:
            several = [*chosen, *self._together(chosen, liked)]
            found = self._after(several)
            if found is not None and falls(loss, found[1]):
                return several, found
            self.batch //= 2
        best: tuple[list[int], Outcome | None] = chosen, None
        for change in liked[:SHORTLIST]:
            if not self._may_try:
                break
            found = self._after([*chosen, change])
            if found is not None and falls(loss, found[1]):
                best, loss = ([*chosen, change], found), found[1]
        return best

    def _together(self, chosen: list[int], liked: list[int]) -> list[int]:
        """Return the changes that are liked best, within the limits, one for each owner."""
        room, owners, several = self._room(chosen), set(), list[int]()
        for change in liked:
            owner, kind = self.changes.owners[change], self.changes.kinds[change]
            if len(several) < self.batch and room[kind] > 0 and owner not in owners:
                several.append(change)
                owners.add(owner)
                room[kind] -= 1
        return several

    def _room(self, chosen: list[int]) -> Array:
        return np.array(self.limits) - np.bincount(self.changes.kinds[chosen], minlength=len(self.limits))

    def _liked(self, state: State, chosen: list[int]) -> list[int]:
        """Return the changes that are open and promise something, the best first."""
        changes = self.changes
        open_ = (self._room(chosen) > 0)[changes.kinds] & ~np.isin(changes.owners, changes.owners[chosen])
        rows = np.flatnonzero(open_)
        if not rows.size:
            return []
        gains = self._promised(state, chosen, rows)
        ranked = rows[np.argsort(-gains, kind="stable")]
        return [int(row) for row in ranked[: np.count_nonzero(gains > 0)]]

    def _promised(self, state: State, chosen: list[int], rows: Rows) -> Array:
        """Return by how much the goal loss should fall (q,); −∞ for who would leave a class empty."""
        foresight, changes = self.foresight, self.changes
        people = self._before.joined(handed_in_now(foresight.view, self.deed(chosen)))
        classes = len(foresight.view.crowd.classes)
        totals = np.bincount(people.codes, people.weights, minlength=classes).astype(np.float64)
        if isinstance(state.parameters, Centroids):
            gains = _exact_falls(foresight, people, totals, changes, rows)
        else:
            gains = _first_order_falls(foresight, state, people, changes, rows)
        lost = changes.lost[rows]
        empties = (lost != NONE) & (totals[lost] - changes.weights[rows] <= FALLS * totals.sum())
        return np.where(empties, -np.inf, gains)


def _first_order_falls(foresight: Foresight, state: State, people: Data, changes: SingleChanges, rows: Rows) -> Array:
    view = foresight.view
    at = deployed(view.operator.model, state.parameters, len(view.crowd.classes), people)
    signal = at.influence(at.goal(foresight.query, foresight.goal)[1], people)
    weights, total = changes.weights[rows], people.weights.sum()
    average = float(signal @ at.gradient(people)) / total
    falls = np.zeros(rows.size)
    net = np.zeros(rows.size)
    for codes, sign in ((changes.gained[rows], 1.0), (changes.lost[rows], -1.0)):
        there = np.flatnonzero(codes != NONE)
        if there.size:
            falls[there] += sign * (at.scores(changes.features[rows[there]], codes[there], signal)[0] - average)
            net[there] += sign
    return weights / (total + net * weights) * falls


def _exact_falls(foresight: Foresight, people: Data, totals: Array, changes: SingleChanges, rows: Rows) -> Array:
    """Return by how much nearest centroid's loss falls, exactly, if refitted to these people with one change each."""
    offsets = people.features - foresight.query
    sums = np.zeros((len(totals), offsets.shape[1]))
    np.add.at(sums, people.codes, people.weights[:, None] * offsets)
    with np.errstate(invalid="ignore", divide="ignore"):
        now = np.linalg.norm(sums / totals[:, None], axis=1)
        distances = np.tile(now, (rows.size, 1))
        weights = changes.weights[rows]
        moved = weights[:, None] * (changes.features[rows] - foresight.query)
        for codes, sign in ((changes.gained[rows], 1.0), (changes.lost[rows], -1.0)):
            there = np.flatnonzero(codes != NONE)
            own = codes[there]
            means = (sums[own] + sign * moved[there]) / (totals[own] + sign * weights[there])[:, None]
            distances[there, own] = np.linalg.norm(means, axis=1)
        falls = goal_loss(now, foresight.goal) - goal_loss(distances, foresight.goal)
    return np.where(np.isfinite(falls), falls, -np.inf)

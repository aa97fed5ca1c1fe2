"""Labels and strikes for a black box: greedily, by true trainings, in the order that surrogates suggest.

What surrogates plan by themselves is tried first. From the better of that and staying put, changes are made one by one
and exchanged as in `greedy`, or several at a time where trainings run short: surrogates' first-order effects (`ground`)
say what to try, and a training says whether it helps. Where members may move too, half of the trainings are for labels
and strikes beside the surrogates' moves, and the other half search moves beside the labels and leavers found.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import product

import numpy as np

from oar.errors import NumericsError, OptionError
from oar.models.training import Array
from oar.problem import Problem
from oar.progress import OnStep
from oar.retraining.black_box import Candidate, NoTrainingsLeft, Trials, best_of, kept_for_finals
from oar.retraining.contribution import Contribution
from oar.solvers.black_box.answers import ProxySignal, signals_at
from oar.solvers.black_box.direct_search import FRESH, DirectSearch, DirectSearchResult, search
from oar.solvers.black_box.surrogate import Outlook
from oar.solvers.discrete.greedy import Effort, LeverSearch
from oar.solvers.discrete.ground import (
    Changes,
    Ground,
    OpenChanges,
    applied,
    changes_of,
    first_order,
    no_members_ask,
    shortlist,
)

SEEDS = 2  # trainings of each set of changes, where training is random
SHORTEST, LONGEST = 2, 64  # how many changes a step tries
LEVERS = "labels and strikes"
SINGLY = 0.6  # of the trainings: after that changes are made in batches


class TrueGround(Ground):
    """People with their moves, on which changes are judged by true trainings; the best changes seen are kept."""

    def __init__(self, trials: Trials, outlook: Outlook, moves: Array, seeds: int, most: int) -> None:
        """Begin to count; `most` trainings may be begun here."""
        super().__init__(trials, trials.before.with_moves(moves))
        self._trials, self._outlook, self._moves, self._seeds = trials, outlook, moves, seeds
        self._until = trials.calls.fits + most
        self._losses: dict[frozenset[tuple[int, int]], float] = {}
        self.best: tuple[Changes, float] = ({}, np.inf)

    @property
    def refits(self) -> int:
        """True trainings so far."""
        return self._trials.calls.fits

    @property
    def left(self) -> int:
        """Trainings that may still be begun here."""
        return self._until - self._trials.calls.fits

    def candidate(self, changes: Changes) -> Candidate:
        """Return what everyone does; who leaves need not move."""
        if not changes:
            return Candidate(self._moves)
        return Candidate(*applied(changes, self.start).parts).leavers_stay()

    def loss(self, changes: Changes) -> float:
        """Return the goal loss after training, a mean over a few seeds where it is random; remembered."""
        key = frozenset(changes.items())
        if key not in self._losses:
            if self.left < self._seeds:
                raise NoTrainingsLeft("Trainings for labels and strikes were used up; allow more with refits.")
            self._losses[key] = self._trials.losses(self.candidate(changes), range(self._seeds))
            if self._losses[key] < self.best[1]:
                self.best = dict(changes), self._losses[key]
        return self._losses[key]

    def promised(self, changes: Changes) -> Array:
        """Return (n, k + 1) the loss now and each change's effect by the surrogates, in units of the loss now.

        Surrogates' losses are no measure of the black box's: only their order counts.
        """
        here, now = applied(changes, self.start), self.loss(changes)
        signals, features = self._signals(changes, here), self._trials.features + self._moves
        if not signals:
            return np.full((len(features), here.parts[1].shape[1] + 1), now)

        def scores(targets: Array) -> Array:
            return np.sum([one(features, targets)[0] for one in signals], axis=0)

        effects = first_order(here, scores, self._trials.problem.regresses)
        largest = np.abs(effects).max()
        return now + effects * (max(abs(now), 1.0) / largest if largest > 0 else 1.0)

    def _signals(self, changes: Changes, here: Contribution) -> tuple[ProxySignal, ...]:
        outlook = self._outlook
        if outlook.asked is None or (not changes and not self._moves.any()):
            return outlook.still
        public = outlook.asked.people.row_weights > 0  # of a share of the people the others have none
        here = replace(here, weights=np.where(public, here.parts[2], 0.0))
        with suppress(NumericsError):
            return signals_at(outlook.asked, here)
        return outlook.still


def search_levers(
    problem: Problem, settings: DirectSearch, trials: Trials, outlook: Outlook, on_step: OnStep
) -> DirectSearchResult:
    """Choose labels and leavers, and moves where members may move."""
    if problem.levers.relabel.soft is not None:
        raise OptionError("soft: a black box is trained on one label a person; use Relabel(most=…).")
    no_members_ask(problem)
    stay = trials.stay
    start = outlook.candidate if outlook.planned else stay
    try:
        random = trials.is_random()
    except NoTrainingsLeft as why:
        return DirectSearchResult(start, np.nan, 0, False, str(why), LEVERS)
    moving, held = problem.moves, kept_for_finals(trials, random)
    seeds = SEEDS if random else 1
    ground = TrueGround(trials, outlook, start.parts[0], seeds, (trials.left - held) // (2 if moving else 1))
    seen, ended = [], ""
    try:
        if start.parts[0].any():
            seen.append((trials.losses(stay, range(seeds)), stay))
        _pull(problem, ground, changes_of(start, trials.before), seeds, on_step)
    except NoTrainingsLeft as why:
        ended = str(why)
    if ground.best[1] < np.inf:
        seen.append((ground.best[1], ground.candidate(ground.best[0])))
    loss, found = min(seen, key=lambda one: one[0]) if seen else (np.nan, start)
    if moving:
        after = search(problem, settings, trials, outlook, [found], on_step=on_step)
        if after.loss <= loss or (random and np.isfinite(after.loss)):
            return replace(after, policy=f"{LEVERS}, and {after.policy}")
        return DirectSearchResult(found, loss, after.steps, random, ended or after.ended, LEVERS)
    if random:
        safe = [stay] if start is stay else [stay, start]
        best, mean = best_of(trials, safe, [found] if found not in safe else [], FRESH)
        loss, found = (loss, found) if np.isnan(mean) else (mean, best)
    return DirectSearchResult(found, loss, len(ground.best[0]), random, ended, LEVERS)


def _pull(problem: Problem, ground: TrueGround, planned: Changes, seeds: int, on_step: OnStep) -> None:
    """Search from the better of what surrogates planned and no changes, until trainings run short."""
    levers = problem.levers
    quota = levers.relabel.most + levers.withhold.most
    shortlist = int(np.clip(ground.left // seeds // (2 * max(1, min(quota, 10))), SHORTEST, LONGEST))
    open_ = OpenChanges(levers, ground.start, problem.regresses)
    run = LeverSearch(ground, open_, Effort(max(1, int(SINGLY * ground.left)), shortlist, 1), on_step)
    rankings = [ground.promised({}), *_near(problem, open_)]
    openings = [{}, *([planned] if planned else [])]
    openings += [_best(one, open_, most) for one in rankings for most in dict.fromkeys((quota, max(1, quota // 2)))]
    best = min(openings, key=ground.loss)
    found = run.refined(best) if best else run.run()
    _exchange_blocks(ground, open_, found.changes, rankings, on_step)


def _near(problem: Problem, open_: OpenChanges) -> list[Array]:
    """Return a ranking (n, k + 1) of changes by how near the query they are made, where there is one.

    Trees and neighbours are moved by whom they stand with, and by no one of them alone: nearest the query, others get
    its goal's label, and who has another label leaves.
    """
    if problem.regresses:
        return []
    features = np.asarray(problem.people.features, dtype=np.float64)
    spreads = features.std(axis=0)
    away = (features - problem.first_query) / np.where(spreads > 0, spreads, 1.0)
    near = np.einsum("nd,nd->n", away, away)
    rows, codes = open_.start.parts[1], list(problem.wishes[0].codes)  # type: ignore[union-attr]
    ranked = np.full((len(rows), rows.shape[1] + 1), np.inf)
    ranked[:, [*codes, -1]] = np.where(rows[:, codes].sum(axis=1) < 1, near, np.inf)[:, None]
    return [ranked]


def _best(ranked: Array, open_: OpenChanges, most: int, beside: Changes | None = None) -> Changes:
    """Return others and so many changes that rank lowest, one a person, that are open beside each other."""
    beside = beside or {}
    allowed = open_.now(beside)
    liked = shortlist(ranked, allowed & np.isfinite(ranked), allowed.size)
    made = beside | open_.batch(beside, liked, most)
    if open_.fills(made):
        return made
    made = dict(beside)
    for person, what in liked:  # one by one, as each may be the last of its class
        if len(made) < len(beside) + most and allowed[person, what]:
            made[person] = what
            allowed = open_.now(made)
    return made


def _exchange_blocks(
    ground: TrueGround, open_: OpenChanges, changes: Changes, rankings: list[Array], on_step: OnStep
) -> None:
    """Give up some changes at once for as many that rank next, while trainings last; smaller blocks when none helps.

    One training a block: it goes on where trainings are too few to do without each change in turn.
    """
    size = len(changes) // 2
    while size:
        loss, worst_first = ground.loss(changes), sorted(changes, key=lambda one: -rankings[0][one, changes[one]])
        blocks = [worst_first[at : at + size] for at in range(0, len(worst_first), size)]
        for block, ranked in product(blocks, rankings):
            rest = {one: what for one, what in changes.items() if one not in block}
            others = ranked.copy()
            others[block] = np.inf
            trial = _best(others, open_, len(block), rest)
            if ground.loss(trial) < loss:
                changes = trial
                on_step(len(changes), ground.loss(changes), np.inf)
                break
        else:
            size //= 2

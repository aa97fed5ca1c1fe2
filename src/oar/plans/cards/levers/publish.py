"""The card of a plan in which labels change or members leave.

The plan has chosen people, and a card must not name them. So it holds a signal, by which everyone finds what a change
of its own label is worth, and thresholds that as many pass as the plan has chosen, or fewer: of each kind of change as
many as in the plan, or the most useful of all. Where fewer than FEWEST people would pass, a kind is not asked for.
Signal and thresholds have as few digits as keep the plan's success and nearly all of the best card's gain, which a
refit of everybody's answers says; a card that loses too much is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.actions.limits.round_steps import below, one_two_five
from oar.errors import DataError
from oar.models import Differentiable
from oar.plans.cards.card import Array, Card
from oar.plans.cards.digits import FEWEST_FIRST, rounded, sizes_of
from oar.plans.cards.levers.rule import AWAY, LabelRule, Threshold, worth
from oar.plans.cards.publish import ENOUGH, FEWEST, LEAST, cards_by, refuse_small_classes
from oar.plans.cards.signals import Pair, SignalSource, own_model, sources, stand_ins
from oar.plans.refits import Refits
from oar.problem import Problem
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import RefitResult

if TYPE_CHECKING:
    from oar.plans.plan import LeverPlan

Codes = NDArray[np.intp]
Kind = tuple[int, int]  # a label, and the one that is asked for, or `AWAY`
PEOPLE = 10.0  # what one of n people can tell is within so many n-ths
MANY_DIGITS = 5
COARSEST = 0.2  # steps of the share that is kept: coarser ones say nothing


class Wanted(NamedTuple):
    """Everyone's label (n,), the planned one, `AWAY` for who leaves, and who may be asked for what (n, k + 1)."""

    codes: Codes
    planned: Codes
    may: NDArray[np.bool_]


class Tried(NamedTuple):
    """A card, the one without a rule that it is rounded from, and what it is worth."""

    base: Card
    card: Card
    worth: RefitResult


def lever_card(plan: LeverPlan) -> tuple[Card, RefitResult]:
    """Return the card, and what a refit says if everyone answers it; raise where there is none."""
    problem = plan.problem
    if problem.regresses or problem.levers.relabel.soft is not None or problem.people.has_label_rows:
        raise DataError(
            "plan: its labels change by amounts that differ from member to member, and a card asks for one label or "
            "another; hand members their rows of plan.labels(), or plan with Relabel(most=…)."
        )
    refuse_small_classes(plan)
    trials = LeverTrials(plan)
    if not trials.refits.actors.any():
        raise DataError("plan: nobody does anything in it, so there is no card to publish.")
    return trials.said(trials.shortened(trials.best()))


class LeverTrials:
    """Cards of a plan, each tried by a refit of everybody's answers."""

    def __init__(self, plan: LeverPlan) -> None:
        self.plan, self.problem, self.refits = plan, plan.problem, Refits(plan)
        self._wanted = _wanted(plan)
        self._before = self.refits.verdict(self.refits.before, query_moves=False).loss
        self._planned = self.refits.verdict(self.refits.planned)

    def _kept(self, one: Tried) -> float:
        """Return the share of the plan's gain that a card keeps."""
        gain = self._before - self._planned.loss
        return (self._before - one.worth.loss) / gain if gain > 0 else 0.0

    def _rank(self, one: Tried) -> tuple[bool, float]:
        return self._planned.success and not one.worth.success, one.worth.loss

    def _will_do(self, found: list[Tried], share: float) -> bool:
        """Report whether the best of some cards keeps the plan's success, and such a share of its gain."""
        best = min(found, key=self._rank, default=None)
        return best is not None and not self._rank(best)[0] and self._kept(best) >= share

    def tried(self, base: Card, digits: int) -> Iterator[Tried]:
        """Yield cards of so many digits with rules, and what they are worth."""
        short = rounded(base, digits, sizes_of(self.problem, base))
        for rule in _rules(short, self.plan, self._wanted, digits):
            card = replace(short, rule=rule)
            one = Tried(base, card, self.refits.verdict(self.plan.followed(card).contribution()))
            if np.isfinite(one.worth.loss):
                yield one

    def best(self) -> Tried:
        """Return the best card of many digits; raise where all of them lose too much."""
        found: list[Tried] = []
        for bases in _bases(self.plan):
            for base in bases:
                found += self.tried(base, MANY_DIGITS)
                if self._will_do(found, ENOUGH):
                    break
            if self._will_do(found, LEAST):
                return min(found, key=self._rank)
        best = min(found, key=self._rank, default=None)
        kept = 0.0 if best is None else max(self._kept(best), 0.0)
        lost = "" if best is None or not self._rank(best)[0] else ", and lose its success"
        raise DataError(
            f"plan: it chooses people one by one, and members who go by what each finds alone would keep {kept:.0%} of "
            f"its gain{lost}; a card must keep {LEAST:.0%}. Allow more of them (most=…), or hand members their rows of "
            "plan.labels() and plan.leavers()."
        )

    def shortened(self, best: Tried) -> Tried:
        """Return a card with the fewest digits that keep its success and nearly all of its gain."""
        for digits in FEWEST_FIRST[: FEWEST_FIRST.index(MANY_DIGITS)]:
            for one in self.tried(best.base, digits):
                if one.worth.success >= best.worth.success and self._kept(one) >= ENOUGH * self._kept(best):
                    return one
        return best

    def said(self, one: Tried) -> tuple[Card, RefitResult]:
        """Return a card that says what it keeps, in steps that no single one of its people moves far."""
        step, rule = one_two_five(PEOPLE / self.problem.people.size), one.card.rule
        assert rule is not None
        keeps = None if step > COARSEST else float(np.clip(below(self._kept(one), step), 0, 1))
        return replace(one.card, rule=replace(rule, keeps=keeps)), one.worth


def _wanted(plan: LeverPlan) -> Wanted:
    people = plan.problem.people
    codes, planned = people.class_rows().argmax(axis=1), plan.targets.argmax(axis=1)
    return Wanted(codes, np.where(plan.away, AWAY, planned), may_be_asked(plan.problem))


def may_be_asked(problem: Problem) -> NDArray[np.bool_]:
    """Return who may be asked for which label, and in the last column to leave (n, k + 1)."""
    people, levers, present = problem.people, problem.levers, problem.people.row_weights > 0
    may = np.zeros((people.size, len(people.classes) + 1), dtype=bool)
    may[:, :-1] = (levers.relabel.mask & present)[:, None] & np.broadcast_to(levers.relabel.allowed, may[:, :-1].shape)
    may[:, AWAY] = levers.withhold.mask & present
    return may


def label_moves(plan: LeverPlan, card: Card, places: Codes) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Return moves (n, d), targets (n, k), and who leaves (n,), if everyone who may be asked goes by a card."""
    problem, everyone = plan.problem, np.arange(plan.problem.people.size)
    codes, to = problem.people.class_rows().argmax(axis=1), card.decided(problem)
    to = np.where(may_be_asked(problem)[everyone, to], to, codes)
    away = to == AWAY
    targets = np.eye(len(problem.people.classes))[np.where(away, codes, to)]
    return np.where(away[:, None], 0.0, card.moves_of(problem, places, targets)), targets, away


def _bases(plan: LeverPlan) -> Iterator[Iterator[Card]]:
    """Yield cards without a rule, by the model's own signals and by others'."""
    own = own_model(plan.problem)
    for models in (() if own is None else (own,), stand_ins(plan.problem)):
        yield _bases_by(plan, models)


def _bases_by(plan: LeverPlan, models: tuple[Differentiable, ...]) -> Iterator[Card]:
    """Yield cards by signals of some models, where the plan leads and before anybody does anything."""
    for source in sources(plan.problem, models):
        for pair in source.pairs((plan.contribution(), Contribution()), plan.query_move):
            yield from _some(plan, source, pair)


def _some(plan: LeverPlan, source: SignalSource, pair: Pair) -> Iterator[Card]:
    found = cards_by(plan, source, pair)
    return found if plan.each.any() else islice(found, 1)  # pulls are for those who move


def _rules(card: Card, plan: LeverPlan, wanted: Wanted, digits: int) -> Iterator[LabelRule]:
    """Yield rules for a card: of each kind of change as many as are planned, and the most useful of any kind."""
    values = card.label_scores(card.seen(plan.problem))
    kinds = [(label, to) for label in range(values.shape[1]) for to in (*range(values.shape[1]), AWAY) if label != to]
    able = {kind: worth(values, wanted.codes, kind[1])[_able(wanted, *kind)] for kind in kinds}
    largest = max((float(np.abs(one).max()) for one in able.values() if one.size), default=0.0)
    if not largest > 0:
        return
    step = 10.0 ** (np.floor(np.log10(largest)) - digits + 1)
    counts = {kind: int(((wanted.codes == kind[0]) & (wanted.planned == kind[1])).sum()) for kind in kinds}
    yield _passed_by(able, counts, step)
    for leaving in (True, False):
        some = {kind: one for kind, one in able.items() if (kind[1] == AWAY) == leaving and one.size}
        many = sum(count for kind, count in counts.items() if (kind[1] == AWAY) == leaving)
        if not many:
            continue
        rest = {kind: count for kind, count in counts.items() if kind not in some}
        yield _passed_by(able, rest | _most_useful(some, many), step)


def _most_useful(able: dict[Kind, Array], many: int) -> dict[Kind, int]:
    """Return how many of each kind are among so many of the most useful changes, without kinds of a few."""
    left = dict(able)
    while left:
        top = np.sort(np.concatenate(list(left.values())))[::-1][:many].min(initial=np.inf)
        counts = {kind: int((one >= top).sum()) for kind, one in left.items()}
        few = [kind for kind, count in counts.items() if 0 < count < FEWEST]
        if not few:
            return counts
        del left[min(few, key=counts.__getitem__)]
    return {}


def _able(wanted: Wanted, label: int, to: int) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (wanted.codes == label) & wanted.may[:, to]
    return found


def _passed_by(able: dict[Kind, Array], counts: dict[Kind, int], step: float) -> LabelRule:
    """Return round thresholds that at most so many of each kind pass, and of no kind fewer than FEWEST."""
    found = []
    for kind, values in able.items():
        count = min(counts.get(kind, 0), values.size)
        if count < FEWEST:
            continue
        ordered = np.sort(values)[::-1]
        over = float(ordered[count]) if count < values.size else float(ordered[-1]) - step
        least = (np.floor(over / step) + 1) * step
        if (values >= least).sum() >= FEWEST:
            found.append(Threshold(*kind, float(f"{least:.12g}")))
    return LabelRule(tuple(found))

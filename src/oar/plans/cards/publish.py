"""The card of a plan, from which each person computes its own move.

A card's average direction of class c, in units of the budget, and the pull κ towards it are

    D_c = Σ_i w_i y_ic δ_i / Σ_i w_i y_ic r_i   (of norm at most 1)        κ = PULL · Σ_i ‖∇_x s_i‖₂ / Σ_i r_i

With the first PULL, 10⁻⁴, the pull on a typical member at the end of its budget is a ten-thousandth of that of its
score: enough to decide where the score is level, and too little to matter elsewhere. Everyone's answers are then tried
by a refit. Where they lose more than a hundredth of the plan's gain (the signal is nearly nothing, or that of a kink)
stronger pulls are tried, up to one that leaves little but the directions, and the best card counts. Unless it keeps
nine tenths of the gain there is none. At last its costs are rounded up as coarsely as leaves it that much and its
success, if it has any, and its numbers to the fewest digits that keep ENOUGH of what it gains then (`digits`): the more
digits, the more is told of single people.

These refits choose a card; they are no audit. `oar.audit(plan.followed(card))` is.

The card of a plan with one direction a class has its directions, with as few digits as the answer needs. A refit of
nearest centroid needs no rows: class c's mean moves by the class's average budget times its direction. So all is
measured from one reading of the data, chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.errors import DataError
from oar.models import Differentiable, NearestCentroid
from oar.models.wrap.scaled import Scaled
from oar.plans.cards.card import Array, Broadcast, Card
from oar.plans.cards.digits import COARSEST_FIRST, FEWEST_FIRST, dearer, rounded, shorter, sizes_of
from oar.plans.cards.signals import Pair, SignalSource, card_name, own_model, planned_pair, sources, stand_ins
from oar.plans.cards.table.card import TableCard, without_answer
from oar.plans.cards.usual_values import usual_ranges
from oar.plans.refits import Refits, effects
from oar.problem import Problem
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import RefitResult, judged_by_means

if TYPE_CHECKING:
    from oar.plans.plan import ClassPlan, MemberPlan, Plan

FEWEST = 5  # people behind any average that is published
MORE_ROOM = (
    ", which would tell what single people's data change in it, so it has no card; plan with a little more budget than "
    "is just enough, or hand members their rows of plan.moves()."
)
PULLS = (1e-4, 1.0, 100.0)
ENOUGH, LEAST = 0.99, 0.9  # shares of the plan's gain: that end the search, and that a card must keep


def publish(plan: MemberPlan) -> tuple[Card, RefitResult]:
    """Return the card of a plan, and what a refit says if everyone answers it; raise where there is none."""
    problem = plan.problem
    if problem.own_action is not None:
        problem.only_balls("a card that members answer")
    if not plan.each.any():
        who = "only the query moves in it" if plan.query_move.any() else "nobody moves in it"
        raise DataError(f"plan: {who}, so there is no card to publish.")
    refuse_small_classes(plan)
    if problem.limits is not None:
        from oar.plans.cards.publish_table import more_table_cards, table_cards

        return _best(plan, table_cards(plan), more_table_cards(plan))
    return _best(plan, map(plan.as_published, _cards(plan)), map(plan.as_published, _more_cards(plan)))


def _cards(plan: MemberPlan) -> Iterator[Card]:
    """Yield cards of plain features by the plan's own signal, or by the model's where the plan leads."""
    own = own_model(plan.problem)
    planned = planned_pair(plan)
    if planned and own and own.unscaled is own:
        yield from _pulled(plan, own, planned, None)
        return
    for source in sources(plan.problem, (own,) if own else ()):
        for pair in [planned] if planned else source.pairs((Contribution(plan.each),), plan.query_move):
            yield from _pulled(plan, source.model, pair, source)


def _more_cards(plan: MemberPlan) -> Iterator[Card]:
    """Yield cards by the model's signal before anybody moves and halfway, by those of other models, and by none."""
    problem, own = plan.problem, own_model(plan.problem)
    for source in sources(problem, () if own is None else (own,)):
        for pair in source.pairs((Contribution(), Contribution(0.5 * plan.each)), plan.query_move):
            yield from _pulled(plan, source.model, pair, None if source.model.unscaled is source.model else source)
    for source in sources(problem, stand_ins(problem)):
        for pair in source.pairs((Contribution(plan.each), Contribution()), plan.query_move):
            yield from _pulled(plan, source.model, pair, source)
    yield _bare(plan)


def _bare(plan: MemberPlan) -> Card:
    """Return the card of average directions alone."""
    problem, people = plan.problem, plan.problem.people
    shares = np.ones((people.size, 1)) if problem.regresses else plan.targets_after
    radii = problem.allowance.everyones(people.size)
    return Card(
        model=card_name(problem),
        directions=directions_of(plan.each, people.row_weights[:, None] * shares, radii),
        **common_fields(plan),
    )


def cards_by(plan: MemberPlan, source: SignalSource, pair: Pair) -> Iterator[Card]:
    """Yield cards of a plan by θ and v of some model."""
    if plan.problem.limits is not None:
        from oar.plans.cards.publish_table import table_card

        yield table_card(plan, source, *pair)
        return
    yield from _pulled(plan, source.model, pair, source)


def _pulled(plan: MemberPlan, model: Differentiable, pair: Pair, source: SignalSource | None) -> Iterator[Card]:
    """Yield cards by θ and v, with growing pulls; said in round units by their source, or as they are without one."""
    bare, radii = _bare(plan), plan.problem.allowance.everyones(plan.problem.people.size)
    if source is None:
        sent = Broadcast(model, *pair, 1.0)
    else:
        parameters, signal, seen = source.told(*pair)
        scaled = ("frozen" if model.frozen else "refitted") if isinstance(model, Scaled) else None
        sent = Broadcast(model.unscaled, parameters, signal, 1.0, seen, scaled)
    least = _pull(plan, sent, radii)
    for pull in PULLS:
        yield replace(bare, broadcast=replace(sent, pull=pull * least))


def class_card(plan: ClassPlan) -> Card:
    """Return the card of a plan with one direction a class; raise where there is none."""
    problem, directions, query_move = plan.problem, plan.directions, plan.query_move
    if query_move.any() and not directions.any():
        raise DataError("plan: only the query moves in it, so there is no card to publish; use plan.query_move.")
    assert isinstance(problem.model, NearestCentroid)
    first, average = problem.model.fit(problem.people), _average_budgets(problem)

    def told(directions: Array, query_move: Array | float) -> RefitResult:
        """Return the verdict on everyone's move by its budget times its class's direction."""
        points, members = problem.asked.points + query_move, problem.asked.members
        if members is not None:
            radii = problem.allowance.everyones(problem.people.size)[members]
            codes = np.array([problem.people.codes(at, at + 1)[0] for at in members])
            points = points + radii[:, None] * directions[codes]
        means = first.positions + average[:, None] * directions
        each = [judged_by_means(first, means, *one) for one in zip(problem.wishes, points, strict=True)]
        losses, reached = (np.array(part) for part in zip(*each, strict=True))
        return RefitResult(*problem.combined(losses, reached))

    before, full = told(np.zeros_like(directions), 0.0), told(directions, query_move)
    for digits in FEWEST_FIRST:
        short = shorter(directions, digits)
        found = told(short, query_move)
        enough = before.loss - found.loss >= ENOUGH * (before.loss - full.loss)
        if enough and found.success >= full.success:
            return Card(model=problem.model.name, directions=short, digits=digits, **common_fields(plan))
    raise DataError(f"plan: members would need more than {FEWEST_FIRST[-1]} digits of its directions{MORE_ROOM}")


def _average_budgets(problem: Problem) -> Array:
    """Return how far the people of each class may move on average (k,); raise where a class is too small for a card."""
    totals, squares, spent = np.zeros((3, len(problem.people.classes)))
    for chunk in problem.people.chunks():
        weights, radii = chunk.row_weights, problem.allowance.of(chunk.start, chunk.stop)
        for sums, each in ((totals, weights), (squares, weights**2), (spent, weights * radii)):
            sums += np.bincount(chunk.codes, weights=each, minlength=totals.size)
    refuse_few(problem.people.classes, totals, squares)
    return spent / totals


def common_fields(plan: Plan) -> dict[str, Any]:
    """Return what every card says."""
    problem, people, allowance = plan.problem, plan.problem.people, plan.problem.allowance
    return {
        "norm": allowance.norm,
        "budget": float(allowance.budget) if allowance.single else None,
        "goal": problem.published_goal,
        "participants": "everyone" if problem.everyone_acts and _everyone_may(problem) else "selected",
        "classes": None if problem.regresses else people.classes,
        "features": people.names,
        "outputs": people.value_rows().shape[1] if problem.regresses else 0,
        "usual": usual_ranges(people, problem.limits),
    }


def _everyone_may(problem: Problem) -> bool:
    """Report whether whoever may be asked for its label, or to leave, is everybody but those who ask."""
    levers, others = problem.levers, np.ones(problem.people.size, dtype=bool)
    others[problem.asked.among] = False
    return all(bool(one.mask[others].all()) for one in (levers.relabel, levers.withhold) if one.given)


def directions_of(moves: Array, shares: Array, radii: Array) -> Array:
    """Return D (k, d); zero for a class in which fewer than FEWEST people move."""
    spent = shares * radii[:, None]
    sums = spent.sum(axis=0)
    enough = effective_number(sums, (spent**2).sum(axis=0)) > FEWEST - 1e-6
    return np.where(enough[:, None], (shares.T @ moves) / np.where(enough, sums, 1.0)[:, None], 0.0)


def effective_number(sums: Array, squares: Array) -> Array:
    """Return (Σ a)² / Σ a²: how many people stand behind an average, if they counted equally."""
    return sums**2 / np.where(squares > 0, squares, 1.0)


def _pull(plan: MemberPlan, sent: Broadcast, radii: Array) -> float:
    """Return Σ ‖∇_x s‖₂ / Σ r over those who move; 1 where there is no slope to compare with."""
    people, targets = plan.problem.people, plan.problem.people.target_rows(plan.problem.regresses)
    rows = np.asarray(people.features, dtype=np.float64) + plan.each
    slopes = sent.score(rows, np.ascontiguousarray(sent.model.target_rows(targets)))[1]
    moving = radii > 0
    if not moving.any():
        return 1.0
    return float(np.linalg.norm(slopes[moving], axis=1).sum() / radii.sum())


def refuse_small_classes(plan: MemberPlan) -> None:
    """Raise where what a card says of a class, or of everyone, would be that of fewer than FEWEST people."""
    people, classed = plan.problem.people, not plan.problem.regresses
    shares = people.row_weights[:, None] * (people.class_rows() if classed else np.ones((people.size, 1)))
    refuse_few(people.classes if classed else None, shares.sum(axis=0), (shares**2).sum(axis=0))


def refuse_few(classes: tuple | None, sums: Array, squares: Array) -> None:
    """Raise where fewer than FEWEST people stand behind sums (k,) of weights, by those of their squares."""
    numbers = effective_number(sums, squares)
    least = int(np.argmin(numbers))
    if numbers[least] < FEWEST - 1e-6:
        where, merge = ("", "") if classes is None else (f" in class {classes[least]!r}", "merge small classes, or ")
        raise DataError(
            f"plan: its card says what is learned from {'everyone' if classes is None else 'the people of a class'}, "
            f"and needs at least {FEWEST} people who count alike so that it is nobody's own data, got "
            f"{numbers[least]:.3g}{where}; {merge}hand members their rows of plan.moves()."
        )


def _best(plan: MemberPlan, cards: Iterable[Card], last_resort: Iterable[Card] = ()) -> tuple[Card, RefitResult]:
    """Refit on what members make of each card until one will do; raise unless enough of the plan's gain is kept.

    If the plan succeeds, a card that does, too, is better than one that does not. The last resort is for when none of
    the cards keeps enough.
    """
    refits = Refits(plan)

    def told(moves: Array) -> RefitResult:
        return refits.verdict(refits.planned.with_moves(moves))

    # Who cannot answer any card is no reason against one: it is held to what the others' part of the plan comes to.
    able = np.where(without_answer(plan.problem)[:, None], 0.0, plan.each)
    before, planned = refits.verdict(refits.before, query_moves=False).loss, told(able)
    found: list[tuple[Card, RefitResult]] = []

    def rank(one: tuple[Card, RefitResult]) -> tuple[bool, float]:
        return planned.success and not one[1].success, one[1].loss

    for some, enough in ((cards, ENOUGH), (last_resort, LEAST)):
        for card in some:
            failed, reached = min(map(rank, found), default=(True, np.inf))
            if not failed and before - reached >= enough * (before - planned.loss):
                break
            worth = told(plan.followed(card).each)
            if np.isfinite(worth.loss):
                found.append((card, worth))
    _, reached = min(map(rank, found), default=(True, np.inf))
    if not before - reached >= LEAST * (before - planned.loss):
        raise DataError(
            f"plan: its signal does not determine its moves, so it has no card: members who answer it would change the "
            f"goal loss from {before:.4g} to {reached:.4g}, where the plan reaches {planned.loss:.4g}. Where the goal "
            "is reached with room to spare the signal vanishes: plan with a smaller budget. Where the solver stopped "
            f"early, allow more steps. {_to_rare(plan)}Or hand members their rows of plan.moves()."
        )
    card, worth = min(found, key=rank)
    harm = _harm(plan, card, worth)
    if harm:
        raise DataError(
            "plan: it has no card, because members who answer one do not keep the limits on what may change for "
            f"others ({harm}); hand members their rows of plan.moves(), or allow more."
        )
    return _as_coarse_as_may_be(plan, card, worth, LEAST * (before - planned.loss), before, told)


def _to_rare(plan: MemberPlan) -> str:
    """Say where the plan has people switch to levels that a card must not name."""
    from oar.plans.cards.rare_levels import rare_levels  # which needs this file's FEWEST

    people = plan.problem.people
    rare = [one.coordinates for one in rare_levels(people) if one.pool.size] if people.schema else []
    if not rare or not (plan.each[:, np.concatenate(rare)] > 0).any():
        return ""
    return (
        f"The plan has people switch to levels that fewer than {FEWEST} have, which a card does not name: leave them "
        "out of the limits' `levels`. "
    )


def _as_coarse_as_may_be(
    plan: MemberPlan, card: Card, worth: RefitResult, least: float, before: float, told: Callable[[Array], RefitResult]
) -> tuple[Card, RefitResult]:
    """Return a card with the coarsest costs that keep its success and at least so much gain, and what it is worth.

    It has the fewest digits that keep its success and nearly all of that gain.
    """
    people = plan.problem.people
    priced = any(each.per_spread for each in card.first.terms.columns)
    rough = plan.problem.model.only_asked  # no two of its trainings are worth the same to a hundredth
    for finer in COARSEST_FIRST if priced else (1.0,):
        dear, found = card, worth
        if isinstance(card, TableCard) and priced:
            dear = replace(card, table=dearer(card.table, people, finer))
            found = told(plan.followed(dear).each)
        if found.success < worth.success or not before - found.loss >= least:
            continue
        sizes = sizes_of(plan.problem, dear.first)
        for digits in FEWEST_FIRST:
            short = dear.each(partial(rounded, digits=digits, sizes=sizes))
            tried = told(plan.followed(short).each)
            enough = before - tried.loss >= (least if rough else ENOUGH * (before - found.loss))
            if enough and tried.success >= found.success and not _harm(plan, short, tried):
                return short, tried
    raise DataError(f"plan: members' answers would need more than {FEWEST_FIRST[-1]} digits of its signal{MORE_ROOM}")


def _harm(plan: MemberPlan, card: Card, worth: RefitResult) -> str:
    """Say which of the plan's limits on what may change for others are broken by members who answer a card."""
    if plan.problem.keep is None or worth.success:
        return ""
    harm = effects(plan.followed(card))
    return "the model cannot be refitted" if harm is None else "; ".join(harm.broken)

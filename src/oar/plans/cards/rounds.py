"""Cards of several rounds: one for each, of which a member answers that of the round in which it hands in its data.

Rounds share the signal, which is everybody's, and differ in their average directions, in how far members go where a
budget is for all rounds together, and in whether anybody is asked at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.actions.limits.round_steps import below, one_two_five, share_of
from oar.checks import is_whole, with_near_names
from oar.errors import DataError
from oar.plans.cards.card import Array, Card
from oar.plans.cards.publish import directions_of

if TYPE_CHECKING:
    from oar.plans.rounds.plan import OnlinePlan

FINEST = 0.01  # of a budget


@dataclass(frozen=True, eq=False)
class RoundsCard:
    """A published card for each round.

    Attributes:
        cards: in the order of the rounds.
    """

    cards: tuple[Card, ...]

    @property
    def digits(self) -> int | None:
        """How many digits its numbers have."""
        return self.cards[0].digits

    @property
    def single(self) -> Card:
        """Refuse: an audit needs all rounds, and the rule by which the model is updated, which are not on a card."""
        raise DataError(
            "card: must be of one refit here, got one of several rounds; audit it in Python, with "
            "oar.audit(result.plan.followed(card))."
        )

    @property
    def first(self) -> Card:
        """The card of the first round, which says whatever is the same in all of them."""
        return self.cards[0]

    def each(self, change: Callable[[Card], Card]) -> RoundsCard:
        """Return the same with every round's card changed."""
        return RoundsCard(tuple(map(change, self.cards)))

    def of(self, round: int) -> Card:
        """Return the card of a round, of which the first is 0."""
        last = len(self.cards) - 1
        if not is_whole(round) or not 0 <= round <= last:
            raise DataError(f"round: must be a whole number from 0 to {last}, got {round!r}.")
        return self.cards[int(round)]

    @with_near_names
    def respond(self, features: Any, label: Any, budget: float | None = None, keep: Any = (), *, round: int = 0) -> Any:
        """Return the move of one member who hands in its data in a round; else as `Card.respond`.

        Args:
            features: the member's own values.
            label: its own label, or its value(s).
            budget: how far it is willing to go; None means the common budget of its round.
            keep: what it cannot or will not change.
            round: 0, 1, …: the round in which the member hands in its data.
        """
        return self.of(round).respond(features, label, budget, keep)

    @with_near_names
    def doubts(self, features: Any) -> list[str]:
        """Return which of a member's values may be mistakes, in words."""
        return self.first.doubts(features)

    @with_near_names
    def save(self, path: str | Path) -> None:
        """Write the card as JSON, which `Card.load` reads."""
        from oar.plans.cards.file import write

        write(self, Path(path))


def in_rounds(plan: OnlinePlan, card: Card) -> RoundsCard:
    """Return a card for each round of a plan, with the round's own directions."""
    problem, people, stream = plan.problem, plan.problem.people, plan.problem.stream
    shares = np.ones((people.size, 1)) if problem.regresses else people.class_rows()
    weighed, radii = people.row_weights[:, None] * shares, problem.radii
    parts, found = _parts(plan), []
    who = "everyone" if (radii[stream.when >= 0] > 0).all() else "selected"  # of those who arrive
    for number in range(stream.rounds):
        rows = stream.rows(number)
        budget = None if card.budget is None else card.budget * float(parts[number])
        asked = plan.each[rows].any()
        directions = directions_of(plan.each[rows], weighed[rows], radii[rows]) if asked else 0.0 * card.directions
        found.append(replace(card, directions=directions, budget=budget if asked else 0.0, participants=who))
    return RoundsCard(tuple(found))


def _parts(plan: OnlinePlan) -> Array:
    """Return which part of its budget a member may use in each round (T,): all of it, unless they are for all together.

    Then it is as everybody's effort is spread over the rounds, so that nobody exceeds its own.
    """
    efforts = plan.efforts()
    if not plan.problem.has_totals or not efforts.sum() > 0:
        return np.ones(len(efforts))
    step = one_two_five(share_of(plan.problem.people.size, FINEST))  # rounded down, as all that is told of people
    return np.array([below(float(part), step) for part in efforts / efforts.sum()])


def moves_in_rounds(plan: OnlinePlan, card: RoundsCard) -> Array:
    """Return everyone's moves (n, d) if everybody answers the card of its round."""
    problem, people, moves = plan.problem, plan.problem.people, np.zeros_like(plan.each)
    if len(card.cards) != problem.rounds:
        raise DataError(
            f"card: must be of the plan's {problem.rounds} rounds, got one of {len(card.cards)}; use plan.card()."
        )
    features, targets = np.asarray(people.features, dtype=np.float64), people.target_rows(problem.regresses)
    for number, one in enumerate(card.cards):
        rows = problem.stream.rows(number)
        moves[rows] = one.responses(features[rows], targets[rows], np.minimum(problem.radii[rows], one.most))
    return moves

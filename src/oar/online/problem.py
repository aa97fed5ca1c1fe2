"""WHAT IS ASKED OVER TIME: a query with a goal for the last round or for every round, put to a stream and a rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oar.online.rule import Rule
from oar.online.stream import Stream
from oar.problem import Problem, Query


@dataclass(frozen=True, eq=False)
class OnlineProblem:
    """Everything that planning over time needs; checked when it is made.

    Args:
        stream: who arrives when.
        model: what the operator trains.
        rule: how it is updated when a batch arrives.
        query: who asks, and for what.
        action: an oar.Perturb for everyone of every round, or a list of T of them, one for each round.
        goal_for: "last": the goal is wanted after the last round; "every": after each.
        shared: False: everyone may use its budget in every round in which it is there; True: budgets are for all
            rounds together, Σ_t ‖δ_it‖ ≤ ε_i for each person of `stream.who`.
        start: θ before the first round; None for that of a fit to the stream's history, or, where there is none, of
            the model's own start.
    """

    stream: Stream
    model: Any
    rule: Rule
    query: Query
    action: Any
    goal_for: str = "last"
    shared: bool = False
    start: Any = None

    @property
    def everyone(self) -> Problem:
        """The same as one problem of all rounds' people, of which limits, goals and who takes part are read."""
        raise NotImplementedError

"""A rule, and the rounds of people that it is checked on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions import Perturb
from oar.online import OnlineProblem, Path, PulledBack, Rollout, Rule, Stream, Update
from oar.online.bound_training import update_of
from oar.problem import Query

Array = NDArray[np.float64]
ROUNDS = 3


@dataclass
class RuleCase:
    """A rule with a model, rounds of people that it is checked on, and somebody who asks."""

    rule: Rule
    model: Any
    stream: Stream
    query: Query
    seed: int

    def problem(self, **changes: Any) -> OnlineProblem:
        """Return the problem over time, with some of it changed."""
        given = {"stream": self.stream, "model": self.model, "rule": self.rule, "query": self.query}
        return OnlineProblem(**(given | {"action": Perturb(1.0), "goal_for": "every"} | changes))

    @property
    def without_history(self) -> RuleCase:
        """The same rounds, with nobody before them."""
        return self._of(self.stream.when >= 0)

    @property
    def lacking_a_class(self) -> RuleCase:
        """The same, with nobody of one class in round 1."""
        people = self.stream.people
        return self._of((self.stream.when != 1) | (people.codes(0, people.size) != 0))

    def _of(self, kept: NDArray[np.bool_]) -> RuleCase:
        rows = np.flatnonzero(kept)
        return replace(self, stream=Stream(self.stream.people.some(rows), self.stream.when[rows]))

    @cached_property
    def walk(self) -> Rollout:
        """The rule, run over the rounds."""
        return Rollout(self.problem())

    @cached_property
    def moves(self) -> Array:
        """Some moves of everyone who acts."""
        return 0.2 * self.draw((self.stream.people.size, self.stream.people.dimensions)) * self.acting

    @property
    def acting(self) -> NDArray[np.bool_]:
        """Who acts, (n, 1)."""
        return (self.stream.when >= 0)[:, None]

    @cached_property
    def path(self) -> Path:
        """θ after every round."""
        return self.walk.forward(self.moves)

    def draw(self, shape: tuple[int, ...], number: int = 0) -> Array:
        """Draw standard normal numbers; the same ones for the same shape and number."""
        return np.random.default_rng([self.seed, number, *shape]).standard_normal(shape)

    def before(self, number: int) -> Array | None:
        """Return θ before a round."""
        return self.path.parameters[number - 1] if number > 0 else self.path.first

    def update(self, number: int, order: NDArray[np.intp] | None = None, before: Array | None = None) -> Update:
        """Return a round's work made afresh, its people in another order where one is given."""
        rows = self.walk.rows(number)
        rows = rows if order is None else rows[order]
        people, newest = self.stream.people.some(rows), self.stream.when[rows] == number
        given = self.before(number) if before is None else before
        return update_of(self.model, people, newest, number, _copied(given), self.moves[rows])

    def pulled(self, number: int, adjoint: Array) -> PulledBack:
        """Pull an adjoint back through a round."""
        after = self.path.parameters[number]
        return self.rule.pull_back(self.update(number), after.copy(), adjoint.copy())


def _copied(array: Array | None) -> Array | None:
    return None if array is None else array.copy()

"""Gradient matching (Witches' Brew, Geiping et al. 2021): members align their training gradient with the query's.

If the members' training gradient G = Σ w_i ∇_θ ℓ(θ; x_i + δ_i, y_i) has the direction of the gradient of the query's
goal loss, g = ∇_θ L, a training step on their data is a step towards the goal. At the deployed θ, members move to
maximise

    cos(G, g) = Gᵀg / (‖G‖ ‖g‖),        u = ∂cos/∂G = g/(‖G‖‖g‖) − cos · G/‖G‖²,        ∂cos/∂δ_i = w_i ∇_x s_i(θ; u),

with s_i = uᵀ∇_θ ℓ_i: this is the gradient of a score with signal u. (`oar.signals.gradient_matching` is the same idea
for planning: its signal is along g itself, as here if G is orthogonal to g or very long.)

Steps have one length for everybody, along the extreme point of the unit ball (signs for p = ∞, the normalised
gradient for p = 2, one coordinate for p = 1), projected onto each member's ball, and shrink; the best point on the way
counts. The starts are no move, the full response to v = g, and random moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.checks import with_near_names
from oar.progress import is_late
from oar.typing import Label
from oar.worlds.actors.common import Movers, code_of, fitting, handed_in_before, handed_in_now
from oar.worlds.deployed.model import DeployedModel, deployed
from oar.worlds.people.crowds import Data
from oar.worlds.protocol import Array, Deed, View

FIRST = 0.5  # of the budget: the first step


@with_near_names
@dataclass(frozen=True, eq=False)
class GradientMatching(Movers):
    """Gradient matching: members move so that training on their data moves the deployed model towards the query's goal.

    Args:
        query: x† (d,).
        goal: its goal, a label.
        share: the share of arrivals who are members, drawn once for each person.
        budget: how far each may move.
        norm: 1, 2 or numpy.inf.
        restarts: the number of random starts besides the fixed ones.
        steps: the number of steps from each start.
        name: their name in records.
    """

    query: Any
    goal: Label
    share: float
    budget: float
    norm: Any = np.inf
    restarts: int = 2
    steps: int = 60
    name: str = "gradient matching"

    def act(self, view: View) -> Deed:
        """Move to the best match of the gradients."""
        match = matching(view, self.query, self.goal)
        if not view.mine.size or self.budget == 0 or not match.pull.any():
            return Deed()
        radii = np.full(view.mine.size, self.budget)
        stay = np.zeros_like(match.members.features)
        response = self.norm.maximise(match.slopes(match.members.features, match.pull), radii)
        random = [self.norm.maximise(view.rng.standard_normal(stay.shape), radii) for _ in range(self.restarts)]
        found = [self._climbed(match, start) for start in (stay, response, *random)]
        moves, cosine = max(found, key=lambda one: one[1])
        return Deed(moves=moves, note={"cosine": cosine, "cosine_before": match(stay)[0]})

    def _climbed(self, match: Match, moves: Array) -> tuple[Array, float]:
        radii = np.full(len(moves), self.budget)
        best, (highest, slopes) = moves, match(moves)
        for step in range(self.steps):
            if is_late():
                break
            length = FIRST * self.budget * (1 - step / self.steps)
            # Projecting twice costs nothing and takes off what rounding leaves outside.
            ahead = moves + self.norm.maximise(slopes, np.full(len(moves), length))
            moves = self.norm.project(self.norm.project(ahead, radii), radii)
            cosine, slopes = match(moves)
            if cosine > highest:
                best, highest = moves, cosine
        return best, highest


@dataclass(frozen=True, eq=False)
class Match:
    """The cosine between the members' training gradient and the query's. `pull` is g."""

    at: DeployedModel
    members: Data
    pull: Array

    def __call__(self, moves: Array) -> tuple[float, Array]:
        """Return the cosine and its gradient in the moves (m, d); both 0 where members cause no gradient."""
        rows = self.members.features + moves
        caused = self.at.gradient(Data(rows, self.members.codes, self.members.weights))
        size, wanted = float(np.linalg.norm(caused)), float(np.linalg.norm(self.pull))
        if size == 0 or wanted == 0:
            return 0.0, np.zeros_like(rows)
        cosine = float(caused @ self.pull) / (size * wanted)
        signal = self.pull / (size * wanted) - cosine * caused / size**2
        return cosine, self.slopes(rows, signal)

    def slopes(self, rows: Array, signal: Array) -> Array:
        """Return the weighted gradients (m, d) of members' scores, had they these features."""
        return self.members.weights[:, None] * self.at.scores(rows, self.members.codes, signal)[1]


def matching(view: View, query: Array, goal: Any) -> Match:
    """Return the cosine as a function of the moves of an actor's members."""
    crowd, mine = view.crowd, view.mine
    code = code_of(goal, crowd.classes, "goal")
    # A scaler was fitted to what was handed in; before anything was, to these people.
    people = handed_in_before(view) if view.past else handed_in_now(view, Deed())
    at = deployed(view.operator.model, view.deployed.parameters, len(crowd.classes), people)
    members = Data(crowd.features[mine], crowd.codes[mine], crowd.row_weights[mine])
    return Match(at, members, at.goal(fitting(query, view), code)[1])

"""The protocol between the parts of a world: the people of a round, an actor's view, and its deed.

In a round people arrive; every actor observes (`View`) and acts (`Deed`) for its own people; the world checks each deed
against the actor's limits and refuses what exceeds them; the label policy labels the people who moved; the operator
retrains; the world records the round.

If outcomes depend on decisions (`DecisionArrivals`), the deployed model decides before most actors observe.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from oar.checks import with_near_names
from oar.people import Population
from oar.retraining.contribution import Contribution

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Crowd:
    """The people of one round.

    Attributes:
        features: (n, d), before anybody acts.
        codes: (n,), their classes, as positions in `classes`.
        classes: the labels, in the order of their codes; the same in every round.
        groups: (n,), each person's group, for reports alone: the operator does not see it.
        persons: (n,), the persons' numbers: the same number is the same person in every round.
        weights: (n,) training weights, or None.
        names: the names of the features, or None.
    """

    features: Array
    codes: Rows
    classes: tuple[Any, ...]
    groups: NDArray[Any]
    persons: Rows
    weights: Array | None = None
    names: tuple[str, ...] | None = None

    @property
    def size(self) -> int:
        """The number of people."""
        return len(self.features)

    @property
    def row_weights(self) -> Array:
        """Everyone's weight (n,); 1 if none are given."""
        return np.ones(self.size) if self.weights is None else np.asarray(self.weights, dtype=np.float64)


class Arrivals(Protocol):
    """The protocol of arrivals. The same round, seed and size give the same people.

    Arrivals may have an attribute `group_names` with the groups of all rounds; a collective with members of any other
    group is then refused.
    """

    classes: tuple[Any, ...]

    def draw(self, number: int, rng: np.random.Generator) -> Crowd:
        """Return who arrives in round `number` (0, 1, …); raise a DataError where the stream has ended."""

    def label(self, features: Array, crowd: Crowd, rows: Rows, number: int, rng: np.random.Generator) -> Rows:
        """Return the true classes (m,) of people of the crowd (`rows`), had they these features (m, d) in that round.

        The label policy "oracle" needs it; arrivals without true classes raise an OptionError.
        """


class DecisionArrivals(Arrivals, Protocol):
    """Arrivals whose records depend on the deployed model's decisions."""

    def decided(self, crowd: Crowd, predicted: Rows, number: int, rng: np.random.Generator) -> Crowd:
        """Return the records after the deployed model's decisions: other codes, perhaps other groups.

        `crowd` are the arrivals, as `draw` returned them, and `predicted` (n,) are their predicted classes, by the
        features that the model saw. `rng` is the same for every model, so that chance affects people alike under each;
        make the same draws for all predictions. The method is called for every deployed model, in the shadow world too,
        and must not keep state.
        """


@dataclass(frozen=True, eq=False)
class State:
    """The state of the operator, with the deployed model.

    Attributes:
        parameters: θ in the model's own form, as `model.predict(parameters, features)` takes it.
        flat: θ as one vector, for distances between models.
        retrained: whether this round changed it.
        kept: which of the round's people were used in training, (n,) bool; None means all.
        memory: the operator's own data from round to round.
        learned_from: the response (`Respond`) on which it was trained instead of the contributions; the round is then
            recorded with that response.
    """

    parameters: Any
    flat: Array
    retrained: bool = True
    kept: Mask | None = None
    memory: Any = None
    learned_from: Population | None = None


Respond = Callable[[State], Population]
"""The response of the round's people had the operator deployed this: everyone's data as they would be contributed."""


class Operator(Protocol):
    """The protocol of operators: the model, its updates, and the operator's defence."""

    name: str
    model: Any
    """What is deployed: answers predict, probabilities and goal_loss for `State.parameters`."""

    def begin(self, history: Population) -> State:
        """Return the state before the first round, fitted to the history."""

    def retrain(
        self, state: State, batch: Population, number: int, respond: Respond, rng: np.random.Generator
    ) -> State:
        """Return the state after round `number`, whose people contributed `batch`."""


@dataclass(frozen=True, eq=False)
class View:
    """The view of an actor before it acts.

    Attributes:
        number: the round, 0, 1, ….
        crowd: all arrivals, before anybody acts; if outcomes depend on decisions, with the records after the deployed
            model's decision (before it, for actors who act before the decision).
        mine: (m,), positions in the crowd of the people for whom this actor may act.
        operator: the operator: its model, and (for planning) its retraining.
        deployed: the presently deployed state, of the last round.
        past: the contributed data of earlier rounds, oldest first, history before round 0 included.
        rng: this actor's own random numbers: the same in every call of a round.
        spent: (m,), how far each of them has moved for this actor in earlier rounds; 0 where nobody has.
        spent_by: the same for any persons, by number, present or not.
    """

    number: int
    crowd: Crowd
    mine: Rows
    operator: Operator
    deployed: State
    past: tuple[Population, ...]
    rng: np.random.Generator
    spent: Array | float = 0.0
    spent_by: Callable[[Rows], Any] = np.zeros_like


@dataclass(frozen=True, eq=False)
class Deed:
    """The deed of an actor in a round; positions are those of `View.mine`.

    Attributes:
        moves: (m, d) changes of features; None where nobody moves.
        codes: (m,) contributed classes; None where labels are left to the label policy.
        leaves: (m,) bool, the members who withhold their data; None where nobody does.
        added: features (a, d) and codes (a,) of added points; None where none are.
        advice: individual recourse: (m, d) features after the advice and (m,) the promised class, −1 for people without
            advice; its validity is recorded from round to round. None for none.
        note: further records, by name, as numbers or words.
    """

    moves: Array | None = None
    codes: Rows | None = None
    leaves: Mask | None = None
    added: tuple[Array, Rows] | None = None
    advice: tuple[Array, Rows] | None = None
    note: dict[str, Any] = field(default_factory=dict)

    def contribution(self) -> Contribution:
        """Return its people's contribution: moves, codes as targets, and weights, 0 for leavers and 1 for others."""
        weights: Any = None if self.leaves is None else np.where(self.leaves, 0.0, 1.0)
        return Contribution(self.moves, self.codes, weights)  # type: ignore[arg-type]

    def acts(self, codes: Rows) -> Mask:
        """Return who (m,) changes or withholds its data; `codes` (m,) are classes before."""
        return self.contribution().acts(_before(codes))

    def if_only(self, acting: Mask, codes: Rows) -> Deed:
        """Return the same if only these (m,) act; `codes` (m,) are classes before. Added points stay."""
        moves, targets, weights = self.contribution().if_only(acting, _before(codes)).parts
        return replace(self, moves=moves, codes=targets, leaves=None if weights is None else weights == 0)

    def counts(self, codes: Rows) -> dict[str, int]:
        """Return how many are relabelled, have left and are added; `codes` (m,) are classes before."""
        return {
            "relabelled": 0 if self.codes is None else int((self.codes != codes).sum()),
            "left": 0 if self.leaves is None else int(self.leaves.sum()),
            "added": 0 if self.added is None else len(self.added[0]),
        }


def _before(codes: Any) -> Contribution:
    return Contribution(None, codes, np.ones(len(codes)))


@with_near_names
@dataclass(frozen=True)
class Caps:
    """The limits of an actor in a round; the world checks every deed against them.

    Attributes:
        budget: the longest move of each. norm: its norm.
        labels, leavers, added: the largest numbers of changed labels, of leavers, and of added points.
        total: the longest move of each over all rounds together; ∞, or None, where rounds do not share a budget.
    """

    budget: float = 0.0
    norm: Any = 2
    labels: int = 0
    leavers: int = 0
    added: int = 0
    total: float = np.inf

    def __post_init__(self) -> None:
        """Read None as no limit."""
        object.__setattr__(self, "total", np.inf if self.total is None else self.total)


class Actor(Protocol):
    """Somebody who acts in a world: individuals, a collective, labellers, curators, poisoners.

    An actor with a true attribute `before_decision` acts before the deployed model decides (`DecisionArrivals`), which
    then sees its people's moved features. It contributes no labels, because none are on record yet.

    An actor with a method `in_world(setting)` returns its actor for each simulation: `setting` has the world's
    "arrivals" and "labels", and the number of "rounds".
    """

    @property
    def name(self) -> str:
        """The actor's name in messages and records."""

    @property
    def caps(self) -> Caps:
        """The limits of its members."""

    def members(self, crowd: Crowd, number: int, rng: np.random.Generator) -> Rows:
        """Return the positions of its people in the crowd of this round.

        `rng` is this actor's own, and the same in every round: with fixed draws for each person (`random_streams`) a
        person who returns is selected again.
        """

    def act(self, view: View) -> Deed:
        """Return its people's deed."""

"""The protocol between the parts of a world: the people of a round, an actor's view, and its deed.

A round goes: people arrive; every actor looks (`View`) and answers (`Deed`) for the people that are its own; the
world checks each deed against the actor's own limits and refuses what exceeds them; those who moved are labelled by
the world's label policy; the operator retrains; the world writes down what happened.

Where outcomes depend on decisions (`DecisionArrivals`) the deployed model decides about those who arrived before actors
look, and what they see is what is on record then. Actors with `before_decision` act first, and the decision sees them.
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


@dataclass(frozen=True, eq=False)
class Crowd:
    """The people of one round.

    Attributes:
        features: (n, d), as these people are before anybody acts.
        codes: (n,), their classes, as positions in `classes`.
        classes: the labels, in the order of their codes; the same in every round.
        groups: (n,), the group that each belongs to, for reports alone: the operator does not see it.
        persons: (n,), who they are: the same number is the same person, in whatever round.
        weights: (n,) or None, as the operator weighs them.
        names: of the features, or None.
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
        """How many people there are."""
        return len(self.features)

    @property
    def row_weights(self) -> Array:
        """Everyone's weight (n,); all weigh 1 where none are given."""
        return np.ones(self.size) if self.weights is None else np.asarray(self.weights, dtype=np.float64)


class Arrivals(Protocol):
    """The protocol of arrivals. The same round, seed and size give the same people.

    Those with an attribute `group_names` other than None say which groups there are, in whatever round; a collective
    whose members are to come from another one is then refused.
    """

    classes: tuple[Any, ...]

    def draw(self, number: int, rng: np.random.Generator) -> Crowd:
        """Return who arrives in round `number` (0, 1, …); raise a DataError where the stream has ended."""
        ...

    def label(self, features: Array, crowd: Crowd, rows: Rows, number: int, rng: np.random.Generator) -> Rows:
        """Return the true classes (m,) of people of the crowd (`rows`), had they these features (m, d) in that round.

        It is what the label policy "oracle" asks; arrivals that know no such thing raise an OptionError.
        """
        ...


class DecisionArrivals(Arrivals, Protocol):
    """Arrivals of whom it depends on the deployed model's decisions what is on record."""

    def decided(self, crowd: Crowd, predicted: Rows, number: int, rng: np.random.Generator) -> Crowd:
        """Return what is on record once the deployed model has decided: other codes, perhaps other groups.

        `crowd` are those who arrived, as `draw` returned them, and `predicted` (n,) are the classes that the model
        predicted for each, by the features with which they came before it. `rng` is the same whatever the model, so
        that whoever decides, people meet the same chances; draw from it alike, whatever is predicted. It is asked of
        every model that is deployed, in the shadow world too, and must not remember.
        """
        ...


@dataclass(frozen=True, eq=False)
class State:
    """The state of the operator: what is deployed.

    Attributes:
        parameters: θ in the model's own form, as `model.predict(parameters, features)` takes it.
        flat: θ as one vector, for distances between models.
        retrained: whether this round changed it.
        kept: which of the round's people were used in training, (n,) bool; None means all.
        memory: whatever the operator itself keeps from round to round.
        learned_from: where it was trained on an answer of `Respond` rather than on what was handed in, that answer:
            the round is then recorded as people answered there.
    """

    parameters: Any
    flat: Array
    retrained: bool = True
    kept: NDArray[np.bool_] | None = None
    memory: Any = None
    learned_from: Population | None = None


class Respond(Protocol):
    """The response of the round's people if the operator had deployed these parameters."""

    def __call__(self, state: State) -> Population:
        """Return everyone's data as they would be handed in."""
        ...


class Operator(Protocol):
    """The protocol of operators: the model, how it is updated, and how the operator defends itself."""

    name: str
    model: Any
    """What is deployed: answers predict, probabilities and goal_loss for `State.parameters`."""

    def begin(self, history: Population) -> State:
        """Return what is deployed before the first round: fitted to what was there."""
        ...

    def retrain(
        self, state: State, batch: Population, number: int, respond: Respond, rng: np.random.Generator
    ) -> State:
        """Return what is deployed after round `number`, whose people handed in `batch`."""
        ...


@dataclass(frozen=True, eq=False)
class View:
    """The view of an actor before it acts.

    Attributes:
        number: the round, 0, 1, ….
        crowd: everyone who arrived, as they are before anybody acts; where outcomes depend on decisions, with what is
            on record now that the deployed model has decided (not so for who acts before the decision).
        mine: (m,), positions in the crowd of the people for whom this actor may act.
        operator: the operator: its model, and (for planning) its way of retraining.
        deployed: the model that is deployed now, as of the last round.
        past: the contributed data of earlier rounds, oldest first, history before round 0 included.
        rng: this actor's own random numbers: the same in the same round, however often it is asked.
        spent: (m,), how far each of them has moved in earlier rounds, as this actor's own; None means not at all.
        spent_by: the same of any persons, by number, also of those who are not there now; None means not at all.
    """

    number: int
    crowd: Crowd
    mine: Rows
    operator: Operator
    deployed: State
    past: tuple[Population, ...]
    rng: np.random.Generator
    spent: Array | None = None
    spent_by: Callable[[Rows], Array] | None = None


@dataclass(frozen=True, eq=False)
class Deed:
    """The deed of an actor in a round; positions are those of `View.mine`.

    Attributes:
        moves: (m, d) changes of features; None where nobody moves.
        codes: (m,) contributed classes; None where labels are left to the label policy.
        leaves: (m,) bool, the members who withhold their data; None where nobody does.
        added: features (a, d) and codes (a,) of points that are added beside the people; None where none are.
        advice: individual recourse that was given: (m, d) features after the advice and (m,) the promised class, −1 for
            people without advice; its validity is recorded from round to round. None for none.
        note: further records, by name, as numbers or words.
    """

    moves: Array | None = None
    codes: Rows | None = None
    leaves: NDArray[np.bool_] | None = None
    added: tuple[Array, Rows] | None = None
    advice: tuple[Array, Rows] | None = None
    note: dict[str, Any] = field(default_factory=dict)

    def contribution(self) -> Contribution:
        """Return what its people hand in: moves, codes for targets, and of weights 0 for who leaves, 1 for others."""
        weights: Any = None if self.leaves is None else np.where(self.leaves, 0.0, 1.0)
        return Contribution(self.moves, self.codes, weights)  # type: ignore[arg-type]

    def acts(self, codes: Rows) -> NDArray[np.bool_]:
        """Return who (m,) hands in something else than before, or nothing; `codes` (m,) are classes before."""
        return self.contribution().acts(_before(codes))

    def if_only(self, acting: NDArray[np.bool_], codes: Rows) -> Deed:
        """Return the same if only these (m,) act; `codes` (m,) are classes before. Points are added as they were."""
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
        budget: how far each may move. norm: by which norm.
        labels: how many labels may be changed. leavers: how many may leave. added: how many points may be added.
        total: how far each may move over all rounds together; None where rounds do not share a budget.
    """

    budget: float = 0.0
    norm: Any = 2
    labels: int = 0
    leavers: int = 0
    added: int = 0
    total: float | None = None


class Actor(Protocol):
    """Somebody who acts in a world: individuals, a collective, labellers, curators, poisoners.

    One with an attribute `before_decision` that is true acts before the deployed model decides (`DecisionArrivals`),
    which then sees its people where they have moved to. It hands in no labels: there are none on record yet.

    One with a method `in_world(setting)` is asked by every simulation who acts for it there: `setting` has the world's
    "arrivals" and "labels", and how many "rounds" there are.
    """

    @property
    def name(self) -> str:
        """The name under which messages and records know it."""
        ...

    @property
    def caps(self) -> Caps:
        """How far its members may go."""
        ...

    def members(self, crowd: Crowd, number: int, rng: np.random.Generator) -> Rows:
        """Return positions of those in the crowd for whom it acts in this round.

        `rng` is this actor's own, and the same in every round: with lots that are a person's own (`uniform_draws`)
        whoever comes again is drawn again.
        """
        ...

    def act(self, view: View) -> Deed:
        """Return what they do."""
        ...

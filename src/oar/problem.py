"""WHAT IS ASKED: a query with a goal, put to a population, a model and an action."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions import Allowance, Perturb, Relabel, Withhold
from oar.actions.choice import Levers, as_action, part_of
from oar.actions.limits import Limits
from oar.actions.measured import Measured, distance_scales, measure, spreads_of
from oar.actions.participation import Best
from oar.actions.perturb import check_budget
from oar.actions.plausible import NOBODY, Neighbourhood
from oar.errors import DataError, OptionError
from oar.models import Differentiable, NearestCentroid
from oar.people import Population


@dataclass(frozen=True, eq=False)
class Query:
    """The query subject: its features, and the prediction that it wants.

    Args:
        features: (d,) numbers; a Series, a dict or a one-row frame is matched to the columns by name.
        goal: the label that the model should predict.
        budget: how far the query itself may move (for `individual` and `joint`); None means the
            members' common budget.
        within: for models that predict values: how near to the goal counts as reaching it.
    """

    features: Any
    goal: Any
    budget: float | None = None
    within: float | None = None

    def __post_init__(self) -> None:
        """Check the query's own budget, and how near is near enough."""
        if self.budget is not None:
            object.__setattr__(self, "budget", check_budget(self.budget, "Query budget"))
        if self.within is not None:
            object.__setattr__(self, "within", check_budget(self.within, "Query within"))


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything that a solver needs; checked when it is made.

    The action is a Perturb, a Relabel or a Withhold, or a list of them, each at most once.

    >>> people = Population([[0.0], [1.0], [4.0]], ["no", "no", "yes"])
    >>> Problem(people, NearestCentroid(), Query([1.5], goal="yes"), Perturb(0.5))
    Problem(nearest-centroid, 3 people × 1, goal 'yes', Perturb(budget=0.5, norm=2))
    """

    people: Population
    model: NearestCentroid | Differentiable
    query: Query
    action: Any

    def __post_init__(self) -> None:
        """Refuse what does not fit together, naming the argument."""
        for argument, kind in (("people", Population), ("query", Query)):
            if not isinstance(getattr(self, argument), kind):
                got = type(getattr(self, argument)).__name__
                raise DataError(f"{argument}: must be an oar.{kind.__name__}(…), got an object of type {got}.")
        object.__setattr__(self, "action", as_action(self.action))
        if not isinstance(self.model, NearestCentroid | Differentiable):
            raise DataError(
                f"model: must be oar.NearestCentroid() or one of oar.models, got {self.model!r}; "
                "wrap a loss of your own in oar.models.Custom."
            )
        self.model.check(self.people)
        _ = self.goal_label, self.query_features, self.allowance, self.levers, self.limits
        if self.regresses and self.query.within is None:
            raise DataError(f"Query within: must say how near is enough, because {self.model.name} predicts values.")
        if not self.regresses and self.query.within is not None:
            raise DataError(f"Query within: is for models that predict values; {self.model.name} predicts classes.")

    @property
    def regresses(self) -> bool:
        """Whether the model predicts values rather than classes."""
        return isinstance(self.model, Differentiable) and self.model.regresses

    @cached_property
    def goal(self) -> int:
        """The goal's class code."""
        return self.people.coding.position(self.query.goal, "goal")

    @cached_property
    def goal_label(self) -> Any:
        """The goal as a prediction would show it: a class's label, or a value."""
        if self.regresses:
            value = self.goal_target
            return float(value[0]) if value.size == 1 else value
        return self.people.classes[self.goal]

    @cached_property
    def goal_target(self) -> NDArray[np.float64]:
        """The goal as a target (o,) of a differentiable model."""
        assert isinstance(self.model, Differentiable)
        return self.model.goal_target(self.people, self.query.goal)

    @cached_property
    def query_features(self) -> NDArray[np.float64]:
        """The query's features, in the order of the population's columns."""
        return self.people.vector(self.query.features, "query features")

    @cached_property
    def allowance(self) -> Allowance:
        """What each member may do. Those whose data weigh nothing are told to stay: they would move in vain."""
        allowance = (part_of(self.action, Perturb) or Perturb(0.0)).allowance(self.people)
        weights = self.people.weights
        if weights is None or weights.min() > 0:
            return allowance
        useful = weights > 0
        return dataclasses.replace(allowance, mask=useful if allowance.mask is None else allowance.mask & useful)

    @cached_property
    def levers(self) -> Levers | None:
        """What members may do beside moving; None where moving is all."""
        relabel, withhold = part_of(self.action, Relabel), part_of(self.action, Withhold)
        if relabel is None and withhold is None:
            return None
        if self.best is not None:
            raise OptionError(
                f"participants: oar.Best chooses who moves where moving is all, got {self.action!r}; give a mask, or "
                "leave the other actions out."
            )
        if relabel is not None and relabel.soft is not None and isinstance(self.model, NearestCentroid):
            raise OptionError(
                "soft: nearest centroid knows hard labels alone; use Relabel(most=...), or "
                "oar.models.PrototypeNetwork(), which is the same model and takes soft labels."
            )
        return Levers(
            None if relabel is None else relabel.limits(self.people, self.regresses, self.model.name),
            None if withhold is None else withhold.limits(self.people),
        )

    @property
    def best(self) -> Best | None:
        """How many members are to be chosen, and among whom; None where it is settled who takes part.

        Until they are chosen, `allowance` lets all of those move whom they are chosen from.
        """
        perturb = part_of(self.action, Perturb)
        return perturb.participants if perturb is not None and isinstance(perturb.participants, Best) else None

    @property
    def moves(self) -> bool:
        """Whether members may move their features."""
        return part_of(self.action, Perturb) is not None

    def only_moves(self, what: str) -> None:
        """Raise unless moving is all that members may do; `what` cannot answer for anything else."""
        if self.levers is not None:
            raise OptionError(
                f"action: must be an oar.Perturb(…) alone for {what}, got {self.action!r}; "
                "oar.collective plans other labels and strikes."
            )

    def only_balls(self, what: str) -> None:
        """Raise where people have limits other than a budget, as on a table; `what` does not know them."""
        if self.limits is not None:
            raise OptionError(
                f"people: must be plain features for {what}, got a table, whose limits it does not know; use "
                "oar.collective, oar.individual or oar.cheapest."
            )

    @property
    def query_budget(self) -> float:
        """How far the query itself may move."""
        if self.query.budget is not None:
            return self.query.budget
        if self.allowance.single:
            return float(self.allowance.budget)
        raise DataError(
            "Query budget: must be given where the members' budgets differ, got none; "
            "use oar.Query(x, goal, budget=...)."
        )

    @cached_property
    def limits(self) -> Limits | None:
        """What may be done to a table's columns, checked against its schema; None where people are no table."""
        perturb = part_of(self.action, Perturb)
        limits = None if perturb is None else perturb.limits
        if self.people.encoding is None:
            if limits is not None:
                raise DataError(
                    "limits: are for people with a schema; make them with oar.Population.from_frame(df, target=…)."
                )
            return None
        checked = (limits or Limits()).check(self.people.encoding.schema).naming(self.people.index, self.people.size)
        checked.check_query(self.people.encoding, self.query_features)
        if checked.plausible is not None:
            checked.plausible.check(self.people.size)
        return checked

    def measured(self, query: bool) -> Measured:
        """Return what members of a table and, last, the query may do, measured in cost; the query only if `query`.

        It is of those coordinates alone that somebody may move.
        """
        people = self.people
        assert people.encoding is not None
        assert self.limits is not None
        radii = np.append(self.allowance.everyones(people.size), self.query_budget if query else 0.0)
        # Costs are settled before anybody leaves.
        weights = np.ones(people.size) if people.first_weights is None else people.first_weights
        found = measure(
            self.limits,
            people.encoding,
            np.vstack([people.features, self.query_features]),
            np.append(weights / weights.sum(), 0.0),
            radii,
            self.allowance.norm,
            people.index,
        ).reduced()
        if self.neighbourhood is None:
            return found
        return dataclasses.replace(found, where=self.neighbourhood, who=np.append(np.arange(people.size), NOBODY))

    @cached_property
    def neighbourhood(self) -> Neighbourhood | None:
        """Where people are, where moves must be plausible."""
        people, limits = self.people, self.limits
        if limits is None or limits.plausible is None:
            return None
        assert people.encoding is not None
        features = np.asarray(people.features, dtype=np.float64)
        weights = np.ones(people.size) if people.first_weights is None else people.first_weights
        scales = distance_scales(limits, people.encoding, spreads_of(features, weights / weights.sum()))
        return Neighbourhood(limits.plausible, features, scales)

    def with_action(self, **changes: Any) -> Problem:
        """Return the same problem with some settings of its action changed; who takes part stays as it was drawn."""
        perturb = part_of(self.action, Perturb)
        if perturb is None:
            raise OptionError(f"action: must hold an oar.Perturb(…) to have its settings changed, got {self.action!r}.")
        if "participants" not in changes:
            drawn = self.allowance.mask
            changes |= {"participants": drawn if self.best is None else Best(self.best.number, drawn), "seed": None}
        changed = dataclasses.replace(perturb, **changes)
        parts = self.action if isinstance(self.action, tuple) else (perturb,)
        return dataclasses.replace(self, action=[changed if part is perturb else part for part in parts])

    def __repr__(self) -> str:
        """Show the essentials in one line."""
        size = f"{self.people.size:,} people × {self.people.dimensions}"
        return f"Problem({self.model.name}, {size}, goal {self.query.goal!r}, {self.action!r})"

"""The cheapest change of one person: what is asked, made ready once for many people.

Linear models (and nearest centroid, whose duels are linear) are solved by programmes (`milp`), and what is
found is proved by a certificate (`branch_and_bound`); all others are solved by search (`nonlinear_search`). With
z = W x + b, the goal g leads rival c by (W_g − W_c)·x + b_g − b_c. Centroids: seen from the person, with a_c = μ_c − x,
a move δ ends nearer to g than to c if (a_g − a_c)·δ + (‖a_c‖² − ‖a_g‖²)/2 > 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from oar.actions.limits.limit import Limit, Limits
from oar.actions.limits.plausible import EVERYWHERE, Everywhere, Neighbourhood
from oar.actions.sets.cost_region import distance_scales
from oar.errors import NumericsError
from oar.models import Differentiable
from oar.models.training import Array
from oar.people import Population
from oar.plans.individual.certificate import Certificate
from oar.problem import Problem
from oar.solvers.cheapest.branch_and_bound import prove
from oar.solvers.cheapest.highs import CheapestChange
from oar.solvers.cheapest.milp import settled, solve
from oar.solvers.cheapest.nonlinear_search import Outputs, PersonTask, search, task_of_leads, task_of_outputs
from oar.solvers.cheapest.rules import branched
from oar.solvers.cheapest.space import Leads, Space, space_of
from oar.solvers.cheapest.statement import statement_of
from oar.solvers.query.shortest_move import goal_limits, nearer_limits
from oar.tolerances import TIGHT

MARGIN = 1e-8  # share of the outputs' size by which the goal must lead where it is searched for: ten ties
LINEAR_TIE, CENTROID_TIE = 1.001e-9, 1.001e-13  # what an audit calls a tie, of outputs and of distances
SHARE = 1e-9  # of what a lead lacks, by which it must be more, because HiGHS is not exact
MOST_SEARCHES = 12  # with rules kept in one way or another
CONSTANT = 1e-9  # share of a column's mean below which its spread is rounding


@dataclass(frozen=True, eq=False)
class ProposedChange:
    """The solver's proposal for one person: v (None where no way was found), what it costs, and how it was found."""

    space: Space
    change: Array | None
    cost: float
    note: str = ""

    @classmethod
    def of(cls, space: Space, found: CheapestChange, note: str = "") -> ProposedChange:
        """Return what was found in a space; its cost there, whatever smaller space it was found in."""
        change = found.change if found.found else None
        return cls(space, change, np.inf if change is None else space.cost(change), note)

    @property
    def person(self) -> Array:
        """The person afterwards (d,)."""
        return self.space.start if self.change is None else self.space.person(self.change)


class PersonQuery(NamedTuple):
    """One person's question: the problem, what costs are, and the person's own limits."""

    problem: Problem
    kind: str
    own: Mapping[str, Limit]


Accepts = Callable[[Space], tuple[Array, Array, Array]]
"""From what may be changed to slopes, errors (r, v) and leads (r,): what an audit would accept."""


class AdviceSolver:
    """A model fitted to people with an encoding, and limits of the table's columns, for any number of queries."""

    def __init__(self, people: Population, model: Differentiable, limits: Limits) -> None:
        """Check the limits; the model is fitted when the first query asks."""
        self.people, self.model, self.encoding = people, model, people.table
        self.limits, self._given = limits.check(people.table.schema), limits
        weights = people.row_weights / people.row_weights.sum()
        centre = weights @ self._examples
        deviation = np.sqrt(weights @ (self._examples - centre) ** 2)
        rounding = CONSTANT * np.abs(centre)  # of a column that never varies
        self._spread = centre, np.where(deviation > rounding, deviation, 0.0)

    @property
    def exact(self) -> bool:
        """Whether leads are linear, so that what is found can be proved to be the cheapest."""
        return self.model.linear or self.model.plain_means

    def space(self, ask: PersonQuery, limits: Limits | None = None) -> Space:
        """Return what a person may change, by everybody's limits or others."""
        start, own = ask.problem.query_features, self._checked(ask.own)
        return space_of(limits or self.limits, self.encoding, self._spread, start, ask.kind, own, self._neighbourhood)

    @cached_property
    def _neighbourhood(self) -> Neighbourhood | Everywhere:
        if self.limits.plausible is None:
            return EVERYWHERE
        scales = distance_scales(self.limits, self.encoding, self._spread[1])
        return Neighbourhood(self.limits.plausible, self._examples, scales)

    def _checked(self, own: Mapping[str, Limit]) -> dict[str, Limit]:
        return {name: limit.within(self.encoding.schema[name]) for name, limit in own.items()}

    def fit(self, ask: PersonQuery) -> None:
        """Have the model fitted, where anybody's leads are asked for, before time is measured."""
        if self.exact:
            self._leads(ask.problem, 1.0)
        elif self.space(ask).size:
            _ = self._outputs

    def way(self, ask: PersonQuery, care: float = 1.0) -> ProposedChange:
        """Return the cheapest way that is found; `care` multiplies the margin by which the goal must lead."""
        space, problem = self.space(ask), ask.problem
        if not self.exact:
            if not space.size:
                return ProposedChange(space, None, np.inf)
            note = f"Found by search, because {self.model.name} is not linear: a cheaper way may exist."
            outputs, margin = self._outputs, care * MARGIN
            return self._by_search(space, lambda part: task_of_outputs(part, outputs, problem, margin), note)
        goal = self._leads(problem, care)
        found = branched(space, lambda part: solve(part, goal))
        if found.found and not space.is_plausible(found.change):
            note = (
                f"The cheapest change, at {found.cost:.6g}, ends where nobody is near. This one was found by search, "
                "and a cheaper one where people are may exist."
            )
            return self._by_search(space, lambda part: task_of_leads(part, goal), note)
        return ProposedChange.of(space, found)

    def way_at(self, ask: PersonQuery, place: Array, care: float = 1.0) -> ProposedChange | None:
        """Return a way that is like a place which a proof could not rule out; None where there is none."""
        space = self.space(ask)
        change = settled(space, self._leads(ask.problem, care), place)
        return None if change is None or not space.allows(change) else ProposedChange(space, change, space.cost(change))

    def proof(self, ask: PersonQuery, accepts: Accepts, most: float) -> tuple[Certificate, Array | None]:
        """Return what proves that nothing is cheaper, and a place that may be cheaper than `most`."""
        return self._proved(self.space(ask), accepts, most)

    def _proved(self, space: Space, accepts: Accepts, most: float = np.inf) -> tuple[Certificate, Array | None]:
        if not space.size and not self.exact:  # the person as they are, who has not the goal
            nothing = np.zeros((1, 0))
            return prove(statement_of(space, nothing, nothing, -np.ones(1)))
        return prove(statement_of(space, *accepts(space)), most)

    def can_prove(self, ask: PersonQuery) -> bool:
        """Report whether anything can be proved: leads are linear, or nothing may change."""
        return self.exact or not self.space(ask).size

    def expected(self) -> Array:
        """Return about how outputs depend on coordinates, and their constants (o, d + 1)."""
        return self._matrix if self.exact and not self.model.plain_means else np.zeros((0, 0))

    def _by_search(self, space: Space, task_of: Callable[[Space], PersonTask], note: str) -> ProposedChange:
        """Return what a search finds, with rules kept in one way or another."""
        found = branched(space, lambda part: search(task_of(part), self._examples), MOST_SEARCHES)
        return ProposedChange.of(space, found, note)

    def _leads(self, problem: Problem, care: float) -> Leads:
        if self.model.plain_means:
            return _centroid_leads(self._centroids, problem, care)
        return _linear_leads(self._matrix, problem, care)

    @cached_property
    def _centroids(self) -> Any:
        model: Any = self.model
        return model.fit(self.people)

    @cached_property
    def _matrix(self) -> Array:
        training = self.model.training(self.people)
        fit = training.fit(training.moved(None), training.start(), TIGHT)
        if not fit.converged and fit.residual > 100 * TIGHT:
            raise NumericsError(
                f"model: {self.model.name} must be refitted to a gradient norm of {TIGHT:.0e}, got {fit.residual:.1e}; "
                "a larger penalty or standardised features make training easier."
            )
        return training.matrix(fit.parameters)

    @cached_property
    def _outputs(self) -> Outputs:
        return Outputs.of(self.model, self.people)

    @cached_property
    def _examples(self) -> Array:
        return np.asarray(self.people.features, dtype=np.float64)

    def conflict(self, ask: PersonQuery, accepts: Accepts) -> tuple[str, ...]:
        """Return limits that together rule the goal out, without those that are proved to be needless one by one."""
        columns = {**self.limits.columns, **self._checked(ask.own)}
        named = {"column": columns, "link": self.limits.links, "rule": self.limits.rules}
        kept = [(kind, name) for kind, names in named.items() for name in names]
        for one in list(kept):
            fewer = [other for other in kept if other != one]
            space = self.space(ask._replace(kind="l1", own={}), _only(fewer, columns))
            if (self.exact or not space.size) and self._proved(space, accepts)[0].bound == np.inf:
                kept = fewer
        return _in_words(_only(kept, {**self._given.columns, **ask.own}))


def _only(kept: list[tuple[str, str]], columns: Mapping[str, Limit]) -> Limits:
    """Return the limits that are kept, each told by its kind and its name or text."""
    links, rules = (tuple(text for kind, text in kept if kind == wanted) for wanted in ("link", "rule"))
    return Limits({name: columns[name] for kind, name in kept if kind == "column"}, links, {}, rules)


def _linear_leads(matrix: Array, problem: Problem, care: float) -> Leads:
    normals, leads = goal_limits(problem, matrix)
    values = matrix[:, :-1] @ problem.query_features + matrix[:, -1]
    if problem.regresses:
        within, target = problem.within, problem.goal_target
        scales = np.tile(np.abs(target) + within + np.abs(values - target), 2)
        scales = np.where(scales > 0, scales, 1.0)
        margins = np.minimum(1e-2 * care * MARGIN * scales, 0.5 * within)  # the range's edge is inside: rounding only
    else:
        scales = np.full(leads.size, 1 + float(np.abs(values).max()))
        margins = care * (LINEAR_TIE * scales + SHARE * np.abs(leads))
    return Leads(-normals, leads, margins, scales)


def _centroid_leads(centroids: Any, problem: Problem, care: float) -> Leads:
    goal, point = problem.goal, problem.query_features
    offsets = centroids.positions - point
    rivals = np.delete(np.arange(len(offsets)), goal)
    normals, leads = nearer_limits(offsets, goal)
    distances = np.linalg.norm(offsets, axis=1)
    far = distances[goal] + distances[rivals]
    scales = np.where(far > 0, far**2, 1.0)
    # Distances tie within 1e-13 of the data's size; halved squares differ by half the sum of the distances times that.
    size = np.maximum(np.maximum(centroids.sizes[rivals], centroids.sizes[goal]), np.abs(point).max())
    return Leads(-normals, leads, care * (0.5 * CENTROID_TIE * size * far + SHARE * np.abs(leads)), scales)


def _in_words(limits: Limits) -> tuple[str, ...]:
    """Name limits as a caller would: by column and setting, or by a link's own text."""
    found = []
    for name, limit in limits.columns.items():
        said = [
            f"{setting}={value!r}" if setting != "immutable" else "immutable"
            for setting, value in vars(limit).items()
            if setting not in ("cost", "unit") and value is not None and value is not False
        ]
        if said:
            found.append(f"{name}: {', '.join(said)}")
    return (*found, *(f"link {text!r}" for text in limits.links), *(f"rule {text!r}" for text in limits.rules))

"""Individual recourse on a table: the cheapest change by which one person reaches the goal, solved and then audited."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from oar.actions.limits import Limit, Limits, as_limits
from oar.actions.perturb import Perturb
from oar.audit.advice import COST_SLACK, Judge, Verdict, broken_limits, cost_again, not_plausible, places_of, total
from oar.errors import DataError, OptionError, Status, choose
from oar.estimators import BlackBox
from oar.estimators.twin import Twin
from oar.people import Population
from oar.people.encoding import Row
from oar.people.tables import index_of_row
from oar.plans.advice import Advice
from oar.problem import Problem, Query, as_model
from oar.solvers.cheapest import Ready, Way
from oar.solvers.cheapest_space import COSTS

MOST_TRIALS = 4  # with margins ten times as wide each time
CARE = 10.0
TOO_FAR = (
    "Fewer or cheaper columns would have to go so far that the goal's lead is lost in rounding; this is the cheapest "
    'way by "l1".'
)


class Cheapest:
    """People, a model and limits, made ready for any number of queries: the model is fitted once, and audited once.

    Args:
        people: made by `oar.Population.from_frame` or `read`, so that columns are known.
        model: of oar.models.
        limits: what may be done to the columns, as `oar.Limits`, a mapping of columns to `oar.Limit`, or a TOML file;
            None for everything that the columns are. Own limits in them are of members, and not looked at here.
    """

    def __init__(self, people: Population, model: Any, limits: Any = None) -> None:
        """Check what can be checked without a query."""
        if not isinstance(people, Population):
            raise DataError(f"people: must be an oar.Population(…), got an object of type {type(people).__name__}.")
        if people.encoding is None:
            raise DataError(
                "people: must be a table, whose columns are known, got an array of numbers; use "
                "oar.Population.from_frame(frame, target=…)."
            )
        known = as_model(model)
        if isinstance(known, BlackBox) or (isinstance(known, Twin) and not known.linear):
            raise OptionError(
                "model: must be linear in the table's columns, or one of oar.models, for the cheapest change, got "
                f"{known.name}; oar.individual plans a query's own moves with it."
            )
        self.people, self.model = people, known
        self.limits = dataclasses.replace(as_limits(limits) or Limits(), own={})
        if self.limits.plausible is not None:
            self.limits.plausible.check(people.size)
        self._ready: Ready | None = None
        self._judge = Judge(people, self.model)
        self._places = places_of(people, self.limits)

    def of(self, query: Query, cost: str = "l1", own: Mapping[str, Any] | None = None) -> Advice:
        """Return the cheapest way for one person.

        Args:
            query: the person, and the goal.
            cost: "l1" (costs add up), "l2" (the root of the sum of their squares) or "l0" (each changed column costs
                its `cost`, however far it goes).
            own: limits of this person, by column, in place of everybody's.
        """
        choose("cost", cost, COSTS)
        problem = self._problem(query)
        problem.only_plain("oar.cheapest")
        theirs = self._own(own)
        before = self.people.encoding.decode_row(problem.query_features, index_of_row(query.features))  # type: ignore[union-attr]
        told = self._judge.judge(problem, before.values)
        if told.reached or not told.converged:
            status = Status.ALREADY if told.reached else Status.NOT_CONVERGED
            price = 0.0 if told.reached else np.inf
            return Advice(before, before, {}, price, 0.0, told.reached, status, **_told(told))
        return self._searched(problem, before, told, cost, theirs)

    def _searched(self, problem: Problem, before: Row, told: Verdict, cost: str, own: Mapping[str, Limit]) -> Advice:
        """Solve, decode, and ask the audit."""
        way, bound, judged = self._tried(problem, before, cost, own)
        if judged is not None:
            return self._found(before, *judged, way, bound, cost, own)
        if cost == "l0" and bound < np.inf:  # what is cheapest by sums does not go so far
            other, _, judged = self._tried(problem, before, "l1", own)
            if judged is not None:
                price = total(cost_again(self.people, self.limits, before.values, judged[0].values, cost), cost)
                other = dataclasses.replace(other, cost=price, note=TOO_FAR)
                return self._found(before, *judged, other, bound, cost, own)
        impossible = way.impossible
        status = Status.IMPOSSIBLE if impossible else Status.STOPPED_EARLY
        least = np.inf if impossible else 0.0 if bound == np.inf else bound
        return Advice(
            before, before, {}, np.inf, least, impossible, status, **_told(told), because=way.because, note=way.note
        )

    def _tried(
        self, problem: Problem, before: Row, cost: str, own: Mapping[str, Limit]
    ) -> tuple[Way, float, tuple[Row, Verdict] | None]:
        """Return the cheapest way, the first bound, and the row and the verdict of the audit where it reached the goal.

        Where rounding or a looser refit calls it a tie, margins are made wider. A way that is impossible is so only
        with the first ones.
        """
        assert self._ready is not None
        bounds = []
        for trial in range(MOST_TRIALS):
            way = self._ready.way(problem, cost, own, CARE**trial)
            bounds.append(way.bound)
            if way.change is None:
                break
            after = self._ready.encoding.decode_row(way.person, before.index)
            now = self._judge.judge(problem, after.values)
            if now.reached:
                return way, bounds[0], (after, now)
        if len(bounds) > 1 and way.impossible:
            way = dataclasses.replace(way, bound=bounds[0])
        return way, bounds[0], None

    def _found(
        self, before: Row, after: Row, told: Verdict, way: Way, bound: float, cost: str, own: Mapping[str, Limit]
    ) -> Advice:
        """Put a way that reached the goal before the audit of limits and costs."""
        rows = before.values, after.values
        costs = cost_again(self.people, self.limits, *rows, cost)
        price = total(costs, cost)
        broken = [
            *broken_limits(self.people, self.limits, own, *rows),
            *not_plausible(self.people, self._places, *rows),
        ]
        if price < bound:
            bound = price if price >= bound * (1 - COST_SLACK) else bound
        if not abs(price - way.cost) <= 10 * COST_SLACK * (1 + way.cost):
            broken.append(f"the cost is {price:.9g}, not {way.cost:.9g}")
        proved = self._ready.exact and price - bound <= COST_SLACK * price and not broken  # type: ignore[union-attr]
        status = Status.REFUSED if broken else Status.ACHIEVED
        return Advice(
            before,
            after,
            costs,
            price,
            bound,
            proved,
            status,
            **_told(told, broken),
            violations=tuple(broken),
            note=way.note,
        )

    def _problem(self, query: Query) -> Problem:
        if not isinstance(query, Query):
            raise DataError(f"query: must be an oar.Query(row, goal=…), got an object of type {type(query).__name__}.")
        if query.budget is not None:
            raise OptionError(
                f"Query budget: must be left out, because the lowest cost is what is looked for, got {query.budget:g}."
            )
        problem = Problem(self.people, self.model, query, Perturb(0.0))
        if self._ready is None:
            self._ready = Ready(self.people, self.model, self.limits)
        return problem

    def _own(self, own: Mapping[str, Any] | None) -> dict[str, Limit]:
        if own is None:
            return {}
        if not isinstance(own, Mapping):
            raise OptionError(f"own: must be a mapping of columns to Limit(…), got {own!r}.")
        names = self.people.schema.names  # type: ignore[union-attr]
        found = {choose("own", name, names): Limit.of(limit, f"own.{name}") for name, limit in own.items()}
        for name, limit in found.items():
            found[name] = _with_everybodys(limit, self.limits.columns.get(name, Limit()), name)
            limit.within(self.people.schema[name])  # type: ignore[index]
        return found


def cheapest(
    people: Population,
    model: Any,
    query: Query | Sequence[Query],
    limits: Any = None,
    cost: str = "l1",
    own: Mapping[str, Any] | None = None,
) -> Any:
    """Return the cheapest change of a table's row by which its person gets the goal; a list for a list of queries.

    The model is fitted once, and stays: nobody else moves, and one person's change is not retrained on. Linear models
    and nearest centroid are solved exactly, others by search. A model's switches and steps are kept: whole numbers,
    levels, bounds, directions and links.

    Args:
        people: made by `oar.Population.from_frame` or `read`.
        model: of oar.models.
        query: the person, and the goal; or several.
        limits: what may be done to the columns, as `oar.Limits`, a mapping of columns to `oar.Limit`, or a TOML file;
            None for whatever the columns can be.
        cost: "l1", "l2" or "l0", of the costs that limits give to columns: a standard deviation of a number (or its
            `unit`), a flip of a boolean and a switch of a category cost 1 unless `cost` says otherwise.
        own: limits of this person (or of all of several), by column, in place of everybody's.

    >>> import pandas
    >>> frame = pandas.DataFrame({"hours": [1, 2, 3, 6, 7, 9], "passed": ["no", "no", "no", "yes", "yes", "yes"]})
    >>> people = Population.from_frame(frame, target="passed")
    >>> advice = cheapest(people, __import__("oar").NearestCentroid(), Query({"hours": 2}, goal="yes"))
    >>> advice.row["hours"].item(), advice.proved
    (5, True)
    """
    ready = Cheapest(people, model, limits)
    if isinstance(query, Query):
        return ready.of(query, cost, own)
    if isinstance(query, list | tuple):
        return [ready.of(each, cost, own) for each in query]
    raise DataError(
        f"query: must be an oar.Query(row, goal=…) or a list of them, got an object of type {type(query).__name__}."
    )


def _with_everybodys(limit: Limit, everybodys: Limit, name: str) -> Limit:
    """Return a person's own limit with the costs and steps that are the same for everybody."""
    for setting in ("cost", "unit", "step"):
        if getattr(limit, setting) not in (getattr(Limit(), setting), getattr(everybodys, setting)):
            raise OptionError(
                f"own.{name} {setting}: is the same for everybody, got {getattr(limit, setting)!r}; set it in limits."
            )
    step = None if limit.immutable else everybodys.step
    return dataclasses.replace(limit, cost=everybodys.cost, unit=everybodys.unit, step=step)


def _told(told: Verdict, broken: Sequence[str] = ()) -> dict[str, Any]:
    """Return what advice repeats of a verdict; nothing is a success that breaks a limit."""
    return {
        "success": told.reached and not broken,
        "prediction": told.prediction,
        "margin": told.lead,
        "witness": told.witness,
    }

"""Individual recourse on a table: the cheapest change by which one person reaches the goal, solved and then audited."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.actions.limits.limit import Limit, Limits, as_limits
from oar.actions.perturb import Perturb
from oar.checks import check_kind, choose, with_near_names
from oar.errors import DataError, OptionError, Status
from oar.estimators import BlackBox
from oar.estimators.twin import Twin
from oar.people import Population
from oar.people.tables.arrays import index_of_row
from oar.people.tables.encoding import LARGEST, Row
from oar.plans.individual.advice import Advice
from oar.plans.individual.certificate import Certificate
from oar.problem import Problem, Query, as_model
from oar.progress import is_late, limited_time
from oar.questions.least.trials import OUT_OF_TIME
from oar.referee.individual.advice import (
    COST_SLACK,
    Judge,
    RowVerdict,
    broken_limits,
    cost_again,
    not_plausible,
    rounding_of_cost,
    total,
)
from oar.referee.individual.duels import Moves, duels
from oar.referee.table_moves import places_of
from oar.solvers.cheapest.asking import Accepts, AdviceSolver, PersonQuery, ProposedChange
from oar.solvers.cheapest.space import COSTS, Space
from oar.typing import LimitsLike, ModelLike

Array = NDArray[np.float64]
MOST_TRIALS = 6  # with margins ten times as wide each time
CARE = 10.0
MOST_BETTER = 4  # places that a proof could not rule out, and that are tried
UNPROVED = "It is found, not proved to be the cheapest: nothing can cost less than the bound."
TOO_FAR = (
    "Fewer or cheaper columns would have to go so far that the goal's lead is lost in rounding; this is the cheapest "
    'way by "l1".'
)


class AuditedRow(NamedTuple):
    """A row that was put before the audit: what the refit says, what columns cost and come to, and broken limits."""

    after: Row
    told: RowVerdict
    costs: dict[str, float]
    price: float
    broken: tuple[str, ...]

    @property
    def most(self) -> float:
        """A cost that is enough."""
        return np.inf if self.broken else self.price


@with_near_names
class Cheapest:
    """People, a model and limits, prepared for any number of queries: the model is fitted once, and audited once.

    Args:
        people: made by `oar.Population.from_frame` or `read`, so that columns are known.
        model: of oar.models.
        limits: the limits of the columns, as `oar.Limits`, a mapping of columns to `oar.Limit`, or a TOML file; None
            for the schema's limits alone. Their limits of single members are ignored here.
    """

    def __init__(self, people: Population, model: ModelLike, limits: LimitsLike = None) -> None:
        """Check what can be checked without a query."""
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
        if self.limits.plausible:
            self.limits.plausible.check(people.size)
        self._judge = Judge(people, self.model)
        self._places = places_of(people, self.limits)

    @cached_property
    def _ready(self) -> AdviceSolver:
        """The solver, with the model fitted."""
        return AdviceSolver(self.people, self.model, self.limits)

    @with_near_names
    def of(
        self,
        query: Query,
        cost: str = "l1",
        own: Mapping[str, Any] | None = None,
        time_limit: float | None = None,
    ) -> Advice:
        """Return the cheapest change for one person.

        Args:
            query: the person, and the goal.
            cost: "l1" (costs add up), "l2" (the root of the sum of their squares) or "l0" (each changed column costs
                its `cost`, however far it goes).
            own: limits of this person, by column, in place of everybody's.
            time_limit: seconds after which the search and the proof begin nothing more: the best change so far is
                audited, and its bound is what is proved by then. The model's training takes its own time.
        """
        choose("cost", cost, COSTS)
        problem, ready = self._problem(query), self._ready  # which refuses limits that cannot be
        problem.only_plain("oar.cheapest")
        theirs = self._own(own)
        before = self.people.table.decode_row(problem.query_features, index_of_row(query.features))
        told = self._judge.judge(problem, before.values)
        if told.reached or not told.converged:
            status = Status.ALREADY if told.reached else Status.NOT_CONVERGED
            price = 0.0 if told.reached else np.inf
            return Advice(before, before, {}, price, 0.0, told.reached, status, **_told(told))
        ask = PersonQuery(problem, cost, theirs)
        ready.fit(ask)
        with limited_time(time_limit):
            return self._searched(ready, ask, before, told)

    def _searched(self, ready: AdviceSolver, ask: PersonQuery, before: Row, told: RowVerdict) -> Advice:
        """Solve, decode and ask the audit; then prove that nothing is cheaper, or try what may be."""
        judged, note = self._tried(ask, before)
        if judged is None and ask.kind == "l0":  # what is cheapest by sums does not go so far
            other, _ = self._tried(ask._replace(kind="l1"), before)
            if other is not None:
                judged, note = self._judged(ask, before, other.after), TOO_FAR
        if not ready.can_prove(ask):
            return self._found(judged, before, told, None, note)
        most = np.inf if judged is None else judged.most
        certificate, better = ready.proof(ask, self._accepts(ask), most)
        for _ in range(MOST_BETTER):
            if better is None or is_late() or (most < np.inf and certificate.bound >= most * (1 - COST_SLACK)):
                break
            other, _ = self._tried(ask, before, better)  # a place that a proof could not rule out
            if other is None or other.broken or other.price >= most:
                break
            judged, note, most = other, "", other.price
            certificate, better = ready.proof(ask, self._accepts(ask), most)
        if most == np.inf and certificate.bound == np.inf:
            because = ready.conflict(ask, self._accepts(ask))
            said = _told(told) | {"because": because, "certificate": certificate}
            return Advice(before, before, {}, np.inf, np.inf, True, Status.IMPOSSIBLE, **said)
        return self._found(judged, before, told, certificate, note)

    def _accepts(self, ask: PersonQuery) -> Accepts:
        """Return what tells a proof what the audit would accept."""
        expected = self._ready.expected()

        def accepts(space: Space) -> tuple[Array, Array, Array]:
            moves = Moves(space.start, space.basis, space.low, space.high, space.whole, expected)
            return duels(self._judge, ask.problem, moves)

        return accepts

    def _tried(self, ask: PersonQuery, before: Row, place: Array | None = None) -> tuple[AuditedRow | None, str]:
        """Return the cheapest way that reached the goal in the audit, or that to a place, and how it was found.

        Where rounding or a looser refit calls it a tie, or it breaks a limit by rounding, margins are made wider. What
        breaks one all the same is returned, to be refused, where there is nothing else.
        """
        note, refused, ready = "", None, self._ready
        for trial in range(MOST_TRIALS):
            way = ready.way(ask, CARE**trial) if place is None else ready.way_at(ask, place, CARE**trial)
            if way is None or way.change is None:
                note = note or ("" if way is None else way.note)
                break
            note = way.note
            judged = self._judged_way(ask, before, way)
            if judged is not None and not judged.broken:
                return judged, note
            refused = refused or judged
        return refused, note

    def _judged_way(self, ask: PersonQuery, before: Row, way: ProposedChange) -> AuditedRow | None:
        """Put a way before the audit; None where it does not reach the goal, or fits in no table."""
        if np.abs(way.person).max() > LARGEST:
            return None
        after = self._ready.encoding.decode_row(way.person, before.index)
        try:
            judged = self._judged(ask, before, after, way.cost)
        except DataError:  # such as a whole number of 17 digits
            return None
        return judged if judged.told.reached else None

    def _judged(self, ask: PersonQuery, before: Row, after: Row, claimed: float | None = None) -> AuditedRow:
        """Put a row before the audit: the prediction, the cost, and every limit."""
        rows = before.values, after.values
        costs = cost_again(self.people, self.limits, *rows, ask.kind)
        price = total(costs, ask.kind)
        broken = [
            *broken_limits(self.people, self.limits, ask.own, *rows),
            *not_plausible(self.people, self._places, *rows),
        ]
        if claimed is not None:
            slack = 10 * COST_SLACK * claimed + rounding_of_cost(self.people, self.limits, after.values, ask.kind)
            if not abs(price - claimed) <= slack:
                broken.append(f"the cost is {price:.9g}, not {claimed:.9g}")
        return AuditedRow(after, self._judge.judge(ask.problem, after.values), costs, price, tuple(broken))

    def _found(
        self, judged: AuditedRow | None, before: Row, told: RowVerdict, certificate: Certificate | None, note: str
    ) -> Advice:
        """Say what was found and what is proved of it."""
        bound = 0.0 if certificate is None else certificate.bound
        proved = judged is not None and not judged.broken and judged.price - bound <= COST_SLACK * judged.price
        if not proved and is_late():
            note = f"{note} {OUT_OF_TIME}".strip()
        if judged is None:
            least = 0.0 if bound == np.inf else bound
            said = _told(told) | {"note": note, "certificate": certificate}
            return Advice(before, before, {}, np.inf, least, False, Status.STOPPED_EARLY, **said)
        if certificate is not None and not proved:
            note = f"{note} {UNPROVED}".strip()
        said = _told(judged.told, judged.broken)
        said |= {"violations": judged.broken, "note": note, "certificate": certificate}
        status = Status.REFUSED if judged.broken else Status.ACHIEVED
        return Advice(before, judged.after, judged.costs, judged.price, bound, proved, status, **said)

    def _problem(self, query: Query) -> Problem:
        check_kind("query", query, Query, "an oar.Query(row, goal=…)")
        if query.budget is not None:
            raise OptionError(
                f"Query budget: must be left out, because the lowest cost is what is looked for, got {query.budget:g}."
            )
        return Problem(self.people, self.model, query, Perturb(0.0))

    def _own(self, own: Mapping[str, Any] | None) -> dict[str, Limit]:
        own = {} if own is None else own
        if not isinstance(own, Mapping):
            raise DataError(f"own: must be a mapping of columns to Limit(…), got {own!r}.")
        names = self.people.table.schema.names
        found = {choose("own", name, names): Limit.of(limit, f"own.{name}") for name, limit in own.items()}
        for name, limit in found.items():
            found[name] = _with_everybodys(limit, self.limits.columns.get(name, Limit()), name)
            limit.within(self.people.table.schema[name])
        return found


@with_near_names
def cheapest(
    people: Population,
    model: ModelLike,
    query: Query | Sequence[Query],
    limits: LimitsLike = None,
    cost: str = "l1",
    own: Mapping[str, Any] | None = None,
    time_limit: float | None = None,
) -> Any:
    """Return the cheapest change of a person's row in a table that reaches the goal; a list for a list of queries.

    The model is fitted once and then fixed: nobody else moves, and the change is not retrained on. Linear models and
    nearest centroid are solved exactly, others by search. The change satisfies all limits: integers, levels, bounds,
    directions and links.

    Args:
        people: made by `oar.Population.from_frame` or `read`.
        model: of oar.models.
        query: the person, and the goal; or several.
        limits: the limits of the columns, as `oar.Limits`, a mapping of columns to `oar.Limit`, or a TOML file; None
            for the schema's limits alone.
        cost: "l1", "l2" or "l0", of the costs that limits give to columns: a standard deviation of a number (or its
            `unit`), a flip of a boolean and a switch of a category cost 1 unless `cost` says otherwise.
        own: limits of this person (or of all of several), by column, in place of everybody's.
        time_limit: seconds for each person after which the search and the proof begin nothing more. The best change so
            far is audited, and its bound is what is proved by then; training and the audit take their own time.

    >>> import pandas
    >>> frame = pandas.DataFrame({"hours": [1, 2, 3, 6, 7, 9], "passed": ["no", "no", "no", "yes", "yes", "yes"]})
    >>> people = Population.from_frame(frame, target="passed")
    >>> advice = cheapest(people, __import__("oar").NearestCentroid(), Query({"hours": 2}, goal="yes"))
    >>> advice.row["hours"].item(), advice.proved
    (5, True)
    """
    ready = Cheapest(people, model, limits)
    match query:
        case Query():
            return ready.of(query, cost, own, time_limit)
        case list() | tuple():
            return [ready.of(each, cost, own, time_limit) for each in query]
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


def _told(told: RowVerdict, broken: Sequence[str] = ()) -> dict[str, Any]:
    """Return what advice repeats of a verdict; nothing is a success that breaks a limit."""
    return {
        "success": told.reached and not broken,
        "prediction": told.prediction,
        "margin": told.lead,
        "witness": told.witness,
    }

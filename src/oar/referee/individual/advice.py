"""The audit of advice to one person: a refit that the solver had no part in, and every limit in the caller's own units.

The row is read as the caller would read it: values of columns, not coordinates. Bounds, levels, steps and directions
are compared with what the limits say before anything was turned into coordinates, links are evaluated as the Python
that they are written in, and the cost is added up again from the table's own standard deviations.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from oar.actions.limits.limit import Limit, Limits
from oar.actions.limits.links import LinearExpression, parse_links
from oar.actions.limits.rules import Comparison, IfThenRule
from oar.actions.perturb import LARGEST_BUDGET, Perturb
from oar.models import Differentiable, NearestCentroid
from oar.people import Column, Population
from oar.plans import MemberPlan
from oar.problem import Problem, Query
from oar.referee import audit
from oar.referee.centroids import centroids_of
from oar.referee.contributions import Array
from oar.referee.table_moves import NeighbourDistances, holds, number_of, spread_of, unit_of
from oar.referee.verdicts import judged
from oar.referee.witnesses.refits import WitnessRefit, refit

SLACK = 1e-9  # share of the numbers in a link or a rule by which rounding may miss it; a column's own bounds are exact
COST_SLACK = 1e-6  # share of a cost
_BACKTICKED = re.compile(r"`([^`]+)`")
_CHANGE = "_change_of"


@dataclass(frozen=True)
class RowVerdict:
    """The verdict on one row: the prediction, the goal's lead, the tie tolerance, and the witness."""

    prediction: Any
    lead: float
    tie: float
    reached: bool
    witness: str
    converged: bool = True


class Judge:
    """People and a model that is refitted to them once, from scratch; then asked about any row."""

    def __init__(self, people: Population, model: Differentiable) -> None:
        """Keep what is refitted; nothing is fitted before somebody asks."""
        self.people, self.model = people, model

    @cached_property
    def _refit(self) -> WitnessRefit:
        assert isinstance(self.model, Differentiable)
        return refit(self.model, self.people, np.asarray(self.people.features, dtype=np.float64))

    @cached_property
    def centroids(self) -> tuple[Array, Array]:
        """Class averages (k, d), and the sizes (k,) of the classes' values."""
        assert isinstance(self.model, NearestCentroid)
        return centroids_of(self.model, self.people)

    def outputs(self, rows: Array) -> Array:
        """Return the refit's outputs (m, o) for rows of coordinates (m, d)."""
        return np.asarray(self._refit.outputs(rows), dtype=np.float64).reshape(len(rows), -1)

    def judge(self, problem: Problem, row: Any) -> RowVerdict:
        """Say what a row of the table is predicted to be, and whether that is strictly the goal."""
        point = self.people.vector(row, "row")
        if self.model.plain_means:
            return self._by_centroids(problem, point)
        told = self._refit
        if not told.converged:
            return RowVerdict(None, np.nan, np.nan, False, told.witness, False)
        found = judged(problem, problem.wishes[0], self.outputs(point[None])[0], partial(told.loss, point))
        return RowVerdict(found.prediction, found.lead, found.tie, found.reached, told.witness)

    def _by_centroids(self, problem: Problem, point: Array) -> RowVerdict:
        """Have the row judged as a query that nobody moves for."""
        query = Query(point, problem.query.goal, budget=LARGEST_BUDGET)
        still = Problem(self.people, self.model, query, Perturb(0.0))
        plan = MemberPlan(still, np.zeros(point.size), np.zeros((self.people.size, point.size)))
        told = audit(plan)
        return RowVerdict(told.prediction, told.margin, told.tie, told.success, told.witness)


def broken_limits(
    people: Population, limits: Limits, own: Mapping[str, Limit], before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return every limit that a change from one row of values to another breaks, in words."""
    allowed = {**limits.columns, **own}
    found: list[str] = []
    ranks_before, ranks_after = {}, {}
    for column in people.table.schema:
        old, new = before[column.name], after[column.name]
        if column.kind != "category":
            ranks_before[column.name], ranks_after[column.name] = number_of(column, old), number_of(column, new)
        found += _broken_column(people, column, allowed.get(column.name, Limit()), old, new)
    for text in limits.links:
        found += _broken_link(text, ranks_before, ranks_after)
    for rule in limits.parsed_rules:
        found += _broken_rule(rule, before, after, people, (ranks_before, ranks_after))
    return tuple(found)


def not_plausible(
    people: Population, places: NeighbourDistances | None, before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return in words if a row ends where people are not, and farther from them than it stood."""
    if places is None or all(before[name] == after[name] for name in before):
        return ()
    rows = np.vstack([people.vector(row, "row") for row in (before, after)])
    own, far = places.kth(rows, np.array([-1, -1]))
    if far <= max(own, places.usual) * (1 + 10 * SLACK):
        return ()
    return (f"the row is where fewer than {places.neighbours} people are near: {far:g} away, not {places.usual:g}",)


def _broken_rule(
    rule: IfThenRule,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    people: Population,
    ranks: tuple[Mapping[str, float], Mapping[str, float]],
) -> list[str]:
    """Evaluate a rule on the row's own values; whoever broke it before may leave its columns as they are."""
    if all(before[name] == after[name] for name in rule.names):
        return []
    if not all(_says(each, before, after, people, surely=True) for each in rule.conditions):
        return []
    if isinstance(rule.consequence, Comparison):
        if _says(rule.consequence, before, after, people, surely=False):
            return []
        return [f"rule {rule.text!r} is broken: {rule.consequence.name} is {after[rule.consequence.name]!r}"]
    for link in rule.consequence:
        said, (then, now) = link.expression, ranks
        terms = [factor * now[name] for name, factor in said.values.items()]
        terms += [part for name, by in said.changes.items() for part in (by * now[name], -by * then[name])]
        if math.fsum([said.constant, *terms]) > 10 * SLACK * (abs(said.constant) + sum(map(abs, terms))):
            return [f"rule {rule.text!r} is broken"]
    return []


def _says(
    said: Comparison, before: Mapping[str, Any], after: Mapping[str, Any], people: Population, surely: bool
) -> bool:
    """Report whether a comparison is true; of numbers, what rounding may have decided is false if `surely`."""
    column, value = people.table.schema[said.name], after[said.name]
    if column.kind == "category":
        return bool((value == said.value) == (said.operator == "=="))
    now, edge = number_of(column, value), number_of(column, said.value)
    size = max(abs(now), abs(number_of(column, before[said.name])), spread_of(people, column) or 1.0)
    slack = 0.0 if column.whole else max(SLACK * size, 4 * _rounding(value) * abs(now))
    return bool(holds(said.operator, now, edge, slack, surely))


def cost_again(
    people: Population, limits: Limits, before: Mapping[str, Any], after: Mapping[str, Any], kind: str
) -> dict[str, float]:
    """Return what each changed column costs."""
    found = {}
    for column in people.table.schema:
        old, new = before[column.name], after[column.name]
        if old == new:
            continue
        limit = limits.columns.get(column.name, Limit())
        flat = kind == "l0" or column.kind in ("boolean", "category")
        change = 1.0 if flat else abs(number_of(column, new) - number_of(column, old))
        found[column.name] = float(limit.cost) * change / (1.0 if flat else unit_of(people, column, limit))
    return found


def rounding_of_cost(people: Population, limits: Limits, after: Mapping[str, Any], kind: str) -> float:
    """Return what the last digits of a row's numbers cost: changes below them are in no row, and in no cost of one.

    A solver that changes 4·10¹¹ by 10⁻⁵ counts that change; the row that holds its advice has no digit for it.
    """
    if kind == "l0":
        return 0.0
    numbers = [column for column in people.table.schema if column.kind == "number"]
    nudged = {column.name: np.nextafter(float(after[column.name]), np.inf) for column in numbers}
    return math.fsum(cost_again(people, limits, after, {**after, **nudged}, kind).values())


def total(costs: Mapping[str, float], kind: str) -> float:
    """Return what the costs of columns come to."""
    return math.hypot(*costs.values()) if kind == "l2" else math.fsum(costs.values())


def _broken_column(people: Population, column: Column, limit: Limit, old: Any, new: Any) -> list[str]:
    """Compare one column's value before and after; who was outside a bound may stay there, or come nearer."""
    if old == new:
        return []
    name, found = column.name, []
    if limit.immutable:
        found = [f"{name} is immutable and changes from {old!r} to {new!r}"]
    elif column.kind != "category":
        found = _broken_number(column, limit, old, new)
    elif new not in column.levels or (limit.levels is not None and new not in limit.levels):
        found = [f"{name} may not be switched to {new!r}"]
    priced = column.kind in ("boolean", "category") or limit.unit is not None or spread_of(people, column)
    if not priced:
        found.append(f"{name} never varies, so nothing says what its change to {new!r} costs: set unit")
    return found


def _broken_number(column: Column, limit: Limit, old: Any, new: Any) -> list[str]:
    """Compare what is on a line with its direction, bounds and step: to the digit, as its own dtype has them."""
    name, start, end = column.name, number_of(column, old), number_of(column, new)
    found = []
    if limit.direction is not None and (end - start) * {"up": 1, "down": -1}[limit.direction] < 0:
        found.append(f"{name} may only go {limit.direction} and changes from {old!r} to {new!r}")
    if column.kind == "boolean" and end not in (0.0, 1.0):
        found.append(f"{name} must be true or false and becomes {new!r}")
    for bound, sign, word in ((limit.lower, -1, "below"), (limit.upper, 1, "above")):
        if bound is not None:
            edge = number_of(column, bound)
            if isinstance(new, np.floating):  # which may have no such number, only one next to it
                edge = sign * max(sign * edge, sign * float(new.dtype.type(edge)))
            if sign * end > max(sign * edge, sign * start):
                found.append(f"{name} goes {word} {bound!r}, to {new!r}")
    step = limit.step or (1.0 if column.whole else 0.0)
    if step and abs((end - start) / step - round((end - start) / step)) > 4 * _rounding(new) * (
        (abs(start) + abs(end)) / step
    ):
        found.append(f"{name} must change by multiples of {step:g} and changes by {end - start:g}")
    return found


def _rounding(value: Any) -> float:
    """Return the share of a value by which it may be rounded."""
    return float(np.finfo(value.dtype if isinstance(value, np.floating) else np.float64).eps)


class _Value(float):
    """A value after the change that remembers the one before."""

    before: float


def _broken_link(text: str, before: Mapping[str, float], after: Mapping[str, float]) -> list[str]:
    """Evaluate a link's comparisons; who broke one before may not break it further."""
    names: dict[str, str] = {}

    def plain_name(match: re.Match[str]) -> str:
        return names.setdefault(match[1], f"_column_{len(names)}")

    tree = ast.parse(_BACKTICKED.sub(plain_name, text).strip(), mode="eval").body
    assert isinstance(tree, ast.Compare)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            node.func.id = _CHANGE  # a column may be called "change" too
    then, now = ({names.get(name, name): values[name] for name in values} for values in (before, after))
    evaluated = [(_evaluated(side, then, then), _evaluated(side, then, now)) for side in (tree.left, *tree.comparators)]
    sizes = iter([_size(link.expression, before, after) for link in parse_links(text)])
    for (left_before, left), operator, (right_before, right) in zip(evaluated, tree.ops, evaluated[1:], strict=False):
        signs = {ast.LtE: (1,), ast.GtE: (-1,), ast.Eq: (1, -1)}[type(operator)]
        for sign in signs:
            if sign * (left - right) > max(sign * (left_before - right_before), 0.0) + SLACK * next(sizes):
                return [f"link {text!r} is broken: {left:g} against {right:g}"]
    return []


def _size(said: LinearExpression, before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """Return how large what a link adds up is, before anything cancels."""
    found = abs(said.constant) + sum(abs(by * after[name]) for name, by in said.values.items())
    return found + sum(abs(by) * (abs(after[name]) + abs(before[name])) for name, by in said.changes.items())


def _evaluated(side: ast.expr, then: Mapping[str, float], now: Mapping[str, float]) -> float:
    """Evaluate one side of a link, which has been checked to be linear, without anything but these names."""
    values: dict[str, Any] = {}
    for name, value in now.items():
        values[name] = _Value(value)
        values[name].before = then[name]
    change: Callable[[_Value], float] = lambda value: float(value) - value.before  # noqa: E731
    code = compile(ast.fix_missing_locations(ast.Expression(side)), "<link>", "eval")
    return float(eval(code, {"__builtins__": {}}, values | {_CHANGE: change}))

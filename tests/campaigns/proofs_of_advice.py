"""Tables drawn at random, of any scale, with links and rules; and a search for what is cheaper than was proved."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pandas

import oar
from oar import models
from oar.actions.limits.limit import Limit, Limits
from oar.errors import OptionError
from oar.people.tables.schema import Column, Schema
from oar.referee.individual.advice import broken_limits, cost_again, total

KINDS = ("l1", "l2", "l0")
LEVELS = ("a", "b", "c")
MOST_ROWS = 600  # that are looked at one by one
LESS = 1e-9  # share by which a cost must be below a bound to refute it: what adding up again may differ by


@dataclass
class Case:
    """One person's question, and all that it takes to ask it again."""

    frame: pandas.DataFrame
    schema: Schema
    model: object
    row: dict
    goal: object
    within: float | None
    limits: Limits
    kind: str

    def asked(self):
        """Return the people, what is ready for the question, and the advice."""
        people = oar.Population.from_frame(self.frame, target="label", schema=self.schema)
        query = oar.Query(self.row, goal=self.goal, within=self.within)
        ready = oar.Cheapest(people, self.model, self.limits)
        return ready, query, ready.of(query, self.kind)

    def __str__(self) -> str:
        """Show what makes it up, but for the people."""
        return f"{self.kind} {self.model.name} {self.row} -> {self.goal!r} {self.limits}"


def size_of(rng) -> float:
    """Draw a scale from 1e-12 to 1e12; often 1."""
    return 1.0 if rng.random() < 0.4 else float(10.0 ** rng.uniform(-12, 12))


def drawn(rng) -> Case:
    """Draw a question."""
    people, columns = int(rng.integers(12, 40)), int(rng.integers(1, 6))
    classes = 2 if rng.random() < 0.7 else 3
    codes = np.concatenate([np.arange(classes), rng.integers(0, classes, people - classes)])
    data, kinds = {}, []
    for number in range(columns):
        name = f"x{number}"
        kind = rng.choice(["number", "number", "number", "integer", "boolean", "category"])
        pull = rng.normal() * codes * (rng.random() < 0.8)
        values = rng.normal(size=people) + pull
        if kind == "number":
            values = values * size_of(rng) + (size_of(rng) if rng.random() < 0.2 else 0.0)
        elif kind == "integer":
            values = np.rint(np.clip(3 * values * (size_of(rng) if rng.random() < 0.3 else 1.0), -1e14, 1e14)).astype(
                int
            )
        elif kind == "boolean":
            values = values > 0
        else:
            values = np.array(LEVELS)[np.digitize(values, [-0.5, 0.5])]
        data[name] = values
        kinds.append(Column(name, str(kind), LEVELS if kind == "category" else ()))
    schema = Schema(tuple(kinds))
    regression = rng.random() < 0.1
    frame = pandas.DataFrame(data)
    frame["label"] = rng.normal(size=people) + codes if regression else np.array(["no", "yes", "maybe"])[codes]
    row = {name: frame[name].iloc[int(rng.integers(people))] for name in data}
    model = models.Ridge() if regression else oar.NearestCentroid()
    if not regression and rng.random() < 0.25:
        model = models.Scaled(models.SoftmaxRegression()) if rng.random() < 0.7 else models.LinearSVM()
    elif regression and rng.random() < 0.5:
        model = models.Scaled(models.Ridge())
    goal = float(rng.normal() * 2) if regression else str(rng.choice(frame["label"].unique()))
    if isinstance(model, oar.NearestCentroid) and rng.random() < 0.2:
        row = near_tie(rng, frame, schema, row, goal)
    within = float(rng.uniform(0.01, 0.5)) if regression else None
    return Case(frame, schema, model, row, goal, within, limits_for(rng, frame, schema, row), str(rng.choice(KINDS)))


def near_tie(rng, frame, schema, row, goal):
    """Return a row of which numbers are shifted until it is about as near to the goal's centroid as to another's."""
    people = oar.Population.from_frame(frame, target="label", schema=schema)
    features, codes = np.asarray(people.features, dtype=float), people.codes(0, people.size)
    means = np.array([features[codes == code].mean(axis=0) for code in range(len(people.classes))])
    numbers = [column.name for column in schema if column.kind == "number"]
    wanted = list(people.classes).index(goal)
    there = {name: float(frame[name][frame["label"] == goal].mean()) for name in numbers}

    def lead(share):
        mixed = {name: (1 - share) * float(row[name]) + share * there[name] for name in numbers}
        distances = np.linalg.norm(people.vector({**row, **mixed}, "row") - means, axis=1)
        return float(np.delete(distances, wanted).min() - distances[wanted]), {**row, **mixed}

    low, high = 0.0, 1.0
    if not numbers or lead(0.0)[0] > 0 or lead(1.0)[0] <= 0:
        return row
    for _ in range(int(rng.integers(10, 50))):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if lead(middle)[0] > 0 else (middle, high)
    return lead(low)[1]


def limits_for(rng, frame, schema, row) -> Limits:
    """Draw limits, links and rules that can be."""
    columns = {column.name: limit_for(rng, frame, column, row[column.name]) for column in schema}
    numeric = [column.name for column in schema if column.kind in ("number", "integer")]
    links, rules = [], []
    if len(numeric) >= 2 and rng.random() < 0.35:
        one, other = rng.choice(numeric, 2, replace=False)
        spreads = [float(frame[name].std()) or 1.0 for name in (one, other)]
        factor = float(spreads[0] / spreads[1] * rng.uniform(0.2, 2) * rng.choice([-1, 1]))
        links.append(
            f"change({one}) <= {factor!r} * change({other})"
            if rng.random() < 0.5
            else f"{one} <= {factor!r} * {other} + {float(frame[one].max())!r}"
        )
    if len(schema.names) >= 2 and rng.random() < 0.2:
        one, other = rng.choice(schema.names, 2, replace=False)
        rules.append(f"if {said(rng, frame, schema[one])} then {said(rng, frame, schema[other])}")
    for some in ((links, rules), (links, []), ([], rules), ([], [])):
        limits = Limits(columns, tuple(some[0]), {}, tuple(some[1]))
        try:
            limits.check(schema)
            return limits
        except OptionError:
            continue
    return Limits()


def said(rng, frame, column) -> str:
    """Return a comparison of a column with a value of it."""
    value = frame[column.name].iloc[int(rng.integers(len(frame)))]
    if column.kind == "category":
        return f"{column.name} == {str(value)!r}"
    if column.kind == "boolean":
        return f"{column.name} == {bool(value)}"
    operator = rng.choice(["<=", ">=", "<", ">"])
    return f"{column.name} {operator} {int(value) if column.kind == 'integer' else float(value)!r}"


def limit_for(rng, frame, column, now) -> Limit:
    """Draw a column's limit."""
    if rng.random() < 0.25:
        return Limit(immutable=True)
    cost = size_of(rng) if rng.random() < 0.3 else float(rng.choice([0.5, 1.0, 3.0]))
    if column.kind in ("category", "boolean"):
        return Limit(cost=cost)
    spread = float(frame[column.name].std()) or 1.0
    bounds = {}
    if rng.random() < 0.3:
        bounds["upper"] = float(now) + spread * float(rng.uniform(0, 3))
    if rng.random() < 0.3:
        bounds["lower"] = float(now) - spread * float(rng.uniform(0, 3))
    if column.kind == "integer":
        bounds = {name: (math.ceil if name == "upper" else math.floor)(value) for name, value in bounds.items()}
    unit = size_of(rng) if rng.random() < 0.2 else None
    direction = str(rng.choice(["up", "down"])) if rng.random() < 0.15 else None
    step = spread * float(rng.uniform(0.1, 1)) if column.kind == "number" and rng.random() < 0.15 else None
    return Limit(cost=cost, unit=unit, direction=direction, step=step, **bounds)


# -- the attack ------------------------------------------------------------------------------------------------------


class Attack:
    """A search, with nothing but the audit, for a row that is accepted and costs less than was proved to be needed."""

    def __init__(self, rng, case: Case) -> None:
        """Ask for advice."""
        self.rng, self.case = rng, case
        self.ready, self.query, self.advice = case.asked()
        self.people, self.problem = self.ready.people, self.ready._problem(self.query)
        self.start = self.problem.query_features
        self.encoding = self.people.encoding
        self.columns = [column for column in case.schema if not case.limits.columns.get(column.name, Limit()).immutable]

    def refuted(self) -> str:
        """Return what was found that must not be; nothing where the advice held."""
        advice = self.advice
        if not 0 <= advice.bound <= advice.cost * (1 + 1e-12):
            return f"bound {advice.bound!r} and cost {advice.cost!r}"
        if advice.violations:
            return f"violations {advice.violations}"
        if advice.certificate is not None and advice.certificate.bound != advice.bound:
            return "the certificate says another bound"
        if advice.status is oar.results.Status.ALREADY or advice.bound == 0:
            return ""
        for point in itertools.chain(self.every(), self.points()):
            row = self.encoding.decode_row(point)
            price = total(
                cost_again(self.people, self.case.limits, self.advice.before.values, row.values, self.case.kind),
                self.case.kind,
            )
            if price < advice.bound * (1 - LESS) and self.accepted(row):
                return f"{row.values} costs {price!r}, and {advice} has bound {advice.bound!r}"
        return ""

    def every(self):
        """Yield all rows there are, where nothing but a few whole numbers, flags and categories may change."""
        choices = [self.choices(column) for column in self.columns]
        if any(choice is None for choice in choices) or math.prod(map(len, choices)) > MOST_ROWS:
            return
        for some in itertools.product(*choices):
            point = self.start.copy()
            for column, values in zip(self.columns, some, strict=True):
                point[self.encoding.places[column.name]] = values
            yield point

    def choices(self, column):
        """Return what a column's coordinates may be; None where these are too many to look at."""
        place, limit = self.encoding.places[column.name], self.case.limits.columns.get(column.name, Limit())
        if column.kind == "category":
            return list(np.eye(len(column.levels)))
        if column.kind == "boolean":
            return [[0.0], [1.0]]
        now = float(self.start[place.start])
        low = now if limit.direction == "up" else limit.lower
        high = now if limit.direction == "down" else limit.upper
        if column.kind != "integer" or low is None or high is None or high - low > 60:
            return None
        return [[float(value)] for value in range(math.ceil(min(low, now)), math.floor(max(high, now)) + 1)]

    def accepted(self, row) -> bool:
        """Ask the audit."""
        before = self.advice.before.values
        if broken_limits(self.people, self.case.limits, {}, before, row.values):
            return False
        return self.ready._judge.judge(self.problem, row.values).reached

    def points(self):
        """Yield points that may be better: shorter than what was found, one column alone, a few together."""
        found = self.people.vector(self.advice.after.values, "row") - self.start
        if found.any():
            for share in (0.5, 0.9, 0.99, 1 - 1e-3, 1 - 1e-5, 1 - 3e-6):
                yield self.start + share * found
            for column in self.columns:
                place = self.encoding.places[column.name]
                less = found.copy()
                less[place] *= 0.0 if column.levels else self.rng.choice([0.0, 0.5, 0.99])
                yield self.start + less
                if column.whole and not column.levels:
                    step = np.zeros_like(found)
                    step[place] = -np.sign(found[place])
                    yield self.start + found + step
        for _ in range(8):
            yield from self.along(self.direction(found))

    def direction(self, found):
        """Return a direction: of one column, of some, or one near to what was found."""
        chosen = self.rng.random(len(self.columns)) < self.rng.choice([0.2, 0.6, 1.0])
        if not chosen.any() and len(chosen):
            chosen[self.rng.integers(len(chosen))] = True
        heading = np.zeros_like(self.start)
        for column, mine in zip(self.columns, chosen, strict=True):
            place = self.encoding.places[column.name]
            if mine and column.kind == "category":
                heading[place] = -self.start[place]
                heading[place.start + self.rng.integers(len(column.levels))] += 1.0
            elif mine:
                spread = float(np.std(np.asarray(self.people.features[:, place.start], dtype=float))) or 1.0
                heading[place] = self.rng.normal() * spread
        return heading if self.rng.random() < 0.7 or not found.any() else found + 0.1 * heading

    def along(self, heading):
        """Yield the shortest move in a direction that the model calls the goal, and a little more and less."""
        categories = np.zeros(self.start.size, dtype=bool)
        for column in self.case.schema:
            categories[self.encoding.places[column.name]] = column.kind == "category"
        switched = np.where(categories, heading, 0.0)
        numbers = np.where(categories, 0.0, heading)

        def point(length):
            return self.start + switched + length * numbers

        if self.reaches(point(0.0)):
            yield point(0.0)
            return
        if not numbers.any():
            return
        high = next((length for length in 10.0 ** np.arange(-6, 13) if self.reaches(point(length))), None)
        if high is None:
            return
        low = 0.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.reaches(point(middle)) else (middle, high)
        for share in (1.0, 1 + 1e-12, 1 + 1e-9):
            yield point(high * share)

    def reaches(self, point) -> bool:
        """Report whether the goal leads at all, by the audit's own refit; the audit itself is asked later."""
        judge = self.ready._judge
        if isinstance(self.case.model, oar.NearestCentroid):
            distances = np.array([math.dist(centroid, point) for centroid in judge.centroids[0]])
            return bool(np.delete(distances, self.problem.goal).min() > distances[self.problem.goal])
        outputs = judge.outputs(point[None])[0]
        if self.problem.regresses:
            return bool(np.abs(outputs - self.problem.goal_target).max() <= self.problem.within)
        logits = np.array([0.0, outputs[0]]) if outputs.size == 1 else outputs
        return bool(logits[self.problem.goal] > np.delete(logits, self.problem.goal).max())

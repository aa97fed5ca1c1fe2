"""Random tables with random limits, and a judge of moves that shares no code with the package.

The judge knows a raw pandas frame, what its columns are and what was allowed, in the table's own units; it reads the
plan's moves by their names ("income", "purpose=car") and says in words what is broken.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from hypothesis import strategies as st

import oar
from oar.people.tables.schema import Column, Schema

RELATIVE = 1e-9  # of the values compared: rounding of float64 sums


@dataclass
class Link:
    """Σ values·after + Σ changes·(after − before) + constant ≤ 0."""

    text: str
    values: dict = field(default_factory=dict)
    changes: dict = field(default_factory=dict)
    constant: float = 0.0


@dataclass
class World:
    frame: pd.DataFrame  # features alone
    target: pd.Series
    weights: np.ndarray | None
    kinds: dict[str, str]
    levels: dict[str, tuple]
    limits: dict[str, dict]
    own: dict[object, dict[str, dict]]
    links: list[Link]
    query: dict
    query_budget: float
    budget: object
    norm: float
    participants: np.ndarray | None
    regresses: bool
    goal: object

    @property
    def schema(self) -> Schema:
        return Schema(tuple(Column(name, kind, self.levels.get(name, ())) for name, kind in self.kinds.items()))

    def people(self) -> oar.Population:
        table = self.frame.assign(outcome=self.target)
        if self.weights is not None:
            table["weight"] = self.weights
        return oar.Population.from_frame(
            table, "outcome", schema=self.schema, weights=None if self.weights is None else "weight"
        )

    def oar_limits(self) -> oar.Limits:
        return oar.Limits(
            {name: oar.Limit(**settings) for name, settings in self.limits.items()},
            links=[link.text for link in self.links],
            own={
                person: {name: oar.Limit(**settings) for name, settings in columns.items()}
                for person, columns in self.own.items()
            },
        )

    def problem(self, model, budget=None) -> oar.Problem:
        query = oar.Query(
            self.query, self.goal, budget=self.query_budget, **({"within": 0.1} if self.regresses else {})
        )
        action = oar.Perturb(
            self.budget if budget is None else budget,
            norm=self.norm,
            participants=self.participants,
            limits=self.oar_limits(),
        )
        return oar.Problem(self.people(), model, query, action)

    def radii(self) -> np.ndarray:
        """Everyone's budget: nothing for those who stay out, or whose data weigh nothing."""
        radii = np.broadcast_to(np.asarray(self.budget, dtype=float), (len(self.frame),)).copy()
        if self.participants is not None:
            radii[~self.participants] = 0.0
        if self.weights is not None:
            radii[self.weights == 0] = 0.0
        return radii

    def unit(self, name: str) -> float:
        """What costs `cost`: what the limit says, or a standard deviation of the unmoved people."""
        if self.kinds[name] == "boolean":
            return 1.0
        settings = self.limits.get(name, {})
        if settings.get("unit") is not None:
            return float(settings["unit"])
        values = self.numbers(name, self.frame[name])
        weights = np.ones(len(values)) if self.weights is None else self.weights
        centre = (weights * values).sum() / weights.sum()
        spread = np.sqrt((weights * (values - centre) ** 2).sum() / weights.sum())
        return float(spread) if spread > 1e-9 * abs(centre) else 1.0

    def numbers(self, name: str, values) -> np.ndarray:
        """A column that is no category, as numbers; ordinals by rank."""
        if self.kinds[name] == "ordinal":
            return np.array([self.levels[name].index(value) for value in values], dtype=float)
        return np.asarray(list(values), dtype=float)

    # The judge

    def broken(self, result) -> list[str]:
        """Say what the moves of a result break."""
        moves = result.plan.moves()
        found = []
        if list(moves.index) != list(self.frame.index):
            found.append("the index is not the table's")
        found += self._broken(self.frame, moves, self.radii(), [dict(self.own.get(p, {})) for p in self.frame.index])
        query_moves = pd.DataFrame([result.plan.query_move], columns=moves.columns)
        before = pd.DataFrame({name: pd.Series([value], dtype=object) for name, value in self.query.items()})
        found += ["query: " + said for said in self._broken(before, query_moves, [self.query_budget], [{}])]
        return found

    def _broken(self, before: pd.DataFrame, moves: pd.DataFrame, radii, own) -> list[str]:
        found = []
        if not np.isfinite(moves.to_numpy()).all():
            return ["a move is no number"]
        costs = np.zeros((len(before), len(self.kinds)))
        was, now = {}, {}
        for number, (name, kind) in enumerate(self.kinds.items()):
            everybodys = self.limits.get(name, {})
            if kind == "category":
                costs[:, number] = self._category(name, before[name], moves, own, found) * everybodys.get("cost", 1.0)
                continue
            was[name] = self.numbers(name, before[name])
            now[name] = was[name] + moves[name].to_numpy()
            self._column(name, kind, was[name], now[name], own, found)
            costs[:, number] = everybodys.get("cost", 1.0) * np.abs(now[name] - was[name]) / self.unit(name)
        for link in self.links:
            found += self._link(link, was, now)
        lengths = np.linalg.norm(costs, ord=self.norm, axis=1)
        for row in np.flatnonzero(lengths > np.asarray(radii) * (1 + RELATIVE)):
            found.append(f"row {row} pays {lengths[row]!r} of {radii[row]!r}")
        return found

    def _category(self, name, before, moves, own, found) -> np.ndarray:
        levels = self.levels[name]
        part = moves[[f"{name}={level}" for level in levels]].to_numpy()
        hot = np.array([[float(value == level) for level in levels] for value in before])
        after = hot + part
        for row in range(len(before)):
            settings = own[row].get(name, self.limits.get(name, {}))
            if sorted(after[row]) != [0.0] * (len(levels) - 1) + [1.0]:
                found.append(f"row {row} is a mixture in {name}: {after[row]}")
                continue
            level = levels[int(after[row].argmax())]
            if level != before.iloc[row]:
                if settings.get("immutable"):
                    found.append(f"row {row} switches immutable {name}")
                if settings.get("levels") is not None and level not in settings["levels"]:
                    found.append(f"row {row} takes {level} in {name}")
        return (after.argmax(axis=1) != hot.argmax(axis=1)).astype(float)

    def _column(self, name, kind, was, now, own, found) -> None:
        top = {"boolean": 1.0, "ordinal": len(self.levels.get(name, ())) - 1.0}.get(kind)
        for row in range(len(was)):
            settings = own[row].get(name, self.limits.get(name, {}))
            a, b = was[row], now[row]
            slack = RELATIVE * (abs(a) + abs(b))
            if kind != "number" and b != round(b):
                found.append(f"row {row} has {b!r} in {kind} {name}")
            if top is not None and not 0 <= b <= top:
                found.append(f"row {row} leaves the levels of {name}: {b!r}")
            if settings.get("immutable") and a != b:
                found.append(f"row {row} changes immutable {name}")
            if settings.get("direction") == "up" and b < a or settings.get("direction") == "down" and b > a:
                found.append(f"row {row} goes the wrong way in {name}: {a!r} to {b!r}")
            step = self.limits.get(name, {}).get("step")
            if step and abs((b - a) / step - round((b - a) / step)) > 1e-6:
                found.append(f"row {row} moves {name} by {b - a!r}, no multiple of {step}")
            for key, sign in (("lower", -1), ("upper", 1)):
                bound = settings.get(key)
                if bound is None:
                    continue
                bound = float(self.levels[name].index(bound)) if kind == "ordinal" else float(bound)
                if sign * b > max(sign * bound, sign * a) + slack:
                    found.append(f"row {row} breaks {key} {bound!r} of {name}: {a!r} to {b!r}")

    def _link(self, link, was, now) -> list[str]:
        size = len(next(iter(now.values())))
        stood, stands, scale = (np.full(size, x) for x in (link.constant, link.constant, abs(link.constant)))
        for name, factor in link.values.items():
            stood = stood + factor * was[name]
            stands = stands + factor * now[name]
            scale = scale + abs(factor) * (np.abs(was[name]) + np.abs(now[name]))
        for name, factor in link.changes.items():
            stands = stands + factor * (now[name] - was[name])
            scale = scale + abs(factor) * (np.abs(was[name]) + np.abs(now[name]))
        return [
            f"row {row} breaks {link.text!r}: {stood[row]!r} to {stands[row]!r}"
            for row in np.flatnonzero(stands > np.maximum(stood, 0.0) + 10 * RELATIVE * scale)
        ]


# Drawing worlds


def _within(value, kind: str, levels: tuple, limit: dict):
    """Return a query's value within everybody's bounds, outside of which it is refused."""
    lower, upper = limit.get("lower"), limit.get("upper")
    if kind == "ordinal":
        least = 0 if lower is None else levels.index(lower)
        most = len(levels) - 1 if upper is None else levels.index(upper)
        return levels[min(max(levels.index(value), least), most)]
    if lower is not None and value < lower:
        value = int(np.ceil(lower)) if kind == "integer" else lower
    if upper is not None and value > upper:
        value = int(np.floor(upper)) if kind == "integer" else upper
    return value


KINDS = ("number", "integer", "boolean", "ordinal", "category")


def _values(rng: np.random.Generator, kind: str, shape: str, size: int, levels: tuple):
    if shape == "constant":
        constant = {"number": 3.25, "integer": 7, "boolean": True}.get(kind, levels[0] if levels else None)
        return [constant] * size
    if kind == "number":
        if shape == "heavy":
            return np.exp(3.0 * rng.normal(size=size)).tolist()
        return (rng.normal(size=size) * float(rng.choice([1e-3, 1.0, 1e4])) + float(rng.choice([0.0, 50.0]))).tolist()
    if kind == "integer":
        if shape == "heavy":
            return np.floor(np.exp(2.5 * np.abs(rng.normal(size=size)) + 2)).astype(int).tolist()
        return rng.integers(-2, 12, size).tolist()
    if kind == "boolean":
        return (rng.random(size) < 0.4).tolist()
    return [levels[code] for code in rng.integers(0, len(levels), size)]


@st.composite
def worlds(draw, regresses: bool = False, most_rows: int = 60, columns: int = 6) -> World:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = draw(st.integers(8, most_rows))
    kinds, levels, data = {}, {}, {}
    for number in range(draw(st.integers(1, columns))):
        kind = draw(st.sampled_from(KINDS))
        name = f"{'abcdef'[number]}"
        kinds[name] = kind
        if kind in ("ordinal", "category"):
            levels[name] = tuple("uvwxyz"[: draw(st.integers(1, 5))])
        shape = draw(st.sampled_from(("plain", "plain", "heavy", "constant")))
        data[name] = _values(rng, kind, shape, size, levels.get(name, ()))
    index = {
        "range": pd.RangeIndex(size),
        "text": pd.Index([f"p{place}" for place in range(size)]),
        "shuffled": pd.Index(rng.permutation(size) + 100),
    }[draw(st.sampled_from(("range", "text", "shuffled")))]
    frame = pd.DataFrame(data, index=index)
    if regresses:
        target = pd.Series(rng.normal(size=size), index=index)
        goal: object = float(rng.normal())
    else:
        classes = draw(st.integers(2, 3))
        codes = np.concatenate([np.repeat(np.arange(classes), 2), rng.integers(0, classes, size - 2 * classes)])
        rng.shuffle(codes)
        target = pd.Series(np.array(["no", "yes", "maybe"])[codes], index=index)
        goal = "yes"
    weights = None
    if draw(st.booleans()):
        weights = rng.integers(0, 4, size).astype(float)
        for value in pd.unique(target) if not regresses else []:
            members = np.flatnonzero((target == value).to_numpy())
            weights[members[:2]] = 1.0
        if regresses:
            weights[:2] = 1.0
    query = {name: _pick(rng, values) for name, values in data.items()}
    plain = [name for name in kinds if kinds[name] != "category"]
    limits = {}
    for name in kinds:
        if draw(st.booleans()):
            limits[name] = _limit(draw, rng, kinds[name], levels.get(name, ()), data[name], own=False)
    query = {
        name: _within(value, kinds[name], levels.get(name, ()), limits.get(name, {})) for name, value in query.items()
    }
    own = {}
    for _ in range(draw(st.integers(0, 3))):
        person = index[int(rng.integers(size))]
        name = draw(st.sampled_from(sorted(kinds)))
        own.setdefault(person, {})[name] = _limit(draw, rng, kinds[name], levels.get(name, ()), data[name], own=True)
    links = [_link(draw, rng, plain) for _ in range(draw(st.integers(0, 2)) if len(plain) > 1 else 0)]
    common = draw(st.booleans())
    budget = draw(st.sampled_from((0.0, 0.3, 1.0, 1.5, 3.0)))
    return World(
        frame=frame,
        target=target,
        weights=weights,
        kinds=kinds,
        levels=levels,
        limits=limits,
        own=own,
        links=links,
        query=query,
        query_budget=draw(st.sampled_from((0.0, 0.5, 1.0, 2.0))),
        budget=budget if common else rng.choice([0.0, 0.5, 1.0, 3.0], size),
        norm=draw(st.sampled_from((1, 2, np.inf))),
        participants=draw(st.sampled_from((None, True))) and rng.random(size) < 0.6,
        regresses=regresses,
        goal=goal,
    )


def _pick(rng, values):
    return values[int(rng.integers(len(values)))]


def _limit(draw, rng, kind, levels, values, own) -> dict:  # noqa: C901
    if draw(st.integers(0, 4)) == 0:
        return {"immutable": True}
    settings: dict = {}
    if not own:
        settings["cost"] = draw(st.sampled_from((0.1, 0.5, 1.0, 2.0)))
    if kind == "category":
        if draw(st.booleans()):
            settings["levels"] = tuple(level for level in levels if rng.random() < 0.6)
        return settings
    if draw(st.booleans()):
        settings["direction"] = draw(st.sampled_from(("up", "down")))
    if kind in ("number", "integer"):
        if draw(st.booleans()):
            settings["lower"] = float(np.quantile(values, 0.2))
        if draw(st.booleans()):
            settings["upper"] = float(np.quantile(values, 0.8))
        if not own and draw(st.booleans()):
            settings["step"] = int(rng.integers(1, 4)) if kind == "integer" else float(rng.choice([0.1, 0.25, 3.0]))
        if not own and draw(st.booleans()):
            settings["unit"] = float(rng.choice([0.5, 1.0, 10.0]))
    if kind == "ordinal":
        low, high = sorted(int(x) for x in rng.integers(0, len(levels), 2))
        if draw(st.booleans()):
            settings["lower"] = levels[low]
        if draw(st.booleans()):
            settings["upper"] = levels[high]
    return settings


def _link(draw, rng, names) -> Link:
    a, b = (str(name) for name in rng.choice(names, 2, replace=False))
    kind = draw(st.sampled_from(("values", "changes", "both", "factor", "equal")))
    if kind == "values":
        return Link(f"{a} <= {b}", {a: 1.0, b: -1.0})
    if kind == "changes":
        return Link(f"change({a}) >= change({b})", {}, {a: -1.0, b: 1.0})
    if kind == "both":
        return Link(f"{a} + change({b}) <= 5", {a: 1.0}, {b: 1.0}, -5.0)
    if kind == "factor":
        return Link(f"2 * {a} - 0.5 * {b} >= 1", {a: -2.0, b: 0.5}, {}, 1.0)
    return Link(f"change({a}) <= 0.5", {}, {a: 1.0}, -0.5)

"""Tiny tables on which all joint moves can be tried: how far from the best is what is found?

Every combination of what one to three participants may do is refitted here by a batched Newton method of the test's
own. Whole moves together are a hard combinatorial problem, and `oar.collective` a local search, so the promises are
about shares: how often it finds the best, and how much of the possible improvement it misses.

The bounds were set after measuring, with room, and guard against getting worse; they are no target. Over 24 tables the
best was always found for one participant, and for two and three in 91 % to 100 %. The mean share missed was up to
0.009, and the largest 0.211.
"""

import dataclasses
import itertools
import math

import numpy as np
import pandas as pd
import pytest

import oar
from oar import models
from oar.people.tables.schema import Column, Schema

LEVELS = ("a", "b", "c")
MOST = 3_000  # combinations


def tiny(seed: int) -> tuple[pd.DataFrame, Schema]:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(6, 10))
    columns = {
        "count": rng.integers(0, 6, size),
        "flag": rng.random(size) < 0.5,
        "kind": rng.choice(LEVELS, size),
    }
    kinds = {"count": "integer", "flag": "boolean", "kind": "category"}
    if seed % 3 == 0:  # two columns
        dropped = ("count", "flag", "kind")[(seed // 3) % 3]
        del columns[dropped], kinds[dropped]
    frame = pd.DataFrame(columns)
    labels = np.array(["no", "yes"] * size)[:size]
    rng.shuffle(labels)
    frame["outcome"] = labels
    schema = Schema(tuple(Column(n, k, LEVELS if k == "category" else ()) for n, k in kinds.items()))
    return frame, schema


def coordinates(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    parts = []
    for column in schema:
        values = frame[column.name]
        if column.kind == "category":
            parts += [(values == level).to_numpy(dtype=float) for level in LEVELS]
        else:
            parts.append(values.to_numpy(dtype=float))
    return np.stack(parts, axis=1)


def options(row: dict, schema: Schema, limits: dict, budget: float, norm: float) -> list[dict]:
    """Everything that somebody with this row may become."""
    choices = []
    for column in schema:
        value, limit = row[column.name], limits.get(column.name, {})
        cost = limit.get("cost", 1.0)
        if limit.get("immutable"):
            choices.append([(value, 0.0)])
        elif column.kind == "boolean":
            choices.append([(value, 0.0), (not value, cost)])
        elif column.kind == "category":
            allowed = limit.get("levels", LEVELS)
            choices.append([(level, cost * (level != value)) for level in LEVELS if level == value or level in allowed])
        else:
            low, high = min(limit.get("lower", -99), value), max(limit.get("upper", 99), value)
            reach = int(budget * limit["unit"] / cost + 1e-9)
            low = value if limit.get("direction") == "up" else max(low, value - reach)
            high = min(high, value + reach)
            choices.append([(other, cost * abs(other - value) / limit["unit"]) for other in range(low, high + 1)])
    found = []
    for combination in itertools.product(*choices):
        if np.linalg.norm([price for _, price in combination], ord=norm) <= budget * (1 + 1e-9):
            found.append(dict(zip(schema.names, [value for value, _ in combination], strict=True)))
    return found


def goal_losses(
    features: np.ndarray, codes: np.ndarray, query: np.ndarray, scaled: np.ndarray, l2: float
) -> np.ndarray:
    """−log p(yes | query) after each of many refits: features (b, n, d), queries (b, d)."""
    centre = np.where(scaled, features.mean(axis=1), 0.0)
    spread = np.where(scaled, features.std(axis=1), 1.0)
    spread = np.where(spread > 0, spread, 1.0)
    rows, point = (features - centre[:, None]) / spread[:, None], (query - centre) / spread
    rows = np.concatenate([rows, np.ones((*rows.shape[:2], 1))], axis=2)
    point = np.concatenate([point, np.ones((len(point), 1))], axis=1)
    penalty = np.append(np.full(features.shape[2], l2), 0.0)
    theta, slope = np.zeros(point.shape), np.full(1, np.inf)
    for _ in range(60):
        chance = 1 / (1 + np.exp(-np.einsum("bnd,bd->bn", rows, theta)))
        slope = np.einsum("bnd,bn->bd", rows, chance - codes) / len(codes) + penalty * theta
        if np.abs(slope).max() < 1e-12:
            break
        bend = (rows * (chance * (1 - chance))[..., None]).swapaxes(1, 2) @ rows / len(codes) + np.diag(penalty)
        step = np.linalg.solve(bend, slope[..., None])[..., 0]
        theta = theta - step * np.minimum(1.0, 3.0 / np.maximum(np.abs(step).max(axis=1, keepdims=True), 1e-300))
    assert np.abs(slope).max() < 1e-9
    return np.logaddexp(0.0, -np.einsum("bd,bd->b", point, theta))


def asked(seed: int, norm: float, participants: int):
    frame, schema = tiny(seed)
    rng = np.random.default_rng(seed + 10_000)
    limits = {
        "count": {"unit": 2.0, "lower": 0, "upper": 5, **({"direction": "up"} if seed % 5 == 0 else {})},
        "flag": {"cost": 0.5},
        "kind": {"levels": ("a", "b")} if seed % 2 else {},
    }
    limits = {name: limit for name, limit in limits.items() if name in schema.names}
    mask = np.zeros(len(frame), dtype=bool)
    mask[rng.choice(len(frame), participants, replace=False)] = True
    row = frame.drop(columns="outcome").iloc[int(rng.integers(len(frame)))].to_dict()
    people = oar.Population.from_frame(frame, "outcome", schema=schema)
    problem = oar.Problem(
        people,
        models.Scaled(models.SoftmaxRegression(l2=0.1)),
        oar.Query(row, "yes", budget=1.5),
        oar.Perturb(1.5, norm=norm, participants=mask, limits={n: oar.Limit(**each) for n, each in limits.items()}),
    )
    return problem, frame, schema, limits, mask, row


def everything(frame, schema, limits, norm, mask, row, alone: bool) -> np.ndarray | None:
    """The goal loss of all that participants (or, alone, the query) may do, from staying on; None if it is too much."""
    before = coordinates(frame, schema)
    codes = (frame["outcome"] == "yes").to_numpy(dtype=float)
    point = coordinates(pd.DataFrame([row]), schema)[0]
    scaled = np.concatenate([[c.kind == "integer"] * (len(LEVELS) if c.levels else 1) for c in schema])
    if alone:
        others = pd.DataFrame([row, *options(row, schema, limits, 1.5, norm)])
        queries = coordinates(others, schema)
        features = np.broadcast_to(before, (len(queries), *before.shape))
        return goal_losses(features, codes, queries, scaled, 0.1)
    members = np.flatnonzero(mask)
    each = [options(frame.iloc[m].to_dict(), schema, limits, 1.5, norm) for m in members]
    if math.prod(map(len, each)) >= MOST:
        return None
    combinations = list(itertools.product(*(range(len(one)) for one in each)))
    features = np.broadcast_to(before, (len(combinations) + 1, *before.shape)).copy()
    moved = [coordinates(pd.DataFrame(one), schema) for one in each]
    for place, member in enumerate(members):
        features[1:, member] = moved[place][[combination[place] for combination in combinations]]
    return goal_losses(features, codes, np.broadcast_to(point, (len(features), len(point))), scaled, 0.1)


@pytest.mark.parametrize("norm", [1, 2, np.inf])
@pytest.mark.parametrize("participants", [1, 2, 3])
def test_collective_moves_miss_little_of_the_best(norm, participants, capsys):
    missed = []
    for seed in range(14):
        problem, frame, schema, limits, mask, row = asked(seed, norm, participants)
        losses = everything(frame, schema, limits, norm, mask, row, alone=False)
        if losses is None:
            continue
        result = oar.collective(problem)
        assert result.status is not oar.results.Status.REFUSED
        assert result.loss_before == pytest.approx(losses[0], rel=1e-6)
        best = losses.min()
        assert result.loss >= best * (1 - 1e-6)  # nobody does better than everything that is allowed
        possible = losses[0] - best
        missed.append((result.loss - best) / possible if possible > 1e-9 else 0.0)
    missed = np.array(missed)
    with capsys.disabled():
        _print(f"collective, p = {norm}, {participants} participants", missed)
    assert (missed < 1e-5).mean() >= (0.99 if participants == 1 else 0.85)
    assert missed.mean() <= 0.03
    assert missed.max() <= 0.3


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_a_larger_ball_allows_is_used(seed):
    """Whatever keeps to a budget in p = 1 keeps to it in p = 2 and in p = ∞."""
    loans = oar.datasets.german_credit()
    frame = loans.frame.sample(60, random_state=seed)
    row = frame[frame["credit"] == "bad"].drop(columns="credit").iloc[0]
    people = oar.Population.from_frame(frame, loans.target, schema=loans.schema)
    model, losses = models.Scaled(models.SoftmaxRegression(l2=0.1)), []
    for norm in (1, 2, np.inf):
        action = oar.Perturb(0.3, norm=norm, limits=loans.limits)
        losses.append(oar.collective(oar.Problem(people, model, oar.Query(row, "good"), action)).loss)
    assert losses == sorted(losses, reverse=True)


@pytest.mark.parametrize("seed", range(6))
def test_together_they_do_no_worse_than_either_alone(seed):
    problem, *_ = asked(seed, (1, 2, np.inf)[seed % 3], 3)
    for model in (problem.model, oar.NearestCentroid()):
        each = [verb(dataclasses.replace(problem, model=model)).loss for verb in (oar.individual, oar.collective)]
        assert oar.joint(dataclasses.replace(problem, model=model)).loss <= min(each) * (1 + 1e-7)


@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_individual_moves_are_the_best_nearly_always(norm, capsys):
    missed = []
    for seed in range(60):
        problem, frame, schema, limits, mask, row = asked(seed, norm, 1)
        losses = everything(frame, schema, limits, norm, mask, row, alone=True)
        result = oar.individual(problem)
        assert result.status is not oar.results.Status.REFUSED
        best = losses.min()
        assert result.loss >= best * (1 - 1e-6)
        possible = losses[0] - best
        missed.append((result.loss - best) / possible if possible > 1e-9 else 0.0)
    missed = np.array(missed)
    with capsys.disabled():
        _print(f"individual, p = {norm}", missed)
    assert (missed < 1e-5).mean() >= 0.9
    assert missed.max() <= 0.25


def _print(what: str, missed: np.ndarray) -> None:
    shares = ", ".join(f"{q:.0%}: {np.quantile(missed, q):.3g}" for q in (0.5, 0.75, 0.9, 0.95, 1.0))
    best = (missed < 1e-5).mean()
    print(f"\n{what}: best in {best:.0%} of {missed.size}; share missed, quantiles {shares}")  # noqa: T201

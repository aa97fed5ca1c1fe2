"""Collective recourse on real tables with all their limits, beside one scikit-learn fit of the same pipeline.

People move so that a refused person is accepted after the refit: the person whose score is the median of all refused,
with a budget of 1 for everybody (a standard deviation of a number, or what the limits say). Every move is checked by
`table_rules`, which shares no code with the package. A round is fit, solve, audit, fit, and the ratio is formed with
the mean of the two fits.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import oar
import oar.datasets
from benchmarks.rows import Effort, Row, skipped
from benchmarks.table_rules import ROUNDING, broken_limits, costs, in_ranks, moved_table
from benchmarks.timing import Times
from oar.referee import audit
from oar.solvers import propose_collective

L2, BUDGET, NORMS = 1e-2, 1.0, (1, 2)
MOST_FITS = 20.0
FIT, SOLVE, AUDITED = "scikit-learn's fit", "solve", "solve + audit"


def rows(effort: Effort) -> Iterator[Row]:
    yield from _table("German credit", oar.datasets.german_credit(), "good", effort.slow_rounds)
    folder = adult_folder()
    if folder.is_dir():
        # One round: a solve of 45,222 people takes long enough to average over a busy moment.
        yield from _table("Adult", oar.datasets.adult(folder), ">50K", 1)
    else:
        reason = "Adult's files are not here; set OAR_DATA to a folder that holds adult/"
        for norm in NORMS:
            yield skipped(f"solve / scikit-learn's fit, Adult, p = {norm}", reason, MOST_FITS)


def adult_folder() -> Path:
    """Return where UCI's Adult files are looked for: in OAR_DATA, or beside the checkout."""
    data = os.environ.get("OAR_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(data) / "adult"


def pipeline(schema: Any, size: int, l2: float = L2) -> Any:
    """Return scikit-learn's own form of `Scaled(SoftmaxRegression(l2))` for a table in ranks; not yet fitted."""
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    categories = [column for column in schema if column.kind == "category"]
    levels = [np.array(column.levels, dtype=object) for column in categories]
    scaled = [column.name for column in schema if column.kind not in ("category", "boolean")]
    booleans = [column.name for column in schema if column.kind == "boolean"]
    encode = ColumnTransformer(
        [
            ("categories", OneHotEncoder(categories=levels), [column.name for column in categories]),
            ("numbers", StandardScaler(), scaled),
            ("booleans", "passthrough", booleans),
        ]
    )
    return make_pipeline(encode, LogisticRegression(C=1 / (l2 * size)))


def _table(name: str, data: Any, goal: str, rounds: int) -> Iterator[Row]:
    people, labels = in_ranks(data.frame, data.schema), data.frame[data.target]
    model = pipeline(data.schema, len(people)).fit(people, labels)
    chances = model.predict_proba(people)[:, list(model.classes_).index(goal)]
    refused = np.flatnonzero(chances < 0.5)
    asking = refused[np.argsort(chances[refused])[len(refused) // 2]]
    query = oar.Query(data.frame[list(data.schema.names)].iloc[asking], goal=goal)
    ours = oar.models.Scaled(oar.models.SoftmaxRegression(l2=L2))
    for norm in NORMS:
        action = oar.Perturb(BUDGET, norm=norm, limits=data.limits)
        problem = oar.Problem(data.population, ours, query, action)
        times, found, report = _in_turns(
            lambda: pipeline(data.schema, len(people)).fit(people, labels), problem, rounds
        )
        about = f"{name}, p = {norm}"
        context = f"{times.shown(SOLVE, FIT)}; {found.steps} steps, {found.passes} passes"
        yield Row(f"solve / scikit-learn's fit, {about}", times.ratio(SOLVE, FIT), "×", MOST_FITS, context)
        yield Row("  with the audit", times.ratio(AUDITED, FIT), context=times.shown(AUDITED))
        yield _limits_row(people, found.plan.moves(), data, norm, oar.results.Result(problem, found, report))


def _in_turns(fit: Callable[[], Any], problem: oar.Problem, rounds: int) -> tuple[Times, Any, Any]:
    """Time fit, solve, audit and fit in turns, after one untimed call of each; return the last solve and audit too."""
    seconds: dict[str, list[float]] = {FIT: [], SOLVE: [], AUDITED: []}
    for number in range(rounds + 1):
        before, _ = _clocked(fit)
        solve, found = _clocked(lambda: propose_collective(problem))
        check, report = _clocked(lambda plan=found.plan: audit(plan))
        after, _ = _clocked(fit)
        if number > 0:  # the first round compiles and imports
            for key, value in ((FIT, (before + after) / 2), (SOLVE, solve), (AUDITED, solve + check)):
                seconds[key].append(value)
    return Times({key: np.array(values) for key, values in seconds.items()}), found, report


def _clocked(function: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = function()
    return time.perf_counter() - began, result


def _limits_row(people: pd.DataFrame, moves: pd.DataFrame, data: Any, norm: int, result: oar.results.Result) -> Row:
    """Return how many rules of how many people are broken."""
    after, nonsense = moved_table(people, moves, data.schema)
    broken = broken_limits(people, after, data.schema, data.limits)
    prices = costs(people, after, data.schema, data.limits, people)
    over = np.linalg.norm(prices.to_numpy(float), ord=norm, axis=1) > BUDGET * (1 + ROUNDING)
    movers = int(moves.to_numpy().any(axis=1).sum())
    said = [rule for rule in broken if broken[rule].any()] + ["budget"] * bool(over.any())
    context = f"{len(moves):,} people, {movers:,} of whom move, against {broken.shape[1] + 2} rules"
    context += f"; {result.status.value}, goal loss {result.loss_before:.3g} → {result.loss:.3g}"
    context += f"; broken: {', '.join(said)}" if said else ""
    count = int(broken.to_numpy().sum() + nonsense.sum() + over.sum())
    return Row("  limits broken, by the benchmark's own check", count, "", 0.0, context)

"""What planning adds to a black box's own training: time that is not spent inside the user's `fit`.

XGBoost with its default settings, 10,000 people, 60 trainings to plan and a few to audit. Measured is the share of
`oar.collective`'s time outside of `fit`: surrogates, the search, members' answers, questions and copies. A first run,
in which libraries are imported and compile, comes before and is context. What planning adds hardly depends on how long
a training takes: 5 features, whose trainings are three times as quick, and labels, for which everyone is ranked, are
shown beside the target's case.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import oar
from benchmarks.rows import Effort, Row, skipped

PEOPLE, REFITS = 10_000, 60
MOST_OUTSIDE = 0.05
NAME = "XGBoost, share of the time outside its own fit"
CASES: tuple[tuple[str, int, Any, float | None], ...] = (
    ("moves, 20 features", 20, oar.Perturb(0.5), MOST_OUTSIDE),
    ("moves, 5 features", 5, oar.Perturb(0.5), None),
    ("50 labels, 20 features", 20, oar.Relabel(most=50), None),
)


def rows(effort: Effort) -> Iterator[Row]:
    """Measure the share, first cold and then as often as slow things are measured."""
    if importlib.util.find_spec("xgboost") is None:
        yield skipped(NAME, "xgboost is not installed", MOST_OUTSIDE)
        return
    for what, features, action, most in CASES:
        first, _, _ = _outside(features, action)
        measured = [_outside(features, action) for _ in range(effort.slow_rounds)]
        shares = np.array([share for share, _, _ in measured])
        seconds, fits = np.median([took for _, took, _ in measured]), measured[0][2]
        context = f"{PEOPLE:,} people, {fits} trainings in {seconds:.1f} s; {first:.3f} in a first run"
        yield Row(f"{NAME}: {what}", shares, "", most, context)


def _outside(dimensions: int, action: Any) -> tuple[float, float, int]:
    """Return the share of the time outside of `fit`, all the time, and the number of trainings."""
    from xgboost import XGBClassifier

    rng = np.random.default_rng(0)
    features = rng.normal(size=(PEOPLE, dimensions))
    labels = (features @ rng.normal(size=dimensions) + rng.normal(size=PEOPLE) > 0).astype(int)
    box = oar.BlackBox(XGBClassifier())
    problem = oar.Problem(oar.Population(features, labels), box, oar.Query(features[labels == 0][0], goal=1), action)
    began = time.perf_counter()
    oar.collective(problem, solver=oar.solvers.DirectSearch(refits=REFITS))
    took = time.perf_counter() - began
    return 1 - box.calls.seconds / took, took, box.calls.fits

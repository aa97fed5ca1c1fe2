"""Individual recourse on German credit beside dice-ml and NICEx: time, cost, success, and what must not change.

Twenty refused applicants; age and personal status are immutable, numbers stay within what the data have (dice-ml's own
default), and everything else may change. All explain one classifier, the pipeline of `tables` fitted tightly here;
`peers/exchange.py` says how it reaches the peers, which run in environments and processes of their own. The judge is
that pipeline, and costs are those of `table_rules`: a standard deviation of a number or an ordinal's rank costs 1, and
so does a switch or a flip.

OAR's time is that of the whole call, with fit and audit; the peers' is that of their generation alone. A further row
leaves OAR's fit out too, which is like for like.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import oar
import oar.datasets
from benchmarks.environments import RUNNERS, NoEnvironment, environment, last_line
from benchmarks.rows import Effort, Row, skipped
from benchmarks.table_rules import costs, in_ranks
from benchmarks.tables import L2, pipeline
from benchmarks.timing import readable
from oar.actions.limits.limit import Limit, Limits

APPLICANTS, GOAL = 20, "good"
IMMUTABLE = ("age", "personal_status")
ALLOWED, START_UP = 120.0, 60.0  # seconds for a method's generation, and for its imports and set-up
PEERS = (
    # name, environment, what the runner is told, the target of OAR's time over the peer's
    ("dice-ml, random", "dice", "random", 0.1),
    ("dice-ml, genetic", "dice", "genetic", 0.1),
    ("NICEx, sparsity", "nice", "sparsity", None),
    ("NICEx, proximity", "nice", "proximity", None),
)


@dataclass(frozen=True)
class Judged:
    """What a method's answers are worth, applicant by applicant."""

    reached: np.ndarray
    costs: np.ndarray
    immutables: int
    seconds: float  # for each applicant that was finished
    finished: int

    def mean(self, who: np.ndarray) -> float:
        """Return the mean cost of some applicants."""
        return float(self.costs[who].mean()) if who.any() else np.nan

    def said(self) -> str:
        """Return it in words."""
        return (
            f"{self.reached.sum()} of {len(self.reached)} succeed, mean cost {self.mean(self.reached):.3g}, "
            f"immutables changed: {self.immutables}"
        )


class Court:
    """The data, the classifier that all explain, and the judge."""

    def __init__(self) -> None:
        self.data = oar.datasets.german_credit()
        self.schema = self.data.schema
        self.people, labels = in_ranks(self.data.frame, self.schema), self.data.frame[self.data.target]
        self.granted = (labels == GOAL).to_numpy(int)
        self.classifier = pipeline(self.schema, len(self.people))
        # The cheapest change just passes, so that a loose fit would decide by its own error.
        self.classifier[-1].set_params(solver="newton-cholesky", tol=1e-10)
        self.classifier.fit(self.people, self.granted)
        refused = np.flatnonzero(self.classifier.predict(self.people) == 0)[:APPLICANTS]
        self.applicants = self.people.iloc[refused].reset_index(drop=True)
        columns = list(self.schema.names)
        self.queries = [oar.Query(row, goal=GOAL) for _, row in self.data.frame[columns].iloc[refused].iterrows()]

    def limits(self) -> Limits:
        """Return what is allowed, for OAR: numbers within the data's range, as dice-ml keeps them by default."""
        found = {
            column.name: Limit(lower=self.people[column.name].min(), upper=self.people[column.name].max())
            for column in self.schema
            if column.kind == "integer"
        }
        return Limits(found | {name: Limit(immutable=True) for name in IMMUTABLE})

    def judge(self, numbers: Any, found: pd.DataFrame, seconds: float, finished: int) -> Judged:
        """Judge the answers for the applicants of these numbers; others have none."""
        before = self.applicants.iloc[list(numbers)].reset_index(drop=True)
        reached, prices = np.zeros(APPLICANTS, dtype=bool), np.full(APPLICANTS, np.nan)
        changed = 0
        if len(found):
            reached[list(numbers)] = self.classifier.predict(found) == 1
            each = costs(before, found, self.schema, Limits(), self.people)
            prices[list(numbers)] = each.sum(axis=1).to_numpy(float)
            changed = int((each[list(IMMUTABLE)] > 0).to_numpy().sum())
        return Judged(reached, prices, changed, seconds, finished)

    def write(self, folder: Path) -> None:
        """Write what a peer is asked."""
        for name, table in (("people", self.people), ("applicants", self.applicants)):
            table.to_csv(folder / f"{name}.csv", index=False)
        pd.DataFrame({"label": self.granted}).to_csv(folder / "labels.csv", index=False)
        task = {"immutable": list(IMMUTABLE), "seconds": ALLOWED, **self._coefficients()}
        (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")

    def _coefficients(self) -> dict[str, Any]:
        """Return the pipeline as an intercept, slopes in the table's own units, and weights of levels."""
        encode, model = self.classifier[0], self.classifier[-1]
        weights, intercept = list(model.coef_[0]), float(model.intercept_[0])
        found: dict[str, dict[str, Any]] = {}
        for name, step, columns in encode.transformers_:
            for place, column in enumerate(columns if name != "remainder" else ()):
                if name == "categories":
                    found[column] = {"levels": {level: weights.pop(0) for level in step.categories_[place]}}
                elif name == "numbers":
                    slope = weights.pop(0) / step.scale_[place]
                    found[column] = {"slope": slope}
                    intercept -= slope * step.mean_[place]
                else:
                    found[column] = {"levels": {"False": 0.0, "True": weights.pop(0)}}
        return {"intercept": intercept, "columns": {name: found[name] for name in self.schema.names}}


def rows(effort: Effort) -> Iterator[Row]:
    court = Court()
    people, model = court.data.population, oar.models.Scaled(oar.models.SoftmaxRegression(l2=L2))
    limits = court.limits()

    def ours() -> tuple[float, list[Any]]:
        began = time.perf_counter()
        advice = oar.cheapest(people, model, court.queries, limits, cost="l1")
        return (time.perf_counter() - began) / APPLICANTS, advice

    ready = oar.Cheapest(people, model, limits)

    def when_ready() -> float:
        began = time.perf_counter()
        for query in court.queries:
            ready.of(query, "l1")
        return (time.perf_counter() - began) / APPLICANTS

    ours()  # imports
    when_ready()  # fits
    seconds, advice = ours()
    found = in_ranks(pd.concat([each.row for each in advice], ignore_index=True), court.schema)
    own = court.judge(range(APPLICANTS), found, seconds, APPLICANTS)
    context = f"{own.said()}; {readable(seconds)} each; proved cheapest: {sum(each.proved for each in advice)}"
    yield Row(f"OAR: applicants of {APPLICANTS} who do not succeed", int((~own.reached).sum()), "", 0.0, context)
    yield Row("OAR: immutable features changed", own.immutables, "", 0.0)
    everyone = own.reached.copy()
    judged = {}
    for name, where, told, target in PEERS:
        label = f"OAR's time / that of {name}"
        try:
            before, ready_before = ours()[0], when_ready()
            peer = _run(court, where, told)
            after, ready_after = ours()[0], when_ready()
        except NoEnvironment as error:
            yield skipped(label, str(error), target)
            continue
        mean, mean_ready = (before + after) / 2, (ready_before + ready_after) / 2
        times = f"{readable(mean)} and {readable(peer.seconds)} each; it finished {peer.finished} of {APPLICANTS}"
        yield Row(label, mean / peer.seconds, "×", target, times)
        yield Row("  without OAR's fit", mean_ready / peer.seconds, context=f"{readable(mean_ready)} each, audited")
        both = own.reached & peer.reached
        yield Row(
            "  mean cost, OAR's / its, where both succeed", own.mean(both) / peer.mean(both), "×", 1.0, peer.said()
        )
        judged[name], everyone = peer, everyone & peer.reached
    if judged and everyone.any():
        each = ", ".join(f"{name} {peer.mean(everyone):.3g}" for name, peer in judged.items())
        least = min(peer.mean(everyone) for peer in judged.values())
        context = f"{everyone.sum()} applicants: OAR {own.mean(everyone):.3g}, {each}"
        yield Row(
            "mean cost, OAR's / the least of all, where all succeed", own.mean(everyone) / least, "×", 1.0, context
        )


def _run(court: Court, where: str, told: str) -> Judged:
    """Run a peer in its own process, and judge what it finished."""
    python = environment(where)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        court.write(folder)
        command = [str(python), str(RUNNERS / f"run_{where}.py"), name, told]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=ALLOWED + START_UP)
            trouble = done.stderr if done.returncode else ""
        except subprocess.TimeoutExpired:
            trouble = f"nothing was finished in {ALLOWED + START_UP:.0f} s"
        if not (folder / "seconds.json").exists():
            raise NoEnvironment(f"the peer stopped: {last_line(trouble)}")
        seconds = json.loads((folder / "seconds.json").read_text(encoding="utf-8"))
        texts = {column.name: str for column in court.schema if column.kind in ("category", "boolean")}
        found = pd.read_csv(folder / "found.csv", dtype=texts, keep_default_na=False)  # type: ignore[arg-type]
    for column in court.schema:
        if column.kind == "boolean":
            found[column.name] = found[column.name] == "True"
        elif column.kind == "category":
            found[column.name] = found[column.name].astype(object)
    numbers = found.pop("applicant")
    return court.judge(numbers, found, float(np.mean(seconds)), len(seconds))

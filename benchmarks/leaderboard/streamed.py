"""Problems of more people than a file of arrays should hold: Parquet files, and a referee who reads them in turn.

A problem is a folder: `people/` with parts of a million people in float32, columns x0, x1, … and label, and
problem.json. Moves are a folder too: as many rows in the same order, with columns of the same names as the features, or
with nothing but the moves in the features' order.

scikit-learn needs everybody in memory, so the referee is another here: Newton's method on the same risk, in plain
NumPy, with gradients from all people and the Hessian from the first part. Its answer is a minimum because its gradient
vanishes, whatever the Hessian was; tests hold it to scikit-learn's.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.leaderboard.problems import BLOB_CLASSES, BLOB_WIDTH, L2
from benchmarks.leaderboard.referee import ROUNDING, Verdict

Array = NDArray[np.float64]
Read = tuple[Any, Any]  # tables of some people and of their moves; None for moves where nobody moves
Moved = tuple[Array, NDArray[np.int64], float]  # moved rows with a one at their end, labels, and the longest move
Answer = TypeVar("Answer")
PART = 1_000_000  # people in a file
CHUNK = 100_000  # people at a time
VANISHED = 1e-9  # a gradient no longer than this is that of a minimum
MOST_STEPS = 60
SINGLE = 1.2e-7  # what a move loses where it is written as float32


def write_clouds(folder: Path, size: int, part: int = PART) -> Path:
    """Write ten overlapping clouds in ten dimensions, part by part, each from a generator of its own."""
    import pyarrow
    from pyarrow import parquet

    people = folder / "people"
    people.mkdir(parents=True)
    centres = 0.9 * np.random.default_rng(0).standard_normal((BLOB_CLASSES, BLOB_WIDTH))
    sums, counts = np.zeros_like(centres), np.zeros(BLOB_CLASSES)
    for number, start in enumerate(range(0, size, part)):
        random, count = np.random.default_rng([0, number]), min(part, size - start)
        labels = random.integers(0, BLOB_CLASSES, count)
        features = (centres[labels] + random.standard_normal((count, BLOB_WIDTH))).astype(np.float32)
        for label in range(BLOB_CLASSES):
            sums[label] += features[labels == label].sum(axis=0, dtype=np.float64)
        counts += np.bincount(labels, minlength=BLOB_CLASSES)
        columns = {f"x{place}": column for place, column in enumerate(features.T)}
        parquet.write_table(pyarrow.table({**columns, "label": labels}), people / f"part-{number:04d}.parquet")
    means = sums / counts[:, None]
    asked = {"query": list(0.25 * means[1] + 0.75 * means[2]), "goal": 1, "l2": L2, "budget": 0.3}
    (folder / "problem.json").write_text(json.dumps(asked), encoding="utf-8")
    return folder


class StreamedReferee:
    """Judges moves in Parquet files."""

    def __init__(self, folder: Path) -> None:
        asked = json.loads((folder / "problem.json").read_text(encoding="utf-8"))
        self._query, self._goal = np.append(asked["query"], 1.0), asked["goal"]
        self._l2, self._budget = asked["l2"], asked["budget"]
        self._people, self._names = folder / "people", [f"x{place}" for place in range(len(asked["query"]))]
        found = set[int]().union(*(np.unique(people.column("label")).tolist() for people in _batches(self._people)))
        if len(found) < 3:
            raise ValueError(f"people: this referee is for three classes or more, got {len(found)}.")
        self._parameters = np.zeros((max(found) + 1, len(self._names) + 1))

    def judge(self, moves: Path | None) -> Verdict:
        """Refit on the moved data; None means that nobody moves."""
        lengths = list(_side_by_side(lambda read: self._moved(read)[2], _read(self._people, moves)))
        longest = float(np.max(lengths)) / self._budget  # NumPy's: Python's max may overlook what is not a number
        if not np.isfinite(longest):
            return Verdict(np.nan, False, np.nan, False)
        self._parameters = self._minimum(moves)
        outputs = self._parameters @ self._query
        loss = float(np.logaddexp.reduce(outputs) - outputs[self._goal])
        return Verdict(loss, int(outputs.argmax()) == self._goal, longest, longest <= 1 + ROUNDING + SINGLE)

    def _minimum(self, moves: Path | None) -> Array:
        parameters, hessian, last = self._parameters, None, np.inf
        for _ in range(MOST_STEPS):
            gradient = self._gradient(parameters, moves)
            left = float(np.linalg.norm(gradient))
            if left <= VANISHED:
                return parameters
            if hessian is None or left > 0.1 * last:
                hessian = self._hessian(parameters, moves)
            last = left
            parameters = parameters - np.linalg.solve(hessian, gradient.ravel()).reshape(parameters.shape)
        raise RuntimeError("the referee's refit did not converge, so it cannot judge")

    def _gradient(self, parameters: Array, moves: Path | None) -> Array:
        def of_some(read: Read) -> tuple[Array, int]:
            rows, labels, _ = self._moved(read)
            slopes = _shares(rows @ parameters.T)
            slopes[np.arange(len(rows)), labels] -= 1.0
            return slopes.T @ rows, len(rows)

        total, size = np.zeros_like(parameters), 0
        for slopes, count in _side_by_side(of_some, _read(self._people, moves)):
            total, size = total + slopes, size + count
        return total / size + self._penalty(parameters) * parameters

    def _hessian(self, parameters: Array, moves: Path | None) -> Array:
        """Return the Hessian of the first chunks; intercepts that all rise alike are held."""
        (count, width), size = parameters.shape, 0
        total = np.zeros((count, width, count, width))
        for read in _read(self._people, moves):
            rows, _, _ = self._moved(read)
            shares = _shares(rows @ parameters.T)
            for one in range(count):
                for other in range(count):
                    weights = shares[:, one] * ((one == other) - shares[:, other])
                    total[one, :, other] += (rows * weights[:, None]).T @ rows
            size += len(rows)
            if size >= 2 * CHUNK:
                break
        flat = total.reshape(count * width, -1) / size + np.diag(self._penalty(parameters).ravel())
        intercepts = np.tile(np.append(np.zeros(width - 1), 1.0), count)
        return flat + np.outer(intercepts, intercepts) / count

    def _penalty(self, parameters: Array) -> Array:
        return np.broadcast_to(self._l2 * np.append(np.ones(parameters.shape[1] - 1), 0.0), parameters.shape)

    def _moved(self, read: Read) -> Moved:
        people, steps = read
        features, longest = _columns(people, self._names), 0.0
        if steps is not None:
            step = _columns(steps, self._names)
            if step.shape != features.shape:
                raise ValueError(f"moves: must be {features.shape} here, got {step.shape}; keep people's order.")
            longest = float(np.sqrt(np.einsum("nd,nd->n", step, step).max()))
            features = features + step
        rows = np.column_stack([features, np.ones(len(features))])
        return rows, people.column("label").to_numpy().astype(np.int64), longest


def _side_by_side(task: Callable[[Read], Answer], reads: Iterator[Read]) -> Iterator[Answer]:
    """Yield a task's answers in the order of what it is given, on all cores, with few of them under way at a time."""
    cores = os.cpu_count() or 1
    with ThreadPoolExecutor(cores) as pool:
        under_way: deque[Future[Answer]] = deque()
        for read in reads:
            under_way.append(pool.submit(task, read))
            if len(under_way) > 2 * cores:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()


def _read(people: Path, moves: Path | None) -> Iterator[Read]:
    """Yield some people at a time, with their moves."""
    steps = None if moves is None else _batches(moves)
    for some in _batches(people):
        yield some, None if steps is None else next(steps, some.slice(0, 0))
    if steps is not None and next(steps, None) is not None:
        raise ValueError("moves: must be one for each person, got more; keep people's order.")


def _batches(folder: Path) -> Iterator[Any]:
    """Yield tables of CHUNK people, across the borders of files."""
    import pyarrow
    from pyarrow import dataset

    kept: list[Any] = []
    held = 0
    for batch in dataset.dataset(sorted(map(str, folder.glob("*.parquet"))), format="parquet").to_batches():
        kept, held = [*kept, batch], held + len(batch)
        while held >= CHUNK:
            table = pyarrow.Table.from_batches(kept)
            yield table.slice(0, CHUNK)
            kept, held = table.slice(CHUNK).to_batches(), held - CHUNK
    if held:
        yield pyarrow.Table.from_batches(kept)


def _columns(table: Any, names: list[str]) -> Array:
    found = names if set(names) <= set(table.column_names) else table.column_names[: len(names)]
    return np.column_stack([table.column(name).to_numpy() for name in found]).astype(np.float64)


def _shares(outputs: Array) -> Array:
    powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)

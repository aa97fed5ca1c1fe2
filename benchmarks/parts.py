"""People in parts: as many as the disk holds, beside the cheapest thing that reads them, and with more workers.

    nearest centroid    from a path to an exact plan, beside merely reading the same columns with pyarrow
    softmax regression  to a gap of 1e-6 of the loss: how the cost grows with the number of people
    Dask                the same solve with two workers and with one, a thread each

Times are taken in turns; peak memory is that of a fresh process that does nothing else (`ru_maxrss`, which counts
pages of files that are mapped while they are looked at).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import oar
from benchmarks.rows import Effort, Row
from benchmarks.timing import readable, take_turns

CLASSES = DIMENSIONS = 10
GROUP = 500_000  # people of a row group
BUDGET = 0.3
MOST_MEMORY = {"nearest": 1.0, "softmax": 2.0}  # GB


def rows(effort: Effort) -> Iterator[Row]:
    """Measure all three; the largest population is ten times that of people in memory."""
    with tempfile.TemporaryDirectory(prefix="oar-bench-") as folder:
        place = Path(folder)
        yield from _nearest(written(place / "largest", 10 * effort.most_people), effort)
        yield from _growth(place, effort)
        yield from _workers(written(place / "workers", min(1_000_000, effort.most_people)), effort)


def centres() -> NDArray[np.float64]:
    """Return where the ten clouds lie."""
    return 0.9 * np.random.default_rng(0).standard_normal((CLASSES, DIMENSIONS))


def written(path: Path, size: int) -> Path:
    """Write people around ten centres as float32 columns, a row group at a time."""
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    path.mkdir()
    kinds = [*((f"x{place}", pyarrow.float32()) for place in range(DIMENSIONS)), ("label", pyarrow.int8())]
    schema, middles, rng = pyarrow.schema(kinds), centres(), np.random.default_rng(1)
    with ParquetWriter(path / "people.parquet", schema, use_dictionary=["label"]) as writer:
        for start in range(0, size, GROUP):
            labels = rng.integers(0, CLASSES, min(GROUP, size - start))
            features = middles[labels] + rng.standard_normal((labels.size, DIMENSIONS))
            columns = [*np.ascontiguousarray(features.T, dtype=np.float32), labels.astype(np.int8)]
            writer.write_table(pyarrow.table(columns, schema=schema))
    return path


def problem(people: oar.Population, model: oar.NearestCentroid | oar.SoftmaxRegression) -> oar.Problem:
    """Ask for class 1 from three quarters of the way to class 2."""
    middles = centres()
    query = oar.Query(0.25 * middles[1] + 0.75 * middles[2], goal=1)
    return oar.Problem(people, model, query, oar.Perturb(BUDGET))


def _nearest(path: Path, effort: Effort) -> Iterator[Row]:
    from pyarrow.parquet import ParquetFile

    def read() -> None:
        with ParquetFile(path / "people.parquet") as file:
            for group in range(file.num_row_groups):
                file.read_row_group(group)

    def solve() -> oar.plans.Proposal:
        people = oar.Population.from_parquet(path, "label")
        return oar.solvers.propose_collective(problem(people, oar.NearestCentroid()))

    def forget() -> None:
        with (path / "people.parquet").open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    size = oar.Population.from_parquet(path, "label").size
    name = f"N = {size:.0e} × {DIMENSIONS} float32 from Parquet".replace("e+0", "e")
    # A file that is larger than memory is never there when it is asked for; one that is not, may be.
    for where, before in (("on disk", forget), ("in the page cache", None)):
        if before is not None and not hasattr(os, "posix_fadvise"):
            continue
        times = take_turns({"reading": read, "solve": solve}, effort.slow_rounds, before)
        context = f"{times.shown('solve', 'reading')}, classes looked for"
        ratio = times.ratio("solve", "reading")
        yield Row(f"nearest centroid, exact / reading the columns, {name}, {where}", ratio, "×", 1.3, context)
    peak, said = _peak("nearest", path)
    yield Row(f"peak memory, nearest centroid, {name}", peak, "GB", MOST_MEMORY["nearest"], f"audit included; {said}")


def _growth(place: Path, effort: Effort) -> Iterator[Row]:
    sizes, seconds = [effort.most_people // 100, effort.most_people // 10, effort.most_people], []
    solver, path = oar.solvers.ProjectedGradient(tolerance=1e-6), place
    for size in sizes:
        path = written(place / f"{size}", size)
        asked = problem(oar.Population.from_parquet(path, "label"), oar.SoftmaxRegression(1e-2))
        oar.solvers.propose_collective(asked, oar.solvers.ProjectedGradient(max_steps=1))  # compiles
        began = time.perf_counter()
        found = oar.solvers.propose_collective(asked, solver)
        seconds.append(time.perf_counter() - began)
        assert found.finished
        print(f"  {size:,} people: {seconds[-1]:.0f} s, {found.passes} passes", file=sys.stderr, flush=True)
    exponent = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    name = f"N = {sizes[0]:.0e} … {sizes[-1]:.0e}".replace("e+0", "e")
    told = ", ".join(
        f"{size:.0e}: {readable(one)}".replace("e+0", "e") for size, one in zip(sizes, seconds, strict=True)
    )
    yield Row(f"exponent of N, softmax from Parquet to a gap of 1e-6, {name}", exponent, "", 1.05, told)
    peak, said = _peak("softmax", path)
    yield Row(
        f"peak memory, softmax, N = {sizes[-1]:.0e}".replace("e+0", "e"), peak, "GB", MOST_MEMORY["softmax"], said
    )


def _peak(kind: str, path: Path) -> tuple[float, str]:
    """Return the peak memory in GB of a process that plans and audits, and what it said."""
    run = [sys.executable, "-m", "benchmarks.parts", kind, str(path)]
    said = subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()
    peak, *told = said.split(maxsplit=1)
    return float(peak), " ".join(told)


def _workers(path: Path, effort: Effort) -> Iterator[Row]:
    from distributed import Client, LocalCluster

    from oar.people.parts.dask_engine import ONE_THREAD

    ratios, said = [], ""
    clusters = {
        number: LocalCluster(n_workers=number, threads_per_worker=1, dashboard_address=":0", env=ONE_THREAD)
        for number in (1, 2)
    }
    try:
        for round_ in range(effort.slow_rounds + 1):  # workers compile in the first one, which does not count
            took = {}
            for number, cluster in clusters.items():
                with Client(cluster) as client:
                    people = oar.Population.from_parquet(path, "label", engine="dask", client=client)
                    asked = problem(people, oar.SoftmaxRegression(1e-2))
                    began = time.perf_counter()
                    found = oar.solvers.propose_collective(asked, oar.solvers.ProjectedGradient(tolerance=1e-6))
                    took[number] = time.perf_counter() - began
                    said = f"{found.passes} passes; {people.engine.traffic}"
            if round_:
                ratios.append(took[2] / took[1])
    finally:
        for cluster in clusters.values():
            cluster.close()
    name = f"two Dask workers / one, softmax, N = {people.size:.0e}".replace("e+0", "e")
    yield Row(name, np.array(ratios), "×", 1 / 1.6, f"one {readable(took[1])}, two {readable(took[2])}; {said}")


def alone() -> None:
    """Plan and audit in this process, and print its peak memory in GB."""
    import resource

    kind, path = sys.argv[1:]
    model = oar.NearestCentroid() if kind == "nearest" else oar.SoftmaxRegression(1e-2)
    people = oar.Population.from_parquet(path, "label")
    solver = "exact" if kind == "nearest" else oar.solvers.ProjectedGradient(tolerance=1e-6)
    result = oar.collective(problem(people, model), solver=solver)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{peak:.3f} {result.status}, loss {result.loss:.6f}, {result.passes} passes, {people.passes} with the audit's"
    )


if __name__ == "__main__":
    alone()

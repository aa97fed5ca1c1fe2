"""Run the rest of a study: lease, hand out and record cells until every cell is finished."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import replace
from typing import Any

from oar.errors import StorageError
from oar.progress import check_interrupted
from oar.studies.cells import Cell
from oar.studies.executors.executors import DaskExecutor, Executor, LocalExecutor, ProcessExecutor, cores
from oar.studies.progress import Pace
from oar.studies.rows import Row
from oar.studies.store.database import Store
from oar.studies.work import Work, WorkUnit

ALONE = 3.0  # seconds that this process works alone before it looks whether help would pay,
FEW = 3  # units by then, of which the first may have waited for imports and compilers,
WORTH = 10.0  # which it does where this much work is left: others take some seconds to get ready
POLL = 0.2  # seconds between looks at what another process is doing
FINISHED = ("done", "failed")


class Run:
    """A study while it runs."""

    def __init__(
        self,
        store: Store,
        work: Work,
        cells: Sequence[Cell],
        executor: Executor,
        helped: bool,
        tell: Callable[[str], None],
    ) -> None:
        """`helped`: other processes may join once that pays."""
        self.store, self.work, self.cells = store, work, list(cells)
        self.executor, self._helped, self._tell, self._began = executor, helped, tell, time.monotonic()
        self._flying: dict[Future[list[Row]], tuple[WorkUnit, float]] = {}
        self._done = self._failed = self._finished = 0
        self.pace = self._paced()

    def _paced(self) -> Pace:
        states = self.store.states()
        left: dict[str, int] = {}
        for cell in self.cells:
            if states[cell.key] not in FINISHED:
                left[cell.model] = left.get(cell.model, 0) + 1
        pace = Pace(left)
        for _, kind, seconds in self.store.times():
            pace.learn(kind, seconds)
        return pace

    def until_done(self) -> None:
        """Answer free cells, wait for cells of other processes, and take over from dead ones."""
        while True:
            check_interrupted()
            self.store.release_dead()
            states = self.store.states()
            self._failed = sum(states[cell.key] == "failed" for cell in self.cells)
            self._done = sum(states[cell.key] in FINISHED for cell in self.cells)
            pending = [cell for cell in self.cells if states[cell.key] == "pending"]
            if pending:
                self._through(deque(self.work.units(pending)))
            elif self._done == len(self.cells):
                return
            else:
                self._tell(f"{self._counted}; waiting for another process")
                time.sleep(POLL)

    def _through(self, units: deque[WorkUnit]) -> None:
        """Go through units once, without those that others have claimed meanwhile."""
        while units or self._flying:
            check_interrupted()
            while units and len(self._flying) < self.executor.number:
                unit = units.popleft()
                mine = replace(unit, cells=tuple(self.store.take(unit.cells)))
                if mine.cells:
                    began = time.monotonic()
                    self._flying[self.executor.start(mine)] = mine, began
            if self._flying:
                done, _ = wait(self._flying, return_when=FIRST_COMPLETED)
                for future in done:
                    self._finish(future)
            self._ask_for_help()

    def _finish(self, future: Future[list[Row]]) -> None:
        unit, began = self._flying.pop(future)
        answers = future.result()
        if self.work.people_changed:
            raise StorageError(
                "people: files must stay as they are while a study runs, got some that have changed since it began; "
                "what was finished before is kept. Put them back, or name another store, and run the study again."
            )
        seconds = time.monotonic() - began
        self.store.finish(unit.cells, answers, seconds / len(unit.cells))
        self.pace.finish(unit.kind, seconds, len(unit.cells))
        self._done += len(unit.cells)
        self._finished += 1
        self._failed += sum("error" in answer for answer in answers)
        self._tell(f"{self._counted}; {self.pace.words(self.executor.number)}")

    @property
    def _counted(self) -> str:
        failed = f", {self._failed:,} failed" if self._failed else ""
        return f"study: {self._done:,} of {len(self.cells):,} cells{failed}"

    def _ask_for_help(self) -> None:
        """Start other processes if much work remains and the caller did not set their number."""
        early = self._finished < FEW or time.monotonic() - self._began < ALONE
        if not self._helped or self._flying or early or self.pace.work < WORTH:
            return
        self._helped = False
        if cores() > 1:
            self.executor = ProcessExecutor(self.work, cores())


def run(
    store: Store, work: Work, cells: Sequence[Cell], workers: int | None, client: Any, tell: Callable[[str], None]
) -> None:
    """Run the rest; however it ends, finished cells are kept, and unfinished ones are released."""
    executor: Executor
    if client is not None:
        executor = DaskExecutor(work, client)
    else:
        executor = LocalExecutor(work) if workers in (None, 1) else ProcessExecutor(work, workers)
    running = Run(store, work, cells, executor, workers is None and client is None, tell)
    try:
        with store.beating():
            running.until_done()
    except KeyboardInterrupt:
        states = store.states()
        done = sum(states[cell.key] in FINISHED for cell in cells)
        kept = f"{done:,} of {len(cells):,} cells are kept in {store.path}; run the same study again to go on"
        raise KeyboardInterrupt(kept) from None
    finally:
        running.executor.stop()
        with suppress(StorageError):  # then whoever comes next sees that this process is dead
            store.release()

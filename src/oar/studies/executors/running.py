"""Run the rest of a study: lease, hand out and record cells until every cell is finished."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from oar.errors import StorageError
from oar.progress import check_interrupted
from oar.studies.cells import Cell
from oar.studies.executors.executors import DaskExecutor, Executor, LocalExecutor, ProcessExecutor, cores
from oar.studies.rows import Row
from oar.studies.store.database import Store
from oar.studies.work import Work, WorkUnit

ALONE = 3.0  # seconds that this process works alone before it looks whether help would pay,
FEW = 3  # units by then, of which the first may have waited for imports and compilers,
WORTH = 10.0  # which it does where this much work is left: others take some seconds to get ready
POLL = 0.2  # seconds between looks at what another process is doing
FINISHED = ("done", "failed")


class Pace:
    """The time that cells of each kind took and that those `left` will take: known once some of a kind are finished."""

    def __init__(self, left: dict[str, int]) -> None:
        self.left, self._spent, self._done = dict(left), dict[str, float](), dict[str, int]()

    def learn(self, kind: str, seconds: float, cells: int = 1) -> None:
        """Record the time of some cells together, in this run or an earlier one."""
        self._spent[kind] = self._spent.get(kind, 0.0) + seconds
        self._done[kind] = self._done.get(kind, 0) + cells

    def finish(self, kind: str, seconds: float, cells: int) -> None:
        """Record finished cells."""
        self.learn(kind, seconds, cells)
        self.left[kind] = max(0, self.left.get(kind, 0) - cells)

    @property
    def work(self) -> float:
        """The remaining seconds of work in cells of known kinds."""
        known = (kind for kind, number in self.left.items() if number and self._done.get(kind))
        return sum(self.left[kind] * self._spent[kind] / self._done[kind] for kind in known)

    @property
    def unknown(self) -> int:
        """The number of remaining cells of kinds without a finished one."""
        return sum(number for kind, number in self.left.items() if number and not self._done.get(kind))

    def words(self, workers: int) -> str:
        """Return the remaining time, as far as it is known.

        >>> pace = Pace({"softmax": 4, "mlp": 2})
        >>> pace.words(1)
        'time left not known so far'
        >>> pace.finish("softmax", 60.0, 2)
        >>> pace.words(1), pace.words(2)
        ('1 min left so far, 2 cells not known', '30 s left so far, 2 cells not known')
        >>> pace.finish("mlp", 2.0, 2)
        >>> pace.words(1)
        'about 1 min left'
        """
        if self.unknown and not self.work:
            return "time left not known so far"
        left = duration(self.work / max(1, min(workers, sum(self.left.values()))))
        return f"{left} left so far, {self.unknown} cells not known" if self.unknown else f"about {left} left"


def duration(seconds: float) -> str:
    """Return a time in a few words.

    >>> duration(0.2), duration(75), duration(7_300), duration(200_000)
    ('1 s', '1 min', '2 h', '2 d')
    """
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(1, round(seconds))} s"


@dataclass(eq=False)
class Run:
    """A study while it runs; if it may be `helped`, other processes join once that pays."""

    store: Store
    work: Work
    cells: Sequence[Cell]
    executor: Executor
    helped: bool
    tell: Callable[[str], None]

    def __post_init__(self) -> None:
        self._began, states = time.monotonic(), self.store.states()
        self._flying: dict[Future[list[Row]], tuple[WorkUnit, float]] = {}
        self._done = self._failed = self._finished = 0
        self.pace = Pace(Counter(cell.model for cell in self.cells if states[cell.key] not in FINISHED))
        for _, kind, seconds in self.store.times():
            self.pace.learn(kind, seconds)

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
                self.tell(f"{self._counted}; waiting for another process")
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
                    self._show(f"; trying {mine.words}")
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
        self._show()

    def _show(self, more: str = "") -> None:
        self.tell(f"{self._counted}; {self.pace.words(self.executor.number)}{more}")

    @property
    def _counted(self) -> str:
        failed = f", {self._failed:,} failed" if self._failed else ""
        return f"study: {self._done:,} of {len(self.cells):,} cells{failed}"

    def _ask_for_help(self) -> None:
        """Start other processes if much work remains and the caller did not set their number."""
        early = self._finished < FEW or time.monotonic() - self._began < ALONE
        if not self.helped or self._flying or early or self.pace.work < WORTH:
            return
        self.helped = False
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

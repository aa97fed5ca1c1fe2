"""Workers of a Dask cluster in place of threads: the same functions of the same parts, wherever they are read.

Each part has a worker that it is sent to as long as that one is there, because it has kept what it computed of it; any
other can take over, and computes it anew. What all parts need (the model, limits, units) is sent once to each worker;
a pass sends a signal out and gets sums back, and how many bytes that is, is counted.

What workers know can be lost with them, and is then sent again: nothing that a worker has is the only copy of it.
"""

from __future__ import annotations

import atexit
import logging
import os
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from oar.checks import choose
from oar.errors import DataError, EngineError, OARError, OptionError
from oar.people.parts.part import Engine, Part, Threads, Traffic, bytes_of

AHEAD = 4  # parts for each thread of the workers that are sent at a time
# A process for each core: arithmetic that takes more threads than that only makes them wait for each other
ONE_THREAD = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "NPROC": "1", "OMP_NUM_THREADS": "1"}
LOSSES = 3  # times that workers may take work along, one after the other, without any part being done
PACKAGE = "oar-recourse"
PATIENCE = 60.0  # seconds to wait for a first worker
LOOK = 5.0  # seconds after which to look whether workers are still there


def chosen_engine(engine: str, client: Any) -> Engine:
    """Return who does the work: threads here, a client's cluster, or a local cluster of processes."""
    choose("engine", engine, ("local", "dask"))
    if engine == "local":
        if client is not None:
            raise OptionError("client: is for engine='dask', got one with engine='local'; leave one of them out.")
        return Threads()
    return DaskEngine(client if client is not None else _current_or_local())


def need_dask() -> None:
    """Raise, with what to install, where Dask is not there."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise OptionError(
            "engine: 'dask' needs Dask, which is not installed; pip install 'oar-recourse[dask]'."
        ) from None


def _current_or_local() -> Any:
    """Return the current client, or one of a new cluster with a process of one thread for each core."""
    need_dask()
    from distributed import Client, LocalCluster, get_client

    try:
        return get_client()
    except ValueError:
        flags = f"{os.environ.get('XLA_FLAGS', '')} {ONE_THREAD['XLA_FLAGS']}".strip()
        environment = ONE_THREAD | {"XLA_FLAGS": flags}
    try:
        # Processes that are started, also in the place of some that died, shall not look for modules in the current
        # folder first, where data may lie: they get this process's own list of folders.
        os.environ["PYTHONSAFEPATH"] = "1"
        client = Client(LocalCluster(threads_per_worker=1, dashboard_address=":0", env=environment))
    except RuntimeError as error:
        raise EngineError(
            f"engine: a local cluster could not be started ({error}); its processes import the script that starts "
            "them, so put what it does below `if __name__ == '__main__':`, or give client=."
        ) from error
    atexit.register(_closed, client)
    return client


def _closed(client: Any) -> None:
    """Close a cluster that was started here, which has nothing to say any more."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with suppress(Exception):
        client.cluster.close()
        client.close()


@dataclass
class DaskEngine:
    """The workers of a `dask.distributed.Client`."""

    client: Any
    traffic: Traffic = field(default_factory=Traffic)

    def __post_init__(self) -> None:
        need_dask()
        from distributed import Client

        if not isinstance(self.client, Client):
            raise DataError(f"client: must be a dask.distributed.Client, got {type(self.client).__name__}.")
        # What all parts need, and where it is: for as long as anybody here needs it
        self._sent: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._homes: dict[int, str] = {}  # the worker of each part, by the position of its first person
        self._known: dict[str, int] = {}  # workers when homes were given, with their threads

    def map(
        self, function: Callable[..., Any], parts: Sequence[Part], starts: Sequence[int], *arguments: Any
    ) -> Iterator[Any]:
        """Yield results in the order of the parts."""
        self.traffic.rounds += 1
        small = bytes_of([one for one in arguments if not _sent_once(one)])
        done, losses = 0, 0
        while done < len(parts):  # more than once only where workers took something along that was sent to them
            try:
                for result in self._worked(function, parts[done:], starts[done:], arguments, small):
                    done, losses = done + 1, 0
                    yield result
            except _GoneError as error:
                losses += 1
                if self.client.status != "running":
                    raise self._lost(error.__cause__ or error) from error.__cause__
                if losses > LOSSES:
                    raise self._killed(losses) from error.__cause__
                self._sent.clear()

    def _worked(
        self, function: Callable[..., Any], parts: Sequence[Part], starts: Sequence[int], arguments: Any, small: int
    ) -> Iterator[Any]:
        """Yield results in order; raise _GoneError where they will never come."""
        with _losses_named():
            workers = self._workers()
            homes = self._settled(parts, starts, workers)
            given = [self._placed(one, len(workers)) for one in arguments]
        waiting: list[tuple[Any, str]] = []
        most = AHEAD * sum(workers.values())
        for part, start, home in zip(parts, starts, homes, strict=True):
            if len(waiting) >= most:  # the first half comes back together, while workers do the other
                yield from self._received(waiting[: most // 2])
                del waiting[: most // 2]
            waiting.append((self._submitted(function, part, start, given, home), home))
            self.traffic.sent += small + bytes_of((_described(part), start))
        yield from self._received(waiting)

    def _submitted(self, function: Callable[..., Any], part: Any, start: int, given: list[Any], home: str) -> Any:
        """Send one part to its worker; any other may do it if that one is gone."""
        options = {"workers": [home], "allow_other_workers": True, "pure": False}
        if part.held is None:
            return self.client.submit(function, part, start, *given, **options)
        # Partitions that workers hold are handed over there.
        return self.client.submit(_with_held, part.held, function, _described(part), start, *given, **options)

    def _received(self, waiting: list[tuple[Any, str]]) -> list[Any]:
        from distributed import KilledWorker

        futures = [future for future, _ in waiting]
        try:
            with _losses_named():
                self._await(waiting)
                found = self.client.gather(futures)
        except _GoneError as error:
            if any(one.status == "error" for one in futures) and error.__cause__ is not None:
                raise error.__cause__ from None  # what the work itself said
            raise
        except KilledWorker as error:
            raise self._killed(error.allowed_failures + 1) from error
        except ModuleNotFoundError as error:
            raise EngineError(
                f"engine: workers must have what is installed here, got one without {error.name}; install "
                f"'{PACKAGE}[dask,jax]' on all of them, and solve again."
            ) from error
        for one in found:
            self.traffic.received += bytes_of(one)
        return list(found)

    def _await(self, waiting: list[tuple[Any, str]]) -> None:
        """Wait until all are done, for as long as their workers are there.

        A task whose worker is gone goes to another one, but where there is none at that moment, not to one that comes
        later: then it has to be sent again.
        """
        from distributed import wait

        while any(future.status == "pending" for future, _ in waiting):
            try:
                with self.client.as_current():
                    wait([future for future, _ in waiting], timeout=LOOK)
            except TimeoutError:
                workers = self._workers()
                if any(future.status == "pending" and home not in workers for future, home in waiting):
                    raise _GoneError from None

    def _placed(self, argument: Any, workers: int) -> Any:
        """Return what is to be sent: large things that all parts need are sent to each worker once."""
        if not _sent_once(argument):
            return argument
        where = self._sent.get(argument)
        if where is None or where.status != "finished":
            where = self.client.scatter(argument, broadcast=True, hash=False)
            self.traffic.sent += bytes_of(argument) * workers
            self._sent[argument] = where
        return where

    def _workers(self) -> dict[str, int]:
        """Return the workers that are there, with their threads; wait a while for the first."""
        deadline = time.monotonic() + PATIENCE
        while True:
            if self.client.status != "running":
                raise _GoneError from ConnectionError(f"the client is {self.client.status}")
            told = self.client.scheduler_info(n_workers=-1)["workers"]
            found = {address: int(one["nthreads"]) for address, one in sorted(told.items()) if one["nthreads"]}
            if found:
                self._check([address for address in found if address not in self._known])
                return found
            if time.monotonic() > deadline:
                raise EngineError(
                    f"engine: the Dask cluster must have a worker, got none within {PATIENCE:.0f} seconds; start some "
                    "(cluster.scale(…)), and solve again."
                )
            time.sleep(0.1)

    def _check(self, workers: list[str]) -> None:
        """Refuse workers that have not installed what is installed here: they could not read what they are sent."""
        here = installed()
        if here is None or not workers:
            return
        told = self.client.run(version, PACKAGE, workers=workers, on_error="return")
        for address, its in told.items():
            if isinstance(its, PackageNotFoundError) or (isinstance(its, str) and its != here):
                got = its if isinstance(its, str) else "none"
                raise EngineError(
                    f"engine: every worker must have {PACKAGE} {here}, as is installed here, got {got} at {address}; "
                    f"install '{PACKAGE}[dask,jax]' {here} there, and solve again."
                )

    def _settled(self, parts: Sequence[Any], starts: Sequence[int], workers: dict[str, int]) -> list[str]:
        """Return the worker of each part: the one that had it, if it is there and has not more than its share.

        Neighbours go to different workers, so that all have something to do from the first on.
        """
        if workers != self._known:
            self._known = workers
            share = -(-max(len(starts), len(self._homes)) // sum(workers.values()))
            room = {address: share * threads for address, threads in workers.items()}
            for start, home in list(self._homes.items()):
                room[home] = room.get(home, 0) - 1
                if room[home] < 0:
                    del self._homes[start]
        new = [(part, start) for part, start in zip(parts, starts, strict=True) if start not in self._homes]
        if new:
            held = [part.held for part, _ in new if part.held is not None]
            places = self.client.who_has(held) if held else {}
            load = dict.fromkeys(workers, 0)
            for home in self._homes.values():
                load[home] += 1
            for part, start in new:
                there = [one for one in places.get(getattr(part.held, "key", None), ()) if one in workers]
                home = there[0] if there else min(workers, key=lambda one: load[one] / workers[one])
                self._homes[start] = home
                load[home] += 1
        return [self._homes[start] for start in starts]

    def _killed(self, times: int) -> EngineError:
        return EngineError(
            f"engine: the work on a part was tried on {times} workers, and all of them died at it; parts may be too "
            "large for their memory: write smaller row groups, or give workers more memory."
        )

    def _lost(self, error: BaseException) -> EngineError:
        address = getattr(getattr(self.client, "scheduler", None), "address", "")
        where = f" at {address}" if address else ""  # a client that was closed has forgotten it
        said = str(error).split("\n")[0].rstrip(".")
        return EngineError(
            f"engine: the connection to the Dask scheduler{where} was lost ({type(error).__name__}: {said}); "
            "start the scheduler and its workers again, make a new Client, and solve again: data were only read, and "
            "nothing is half-written."
        )


class _GoneError(Exception):
    """Results that will not come: their worker took along what they need, or nobody can be asked any more."""


@contextmanager
def _losses_named() -> Iterator[None]:
    """Raise _GoneError in place of everything by which Dask says that somebody is gone."""
    from distributed import CancelledError
    from distributed.comm import CommClosedError

    try:
        yield
    except OARError:  # some are also OSErrors
        raise
    except (CancelledError, CommClosedError, OSError, TimeoutError) as error:
        raise _GoneError from error


def installed() -> str | None:
    """Return which version of this package is installed here; None where it is used without being installed."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return None


def _sent_once(argument: Any) -> bool:
    return bool(getattr(argument, "sent_once", False))


def _described(part: Any) -> Any:
    """Return what is sent of a part: where it can be read, and nothing that a worker holds."""
    return part if part.held is None else replace(part, held=None)


def _with_held(held: Any, function: Callable[..., Any], part: Any, start: int, *arguments: Any) -> Any:
    """Work on a partition that is in the worker's memory."""
    return function(replace(part, arrays=held), start, *arguments)

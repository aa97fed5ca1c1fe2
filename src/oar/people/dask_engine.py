"""Workers of a Dask cluster in place of threads: the same functions of the same parts, wherever they are read.

Each part has a worker that it is sent to as long as that one is there, because it has kept what it computed of it; any
other can take over, and computes it anew. What all parts need (the model, limits, units) is sent once to each worker;
a pass sends a signal out and gets sums back, and how many bytes that is, is counted.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from oar.errors import EngineError, OARError, OptionError, choose
from oar.people.engine import Engine, Threads, Traffic
from oar.people.parts import Part

RETRIES = 3  # of a part whose worker dies
AHEAD = 4  # parts for each thread of the workers that are sent at a time


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
        return Client(LocalCluster(threads_per_worker=1, dashboard_address=None))


@dataclass
class DaskEngine:
    """The workers of a `dask.distributed.Client`."""

    client: Any
    traffic: Traffic = field(default_factory=Traffic)

    def __post_init__(self) -> None:
        """Refuse what is no client."""
        need_dask()
        from distributed import Client

        if not isinstance(self.client, Client):
            raise OptionError(f"client: must be a dask.distributed.Client, got {type(self.client).__name__}.")
        self._sent: list[tuple[Any, Any]] = []  # what all parts need, and where it is

    def map(
        self, function: Callable[..., Any], parts: Sequence[Part], starts: Sequence[int], *arguments: Any
    ) -> Iterator[Any]:
        """Yield results in the order of the parts."""
        from distributed import CancelledError, KilledWorker
        from distributed.comm import CommClosedError

        lost = (CancelledError, CommClosedError, OSError, TimeoutError)
        try:
            homes = self._homes(len(parts))
            small = [one for one in arguments if not getattr(one, "sent_once", False)]
            given = [self._placed(one) for one in arguments]
            self.traffic.rounds += 1
            self.traffic.sent += len(parts) * len(pickle.dumps(small, protocol=pickle.HIGHEST_PROTOCOL))
            waiting: deque[Any] = deque()
            most = AHEAD * max(1, len(set(homes)))
            for part, start, home in zip(parts, starts, homes, strict=True):
                if len(waiting) >= most:
                    yield self._received(waiting.popleft())
                waiting.append(self._submitted(function, part, start, given, home))
            while waiting:
                yield self._received(waiting.popleft())
        except OARError:  # what a part itself said
            raise
        except KilledWorker as error:
            raise EngineError(
                f"engine: the work on a part was tried on {RETRIES + 1} workers, and all of them died ({error}); "
                "parts may be too large for their memory: write smaller row groups, or give workers more memory."
            ) from error
        except lost as error:
            raise self._lost(error) from error

    def _submitted(self, function: Callable[..., Any], part: Any, start: int, given: list[Any], home: str) -> Any:
        """Send one part to its worker; any other may do it if that one is gone."""
        options = {"workers": [home], "allow_other_workers": True, "pure": False, "retries": RETRIES}
        held = getattr(part, "held", None)  # partitions that workers hold are handed over there
        if held is None:
            return self.client.submit(function, part, start, *given, **options)
        return self.client.submit(_with_held, held, function, part.without(), start, *given, **options)

    def _received(self, future: Any) -> Any:
        result = future.result()
        self.traffic.received += len(pickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL))
        return result

    def _placed(self, argument: Any) -> Any:
        """Return what is to be sent: large things that all parts need are sent to each worker once."""
        if not getattr(argument, "sent_once", False):
            return argument
        for known, where in self._sent:
            if known is argument and where.status == "finished":
                return where
        where = self.client.scatter(argument, broadcast=True, hash=False)
        size = len(pickle.dumps(argument, protocol=pickle.HIGHEST_PROTOCOL))
        self.traffic.sent += size * max(1, len(self._workers()))
        self._sent = [*[one for one in self._sent if one[0] is not argument], (argument, where)][-4:]
        return where

    def _workers(self) -> list[str]:
        return sorted(self.client.scheduler_info(n_workers=-1)["workers"])

    def _homes(self, parts: int) -> list[str]:
        """Return the worker of each part: neighbours alternate, so that all have something to do from the first on."""
        self.client.wait_for_workers(1, timeout=60)
        workers = self._workers()
        return [workers[number % len(workers)] for number in range(parts)]

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function on every worker; workers that are gone have nothing to do."""
        self.client.run(function, *arguments, on_error="ignore")

    def _lost(self, error: BaseException) -> EngineError:
        address = getattr(getattr(self.client, "scheduler", None), "address", "its address")
        return EngineError(
            f"engine: the connection to the Dask scheduler at {address} was lost ({type(error).__name__}: {error}); "
            "start the scheduler and its workers again, make a new Client, and solve again: data were only read, and "
            "nothing is half-written."
        )


def _with_held(held: Any, function: Callable[..., Any], part: Any, start: int, *arguments: Any) -> Any:
    """Work on a partition that is in the worker's memory."""
    return function(part.holding(held), start, *arguments)

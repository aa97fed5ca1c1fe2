"""Executors of a study: this process, other processes on this machine, or a Dask cluster.

Executors only answer; the process that called `oar.study` writes leases and answers. Nobody else needs to see the
store, and a lost process loses only its work in progress.

They are processes and not threads, because solvers are mostly Python: ten softmax cells on Iris took 10.0 s one after
another, 10.0 s on two threads and 8.1 s in two processes, on two cores of which one had other work too. They are
started and not forked, because JAX's threads do not survive a fork; and by a pipe rather than
`multiprocessing`, so that scripts need no `if __name__ == "__main__"`, and all of them end when this process is killed.
joblib's processes end when their memory grows by 300 MB, as it does when JAX compiles.
"""

from __future__ import annotations

import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
import uuid
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from typing import IO, Any

from oar.checks import check_that, is_whole
from oar.errors import DataError, OARError, OptionError
from oar.studies.rows import Row
from oar.studies.work import Work, WorkUnit, answered

UNSUITED = f"{OptionError.__name__}: "
GONE = "the scheduler is gone, or dropped it"
RETRIES = 3  # times that Dask may try a unit again whose worker died
LENGTH = struct.Struct(">Q")  # how long what follows is, in a pipe
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"), "1")


class LocalExecutor:
    """This process, one unit after another; `number` is how many units an executor does at once."""

    number = 1

    def __init__(self, work: Work) -> None:
        self._work = work

    def start(self, unit: WorkUnit) -> Future[list[Row]]:
        """Answer at once."""
        done: Future[list[Row]] = Future()
        done.set_result(answered(self._work, unit, alone=True))
        return done

    def stop(self) -> None:
        """Nothing is under way."""


def _packed(work: Work, argument: str) -> bytes:
    """Return the work as bytes that another process can make it of."""
    from joblib.externals.loky.cloudpickle_wrapper import dumps  # type: ignore[import-untyped]

    try:
        return bytes(dumps(work))
    except Exception as error:
        raise OptionError(
            f"{argument}: the problem cannot be handed to other processes ({error}); use workers=1 alone."
        ) from error


class ProcessExecutor:
    """Other processes on this machine."""

    def __init__(self, work: Work, number: int) -> None:
        self._content, self.number = _packed(work, "workers"), number
        self._all = [_started() for _ in range(number)]
        self._free: queue.Queue[subprocess.Popen[bytes]] = queue.Queue()
        self._sent = set[int]()
        for process in self._all:
            self._free.put(process)
        self._threads = ThreadPoolExecutor(number)

    def start(self, unit: WorkUnit) -> Future[list[Row]]:
        """Hand a unit to a free process."""
        return self._threads.submit(self._asked, unit)

    def _asked(self, unit: WorkUnit) -> list[Row]:
        """Hand a unit to a process, and wait for its answers."""
        process = self._free.get()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if process.pid not in self._sent:
                self._sent.add(process.pid)
                send(process.stdin, self._content)
            send(process.stdin, pickle.dumps(unit))
            told = receive(process.stdout)
        except (BrokenPipeError, ValueError):
            told = None
        if told is None:
            raise OARError(
                "workers: a process ended before its answer, as where memory is short; what was done before is kept. "
                "Run the same study again, with fewer workers."
            )
        self._free.put(process)
        answers, trouble = pickle.loads(told)
        if trouble.startswith(UNSUITED):
            raise OptionError(trouble.removeprefix(UNSUITED))
        if answers is None:
            raise OARError(
                f"workers: a process could not answer ({trouble}); what was done before is kept. Run the same study "
                "again, or with workers=1."
            )
        return answers

    def stop(self) -> None:
        """End all of them, whatever they are doing."""
        for process in self._all:
            process.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for process in self._all:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]


def _started() -> subprocess.Popen[bytes]:
    """Start a process that answers; Ctrl-C is for this one alone.

    It finds modules where this one does, and in the same order. -P: Python would look in the current folder first,
    where data may lie beside a file called struct.py. If this process does so, as in a notebook, that folder
    comes last: its modules are found, and replace no others.
    """
    searched = [os.path.abspath(folder) for folder in sys.path if folder]
    if "" in sys.path:
        searched.append(os.getcwd())
    return subprocess.Popen(
        [sys.executable, "-P", "-c", "from oar.studies.executors.executors import serve; serve()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | ONE_THREAD | {"PYTHONPATH": os.pathsep.join(searched)},
        start_new_session=True,
    )


def send(pipe: IO[bytes], content: bytes) -> None:
    """Write some bytes to a pipe, after their number."""
    pipe.write(LENGTH.pack(len(content)))
    pipe.write(content)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes | None:
    """Read a message; None where the other end is gone."""
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(head)
    content = pipe.read(size)
    return content if len(content) == size else None


def serve() -> None:
    """Answer units for another process until the pipe ends, as it does with the process that started this one."""
    from joblib.externals.loky.cloudpickle_wrapper import loads

    incoming = sys.stdin.buffer
    outgoing = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever models print is not taken for an answer
    asked: queue.Queue[bytes] = queue.Queue()

    def listen() -> None:
        while (content := receive(incoming)) is not None:
            asked.put(content)
        os._exit(0)  # nobody is left to answer to

    first = receive(incoming)
    threading.Thread(target=listen, daemon=True).start()
    try:
        work = None if first is None else loads(first)
    except Exception as error:
        work = error
    while True:
        send(outgoing, pickle.dumps(_answer(work, pickle.loads(asked.get()))))


def _answer(work: Work | Exception | None, unit: WorkUnit) -> tuple[Any, str]:
    """Return answers, or why there are none."""
    if not isinstance(work, Work):
        return None, f"the problem could not be read in another process: {work}"
    try:
        return answered(work, unit), ""
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


class DaskExecutor:
    """The workers of a Dask cluster. The problem is sent to each of them once.

    It is sent as bytes and unpickled there. Dask itself would make unaligned arrays, which NumPy adds up in another
    order: last bits would differ from those of other executors.
    """

    def __init__(self, work: Work, client: Any) -> None:
        self._client, self._name, self._content = client, uuid.uuid4().hex, _packed(work, "client")
        self.number = max(1, sum(client.nthreads().values()))
        self._sending = threading.Lock()
        try:
            self._work = self._scattered()
        except TimeoutError:
            raise OARError(
                "client: must have workers, got a cluster that has none; start some, and try again."
            ) from None
        self._under_way: set[Any] = set()

    def _scattered(self) -> Any:
        return self._client.scatter(self._content, broadcast=True, hash=False)

    def start(self, unit: WorkUnit) -> Future[list[Row]]:
        """Hand a unit to the scheduler; if a worker dies, another takes over."""
        local: Future[list[Row]] = Future()
        self._submit(unit, local, RETRIES)
        return local

    def _submit(self, unit: WorkUnit, local: Future[list[Row]], again: int) -> None:
        remote = self._client.submit(_answered_there, self._name, self._work, unit, pure=False, retries=RETRIES)
        self._under_way.add(remote)

        def hand_over(found: Any) -> None:
            self._under_way.discard(found)
            try:
                answers, reason = self._outcome(found)
                if answers is not None:
                    local.set_result(answers)
                    return
                if reason is None and again and self._client.status == "running":
                    self._send_again()
                    self._submit(unit, local, again - 1)
                    return
            except Exception as trouble:
                reason = trouble
            if not isinstance(reason, OARError):
                reason = OARError(
                    f"client: the Dask cluster did not finish what it was given ({reason or GONE}); what was done "
                    "before is kept. Look at the cluster's logs, and run the same study again, on this cluster or "
                    "another."
                )
            local.set_exception(reason)

        remote.add_done_callback(hand_over)

    def _outcome(self, found: Any) -> tuple[list[Row] | None, Any]:
        """Return a unit's answers, or the reason why there are none; neither if a worker died with its data."""
        if found.status == "error":
            return None, found.exception()
        if found.status == "finished":
            with suppress(CancelledError):  # lost since
                return found.result(), None
        return None, None

    def _send_again(self) -> None:
        """Send the problem again where the last worker that had it has died: copies may not have reached the others."""
        with self._sending:
            if self._work.status != "finished":
                self._work = self._scattered()

    def stop(self) -> None:
        """Drop unfinished work; the cluster stays, because it is not ours."""
        if self._client.status == "running":
            self._client.cancel([*self._under_way, self._work])
            with suppress(Exception):  # a worker that is just going takes along what it held
                self._client.run(_forget, self._name, on_error="ignore")


_received: dict[str, Work] = {}
_receiving = threading.Lock()


def _answered_there(name: str, sent: bytes, unit: WorkUnit) -> list[Row]:
    """Answer a unit on a worker, which unpickles the problem once."""
    from joblib.externals.loky.cloudpickle_wrapper import loads

    with _receiving:
        if name not in _received:
            _received[name] = loads(sent)
        work = _received[name]
    return answered(work, unit)


def _forget(name: str) -> None:
    _received.pop(name, None)


Executor = LocalExecutor | ProcessExecutor | DaskExecutor


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_executor(workers: Any, client: Any) -> None:
    """Raise for an impossible number of processes, and for both kinds of executors at once."""
    known = workers is None or (is_whole(workers) and workers >= 1)
    check_that(known, "workers", "a whole number of processes ≥ 1, or None", workers)
    if client is None:
        return
    if workers is not None:
        raise OptionError("workers: are processes on this machine, and client= has its own; leave one out.")
    if getattr(client, "asynchronous", False):
        raise DataError("client: must be one that waits, got an asynchronous one; leave out asynchronous=True.")
    if not callable(getattr(client, "submit", None)) or not callable(getattr(client, "scatter", None)):
        raise DataError(f"client: must be a dask.distributed.Client, got an object of type {type(client).__name__}.")

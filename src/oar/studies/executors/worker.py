"""A process that answers units for another one: work and answers pass through pipes.

It ends with the process that started it, because the pipe then ends.
"""

from __future__ import annotations

import os
import pickle
import queue
import struct
import sys
import threading
from typing import IO, Any

from oar.studies.work import Work, WorkUnit, answered

LENGTH = struct.Struct(">Q")  # how long what follows is


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


def main() -> None:
    """Answer until the pipe ends."""
    from joblib.externals.loky.cloudpickle_wrapper import loads  # type: ignore[import-untyped]

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

"""Leases: which process works on a cell, and whether it is still alive.

A lease names a process: its machine, its number, and its start, because numbers are used again. On the same machine
this is decisive, also after a `kill -9`. For a process on another machine, or in another container, only the heartbeat
is known, and the lease ends after `LEASE` seconds without one.
"""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

LEASE = 120.0
BEAT = 15.0  # seconds between heartbeats


def own_lease() -> str:
    """Return a lease of this process, different from every other."""
    number = os.getpid()
    told = {"host": _host(), "pid": number, "born": _born(number), "token": uuid.uuid4().hex}
    return json.dumps(told, sort_keys=True)


def lives(lease: str, heartbeat: float | None, store: Path | None = None) -> bool:
    """Report whether the holder of a lease may still be working on it.

    A process that visibly does not have the store open is not, whatever is written there: nobody waits for it.
    """
    try:
        told = json.loads(lease)
        host, number, born = told["host"], int(told["pid"]), told["born"]
        fresh = heartbeat is not None and abs(time.time() - heartbeat) < LEASE
        if host != _host():
            return fresh
        there = _is_there(number) and fresh if born is None else _born(number) == born
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return False
    return there and (store is None or _has_open(number, store) is not False)


def _host() -> str:
    """Return the machine's name and, where processes are numbered apart as in containers, whose numbers they are."""
    try:
        numbers = f"/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        numbers = ""
    return socket.gethostname() + numbers


def _born(number: int) -> str | None:
    """Return when a process was born, in its kernel's words; None where it is gone, or the system does not tell."""
    try:
        # "pid (name) state ppid …": the name may hold anything, so count from its closing bracket.
        fields: Any = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    return None if fields[0] in "ZX" else f"{boot}/{fields[19]}"  # the 22nd field; Z and X are dead already


def _has_open(number: int, path: Path) -> bool | None:
    """Report whether a process has a file open; None where that cannot be seen."""
    try:
        file, folder = os.stat(path), f"/proc/{number}/fd"
        opened = os.listdir(folder)
    except OSError:  # another user's process, or a system without such a folder
        return None
    for each in opened:
        with suppress(OSError):  # closed meanwhile
            if os.path.samestat(os.stat(f"{folder}/{each}"), file):
                return True
    return False


def _is_there(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's, so it is there
        return True
    return True

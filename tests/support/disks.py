"""Disks as they are where tests rarely run: full ones, and those that keep no time of a file's last change."""

from __future__ import annotations

import os
from typing import IO, Any

import pytest


def onto_a_full_disk(file: IO[bytes]) -> None:
    """Have an open file be on a full disk from now on: the kernel's own, /dev/full."""
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, file.fileno())
    os.close(full)


def fill_the_disk(patch: pytest.MonkeyPatch, on: int) -> None:
    """Have the n-th file that is opened for writing by its descriptor, as atomic writes do, be on a full disk."""
    opened, count = os.fdopen, [0]

    def fdopen(descriptor: int, mode: str = "r", *others: Any, **options: Any) -> IO[Any]:
        file = opened(descriptor, mode, *others, **options)
        count[0] += mode == "wb"
        if mode == "wb" and count[0] == on:
            onto_a_full_disk(file)
        return file

    patch.setattr(os, "fdopen", fdopen)


def keep_no_time_of_changes(patch: pytest.MonkeyPatch) -> None:
    """Have the system know no time of a file's last change, as on some disks, and by others' clocks."""
    for name in ("stat", "fstat"):
        patch.setattr(os, name, _timeless(getattr(os, name)))


def _timeless(asked: Any) -> Any:
    def about(*arguments: Any, **options: Any) -> os.stat_result:
        kind, (values, named) = asked(*arguments, **options).__reduce__()
        return kind(values, named | {"st_ctime": 0.0, "st_ctime_ns": 0})

    return about

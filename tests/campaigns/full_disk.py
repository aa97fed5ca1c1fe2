"""A disk that is full at the k-th write, for every k: what was there stays, nothing is half-written, and it is said.

Room is limited by the system itself: a file of this process may not grow beyond so many bytes (RLIMIT_FSIZE), or one
call after another that writes to the disk is refused as on a full one.
"""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from oar.errors import StorageError
from oar.files import replace_atomically
from oar.report.files.output_folder import finish, staged

from .kills import NEW, OLD, OWN, files_of, in_a_child, written
from .tally import Tally, parser

CALLS = ("open", "fsync", "mkdir", "rename", "replace")
HELD, TORN = 0, 7


def full_from(call: int) -> None:
    """Have the `call`-th call that needs room, and all after it, be refused."""
    count = 0

    def refusing(does):
        def done(*arguments, **options):
            nonlocal count
            count += 1
            if count >= call:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return does(*arguments, **options)

        return done

    for name in CALLS:
        setattr(os, name, refusing(getattr(os, name)))


def replaced(out: Path, call: int) -> None:
    """Replace a plan while the disk fills up; end with TORN where that is not said as an error of storage."""
    try:
        with staged(out, last="report.html", others=list(OLD), ours={*OLD, *NEW}) as folder:
            full_from(call)
            for name, text in NEW.items():
                with replace_atomically(folder / name) as file:
                    file.write(text.encode())
    except StorageError:
        os._exit(HELD)
    except BaseException:
        os._exit(TORN)


def at_every_call(tally: Tally, place: Path, own: bool) -> None:
    """Fill the disk before each call in turn; a run makes fewer than sixty."""
    for call in range(1, 60):
        out = place / f"{own}-{call}" / "plan"
        before, after = ({**files, **(OWN if own else {})} for files in (OLD, NEW))
        written(out, before)
        code = in_a_child(lambda out=out, call=call: replaced(out, call))
        if own:
            finish(
                out, {*OLD, *NEW}
            )  # when there is room again: beside somebody else's files, what was decided may take that
        found = files_of(out)
        tally.note(
            code == HELD and found in (before, after), f"full from call {call}, own files {own}: {code}, {found}"
        )


def limited(path: Path, room: int, length: int) -> None:
    """Write a file that may not grow beyond some room."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    try:
        with replace_atomically(path) as file:
            file.write(b"x" * length)
    except StorageError:
        os._exit(1)
    except BaseException:
        os._exit(TORN)


def of_any_room(tally: Tally, place: Path, draw: random.Random) -> None:
    """Write one file into less room than it takes, or just enough."""
    path = place / "file"
    path.write_bytes(b"old")
    length, room = draw.randint(1, 1 << 16), draw.randint(0, 1 << 16)
    code = in_a_child(lambda: limited(path, room, length))
    fits = length <= room
    expected = b"x" * length if fits else b"old"
    whole = path.read_bytes() == expected and os.listdir(place) == ["file"]
    tally.note(whole and code == (0 if fits else 1), f"{length} bytes into {room}: {code}, {os.listdir(place)}")


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign."""
    options = parser("full_disk", __doc__ or "").parse_args(arguments)
    minutes = 1.0 if options.minutes is None and options.number is None else options.minutes
    tally, draw = Tally("full_disk", minutes=minutes, number=options.number), random.Random(options.seed)
    place = Path(tempfile.mkdtemp(prefix="oar-full-disk-"))
    try:
        for own in (False, True):
            at_every_call(tally, place, own)
        alone = place / "alone"
        alone.mkdir()
        while tally.goes_on():
            of_any_room(tally, alone, draw)
    finally:
        shutil.rmtree(place)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())

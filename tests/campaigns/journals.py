"""Crafted journals in a plan's folder: what claims to be the rest of a killed run, and is somebody's attempt at files.

Commands that only read change nothing, whatever they find. Whoever finishes a run touches files of a plan's own names
in that folder, and nothing else: nothing outside, nothing through links, nobody else's.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from oar.errors import StorageError
from oar.report.files.output_folder import ARRIVING, FILES, LOCK, NOTE, PREFIX, _check, finish, staged
from oar.report.plan.deliver import FILES as OF_A_PLAN
from oar.report.plan.deliver import check_folder

MINE = "thesis.txt"
PATIENCE = 60  # seconds, after which a command hangs


class Hanging(BaseException):
    """What nobody takes for an error of the disk."""


Journal = Callable[[Path, Path], None]


def noted(home: Path, put: list[str], remove: list[str], last: str = "report.html") -> None:
    """Lay out a journal that says so, with a file for each name that has a place in it."""
    (home / FILES).mkdir(parents=True)
    (home / LOCK).touch()
    (home / NOTE).write_text(json.dumps({"last": last, "put": put, "remove": remove}))
    for name in put:
        if name and os.path.basename(name) == name and name not in (".", ".."):
            (home / FILES / name).write_text("forged")


def absolute(plan: Path, outside: Path) -> None:
    noted(plan / ARRIVING, [], [str(outside / MINE)])


def upwards(plan: Path, outside: Path) -> None:
    noted(plan / ARRIVING, [f"../../{outside.name}/{MINE}"], [f"../{outside.name}/{MINE}"])


def no_names(plan: Path, outside: Path) -> None:
    noted(plan / ARRIVING, ["", "."], ["..", ""], "..")


def removes_mine(plan: Path, outside: Path) -> None:
    noted(plan / ARRIVING, [], [MINE])


def replaces_mine(plan: Path, outside: Path) -> None:
    noted(plan / ARRIVING, [MINE], [])


def last_is_mine(plan: Path, outside: Path) -> None:
    noted(plan / ARRIVING, [MINE], [], MINE)


def removes_the_plan(plan: Path, outside: Path) -> None:
    noted(plan / ARRIVING, [], ["plan.json", "moves.csv"])


def forges_the_plan(plan: Path, outside: Path) -> None:
    noted(plan / ARRIVING, ["plan.json", "manifest.json"], [])


def a_link(plan: Path, outside: Path) -> None:
    noted(outside / "journal", ["plan.json"], ["moves.csv"])
    (plan / ARRIVING).symlink_to(outside / "journal")


def files_elsewhere(plan: Path, outside: Path) -> None:
    noted(plan / ARRIVING, ["plan.json"], [])
    shutil.rmtree(plan / ARRIVING / FILES)
    (plan / ARRIVING / FILES).symlink_to(outside)


def a_linked_file(plan: Path, outside: Path) -> None:
    noted(plan / ARRIVING, ["plan.json"], [])
    (plan / ARRIVING / FILES / "plan.json").unlink()
    (plan / ARRIVING / FILES / "plan.json").symlink_to(outside / "plan.json")


def a_folder_as_file(plan: Path, outside: Path) -> None:
    noted(plan / ARRIVING, ["plan.json"], [])
    (plan / ARRIVING / FILES / "plan.json").unlink()
    (plan / ARRIVING / FILES / "plan.json" / "deep").mkdir(parents=True)


def pipe_as_lock(plan: Path, outside: Path) -> None:
    noted(plan / ARRIVING, ["plan.json"], [])
    (plan / ARRIVING / LOCK).unlink()
    os.mkfifo(plan / ARRIVING / LOCK)


def pipe_as_note(plan: Path, outside: Path) -> None:
    noted(plan / ARRIVING, ["plan.json"], [])
    (plan / ARRIVING / NOTE).unlink()
    os.mkfifo(plan / ARRIVING / NOTE)


def pipe_as_file(plan: Path, outside: Path) -> None:
    noted(plan / ARRIVING, ["plan.json"], [])
    (plan / ARRIVING / FILES / "plan.json").unlink()
    os.mkfifo(plan / ARRIVING / FILES / "plan.json")


def lock_elsewhere(plan: Path, outside: Path) -> None:
    noted(plan / ARRIVING, ["plan.json"], [])
    (plan / ARRIVING / LOCK).unlink()
    (plan / ARRIVING / LOCK).symlink_to(outside / MINE)


def huge_note(plan: Path, outside: Path) -> None:
    noted(plan / ARRIVING, ["plan.json"], [])
    os.truncate(plan / ARRIVING / NOTE, 1 << 33)  # sparse: it takes no room


def deep_note(plan: Path, outside: Path) -> None:
    noted(plan / ARRIVING, ["plan.json"], [])
    (plan / ARRIVING / NOTE).write_text("[" * 100_000)


def without_a_note(plan: Path, outside: Path) -> None:
    noted(plan / ARRIVING, [MINE], [])
    (plan / ARRIVING / NOTE).unlink()


def mine_among_them(plan: Path, outside: Path) -> None:
    noted(plan / ARRIVING, ["plan.json"], [])
    (plan / ARRIVING / FILES / MINE).write_text("mine")


def a_file(plan: Path, outside: Path) -> None:
    (plan / ARRIVING).write_text("mine")


def of_another_user(plan: Path, outside: Path) -> None:
    noted(plan / ARRIVING, ["plan.json"], ["moves.csv"])
    if os.geteuid() == 0:  # nobody else can give files away
        for path in (plan / ARRIVING, *(plan / ARRIVING).rglob("*")):
            os.chown(path, 12_345, 12_345)
    else:
        (plan / ARRIVING / MINE).write_text("mine")


def unfinished_elsewhere(plan: Path, outside: Path) -> None:
    """A hidden folder of the right name, which every run that writes sweeps, with its files somewhere else."""
    number = "0123456789abcdef"
    home = plan / f"{PREFIX}{number}{_check(number)}"
    noted(home, ["plan.json"], [MINE])
    shutil.rmtree(home / FILES)
    (home / FILES).symlink_to(outside)


JOURNALS: tuple[Journal, ...] = (
    absolute,
    upwards,
    no_names,
    removes_mine,
    replaces_mine,
    last_is_mine,
    removes_the_plan,
    forges_the_plan,
    a_link,
    files_elsewhere,
    a_linked_file,
    a_folder_as_file,
    pipe_as_lock,
    pipe_as_note,
    pipe_as_file,
    lock_elsewhere,
    huge_note,
    deep_note,
    without_a_note,
    mine_among_them,
    a_file,
    of_another_user,
    unfinished_elsewhere,
)


def seen(place: Path) -> dict[str, tuple[object, ...]]:
    """Return everything in a folder as it is: kinds, owners, times, links and contents."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(place.rglob("*")):
        about = os.lstat(path)
        content: object = None
        if stat.S_ISLNK(about.st_mode):
            content = os.readlink(path)
        elif stat.S_ISREG(about.st_mode) and about.st_size < 1 << 24:
            content = path.read_bytes()
        found[str(path.relative_to(place))] = about.st_mode, about.st_uid, about.st_size, about.st_mtime_ns, content
    return found


@contextmanager
def in_time() -> Iterator[None]:
    """Raise where something hangs, as on a pipe that nobody writes to."""

    def late(number: int, frame: object) -> None:
        raise Hanging("it hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def laid_out(place: Path, plan: Path, journal: Journal) -> tuple[Path, Path]:
    """Copy a plan, put a journal into it, and files of somebody's own beside both; return the copy and the outside."""
    copy, outside = place / "plan", place / "outside"
    shutil.copytree(plan, copy)
    outside.mkdir()
    for name in (MINE, "plan.json"):
        (outside / name).write_text("mine")
    (copy / MINE).write_text("mine")
    journal(copy, outside)
    return copy, outside


def read_only(place: Path, plan: Path, journal: Journal, commands: Callable[[Path], Iterator[str]]) -> str | None:
    """Run commands that read on a folder with such a journal; return what they changed, or what failed."""
    copy, _ = laid_out(place, plan, journal)
    before = seen(place)
    try:
        with in_time():
            failed = [said for said in commands(copy) if said]
    except Hanging as error:
        return str(error)
    after = seen(place)
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    return f"changed {changed}" if changed else "; ".join(failed) or None


def finished(place: Path, plan: Path, journal: Journal, draw: random.Random) -> str | None:
    """Write into a folder with such a journal; return which files changed that are nobody's to change."""
    copy, outside = laid_out(place, plan, journal)
    mine = (copy / MINE).read_bytes()
    before = seen(outside)
    try:
        with in_time():
            for step in draw.sample(["finish", "check", "stage"], 3):
                try:
                    if step == "finish":
                        finish(copy, OF_A_PLAN)
                    elif step == "check":
                        check_folder(copy, force=True)
                    else:
                        with staged(copy, "report.html", ours=OF_A_PLAN) as folder:
                            (folder / "report.html").write_text("new")
                except StorageError:
                    pass
    except Hanging as error:
        return str(error)
    after = seen(outside)
    if after != before:
        return f"changed outside: {sorted(name for name in {*before, *after} if before.get(name) != after.get(name))}"
    return None if (copy / MINE).is_file() and (copy / MINE).read_bytes() == mine else f"{MINE} was changed"

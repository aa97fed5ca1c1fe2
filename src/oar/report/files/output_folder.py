"""A folder of results that is whole or as it was before: a kill at any moment leaves the old files or the new ones.

New files are made in a hidden folder of their own. Where the folder that they are for is not there, or holds nothing
else, both change places by one rename. Otherwise the hidden folder, with a note of what goes where, is renamed to
`ARRIVING` inside the other: from then on it is decided, and whoever writes there next (`finish`) moves what has not
been moved; who only reads is told (`check_settled`), and changes nothing. Names of hidden folders carry a check sum, so
that nobody else's is ever taken for one of these, and whoever works in one holds a lock on it, so that only those of
killed runs are removed.

A folder may come from anybody, and so may what is called `ARRIVING` in it. So a note is heeded where it names nothing
but files that its finisher writes itself, and where folders and files are what these names say: nothing is moved or
removed through links, and nothing that belongs to another user.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import secrets
import shutil
import signal
import stat
import threading
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from oar.errors import StorageError
from oar.files import lock, sync_folder
from oar.opening import read_json

PREFIX, ARRIVING = ".oar-unfinished-", ".oar-arriving"
FILES, NOTE, LOCK = "files", "note.json", "lock"
LONGEST_NOTE = 1 << 20  # bytes
NOT_ELSEWHERE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
ENDINGS = ("SIGINT", "SIGTERM", "SIGHUP")  # by name: there is no SIGHUP on Windows
CURRENT, EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


@contextmanager
def leaving_no_empty_folders(out: Path) -> Iterator[None]:
    """After an exception, remove `out` and its parents again if they were not there before and are still empty."""
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        yield
    except BaseException:
        for empty in made:  # deepest first; a folder that somebody else has filled meanwhile stays
            with suppress(OSError):
                empty.rmdir()
        raise


@contextmanager
def staged(out: Path, last: str, others: Collection[str] = (), *, ours: Collection[str]) -> Iterator[Path]:
    """Yield a hidden folder; its files come to `out` only if the block ends without an exception, and then together.

    The folder lies beside `out` or inside, so that it is on the same disk, and so that trying to make it tells at once
    whether `out` can be written to. A kill leaves `out` as it was, or as it is to be; in a folder with somebody else's
    files it may take the next command to see to that, and until then there is no file called `last`. After an exception
    `out` is as it was; if it was not there, it is not there.

    Args:
        out: the folder to write to.
        last: the name of the file that comes last.
        others: names of files that a run may write but this one may not: where an older run's `last` is replaced, its
            `others` go with it, for they would seem to belong to the new one. Without an older `last` they stay.
        ours: the names of all files that such a run may write: what a killed one had begun is finished for these alone.
    """
    out = Path(out).absolute()
    try:
        with leaving_no_empty_folders(out), _opened(out, ours) as folder:
            yield folder
            with undisturbed():
                place_all(folder, out, last, others, ours)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(
            f"out: cannot write to {out} ({error.strerror}). Make room, or choose another folder."
        ) from error


@contextmanager
def _opened(out: Path, ours: Collection[str]) -> Iterator[Path]:
    """Make the hidden folder at once."""
    with ExitStack() as held:
        try:
            if out.exists() and not out.is_dir():
                raise NotADirectoryError(20, "a file is in the way")
            if out.exists() and not os.access(out, os.W_OK):
                raise PermissionError(13, os.strerror(13))
            folder = held.enter_context(hidden_folder(out, ours))
        except OSError as error:
            raise StorageError(
                f"out: must be a folder that can be written to, got {out} ({error.strerror}). Choose another one."
            ) from error
        yield folder


def is_ours(name: str) -> bool:
    """Report whether a name is one that this file gives to folders."""
    if name == ARRIVING:
        return True
    number = name.removeprefix(PREFIX)[:16]
    return name == f"{PREFIX}{number}{_check(number)}"


def _check(number: str) -> str:
    return hashlib.blake2b(f"oar {number}".encode(errors="backslashreplace"), digest_size=8).hexdigest()


@contextmanager
def hidden_folder(out: Path, ours: Collection[str]) -> Iterator[Path]:
    """Yield a folder for the files that will be in `out`, on its disk; what is left of it afterwards is removed."""
    finish(out, ours)
    beside = _can_change_places(out)
    place = out.parent if beside else out
    place.mkdir(parents=True, exist_ok=True)
    _remove_abandoned({out, out.parent})
    home, held = _locked_home(place)
    try:
        (home / FILES).mkdir()
        yield home / FILES
    finally:
        try:
            with undisturbed():
                if home.exists():
                    _remove(home)
        finally:
            os.close(held)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Defer signals that end the command while files are placed or removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in ENDINGS if hasattr(signal, name)]
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _locked_home(place: Path) -> tuple[Path, int]:
    """Make a hidden folder, with a lock in it that is held while the file that is returned is open."""
    while True:
        number = secrets.token_hex(8)
        home = place / f"{PREFIX}{number}{_check(number)}"
        home.mkdir()
        with suppress(FileNotFoundError):  # somebody may have swept it while it was empty, or not locked
            held = os.open(home / LOCK, os.O_CREAT | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600)
            lock(held, wait=True)
            if (home / LOCK).exists():
                return home, held
            os.close(held)


def place_all(files: Path, out: Path, last: str, others: Collection[str], ours: Collection[str]) -> None:
    """Put all `files` into `out`, and take `others` away, of which `last` being there says that they are ours."""
    new = sorted(path.name for path in files.iterdir())
    strange = {*new, *others} - set(ours)
    assert not strange, f"{strange} could not be finished after a kill: name them among what is written"
    for path in files.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    sync_folder(files)
    if not out.exists():
        with suppress(OSError):  # somebody has made it meanwhile
            os.rename(files, out)
            sync_folder(out.parent)
            return
    remove = sorted(set(others) - set(new)) if (out / last).exists() else []
    for name in (*new, *remove):
        if (out / name).is_dir():
            raise IsADirectoryError(21, f"{name} is a folder there")
    known = {*new, *remove}
    with open(files.parent / NOTE, "wb") as file:  # nobody heeds it before what it notes is begun
        file.write(json.dumps({"last": last, "put": new, "remove": remove}).encode())
        file.flush()
        os.fsync(file.fileno())
    sync_folder(files.parent)
    beside = files.parent.parent == out.parent
    if beside and _can_change_places(out) and known >= set(os.listdir(out)) and _changed_places(files, out):
        sync_folder(out.parent)
        for name in set(os.listdir(files)) - known:  # a file that appeared in the old folder at the last moment
            if not os.path.lexists(out / name):
                with suppress(OSError):
                    os.rename(files / name, out / name)
        return
    finish(out, ours)
    os.rename(files.parent, out / ARRIVING)
    sync_folder(out)
    _move(out, ours)


def check_settled(folder: Path) -> None:
    """Raise where files of two runs may be in a folder; for commands that read, and change nothing."""
    home = folder / ARRIVING
    try:
        settled = not os.path.lexists(home) or (_is_own_folder(home) and not set(os.listdir(home)) - {NOTE, LOCK})
    except OSError:
        settled = False
    if not settled:
        raise StorageError(
            f"{folder} may hold files of two runs: what a run that was ended had still to put in place is in "
            f"{ARRIVING}. Run the command that writes this folder again, which finishes it, or ask for a fresh copy."
        )


def finish(out: Path, ours: Collection[str]) -> None:
    """Finish what a run that was killed had begun to put into a folder; `ours` are the names of files that it writes.

    Raises:
        StorageError: where it cannot be finished, and what is in the folder belongs to two runs, or to somebody else.
    """
    home = out / ARRIVING
    if not os.path.lexists(home):
        return
    if not _is_own_folder(home):
        raise _strange(home, "it is a link, a file, or another user's")
    try:
        held = os.open(home / LOCK, os.O_RDONLY | NOT_ELSEWHERE)
    except FileNotFoundError:
        with suppress(OSError):
            home.rmdir()  # all but this was done
        return
    except OSError as error:
        raise _strange(home, f"{LOCK} in it is not this package's") from error
    try:
        if not stat.S_ISREG(os.fstat(held).st_mode):
            raise _strange(home, f"{LOCK} in it is not this package's")
        lock(held, wait=True)  # whoever is at it may go on
        if (home / LOCK).exists():
            _move(out, ours)
    finally:
        os.close(held)


def _move(out: Path, ours: Collection[str]) -> None:
    """Move what has not been moved; the last file goes first and comes last, so that only a whole run has it."""
    home = out / ARRIVING
    note = _note(home)
    _check_note(home, note, ours)
    try:
        if note is not None:
            if (home / FILES / note["last"]).exists():
                (out / note["last"]).unlink(missing_ok=True)
            for name in note["remove"]:
                (out / name).unlink(missing_ok=True)
            for name in sorted(note["put"], key=lambda name: (name == note["last"], name)):
                with suppress(FileNotFoundError):
                    os.replace(home / FILES / name, out / name)
            sync_folder(out)
        _remove(home)
    except OSError as error:
        raise _unfinished(out, error) from error


def _check_note(home: Path, note: dict[str, Any] | None, ours: Collection[str]) -> None:
    """Refuse a note that names anything else than files of ours, and files that are not what the note says."""
    known = set() if note is None else {*note["put"], note["last"]}
    strange = known.union(() if note is None else note["remove"]) - set(ours)
    if strange:
        raise _strange(home, f"it speaks of {min(strange)!r}")
    try:
        if os.path.lexists(home / FILES) and not _is_own_folder(home / FILES):
            raise _strange(home, f"{FILES} in it is a link, a file, or another user's")
        # A run has noted what it places before it calls a folder so, and takes its files out of it before the note.
        there = os.listdir(home / FILES) if os.path.lexists(home / FILES) else []
        plain = all(stat.S_ISREG(os.lstat(home / FILES / name).st_mode) for name in there)
        if not known.issuperset(there) or not plain or set(os.listdir(home)) - {FILES, NOTE, LOCK}:
            raise _strange(home, "other things are in it")
    except OSError as error:
        raise _unfinished(home.parent, error) from error


def _strange(home: Path, why: str) -> StorageError:
    return StorageError(
        f"out: {home} is no unfinished run of this command, for {why}. Look what it is, and remove it, or choose "
        "another folder."
    )


def _is_own_folder(path: Path) -> bool:
    """Report whether a path is a folder itself, and no link to one, and this user's."""
    about = os.lstat(path)
    return stat.S_ISDIR(about.st_mode) and about.st_uid == getattr(os, "geteuid", lambda: about.st_uid)()


def _unfinished(out: Path, error: OSError) -> StorageError:
    return StorageError(
        f"out: {out} holds files of two runs, because the newer ones could not all be put in place ({error.strerror}); "
        f"those that are missing are in {out / ARRIVING}, and the next oar command that writes here goes on with them."
    )


def _note(home: Path) -> dict[str, Any] | None:
    """Return what goes where; None where nothing was decided, or all is done."""
    try:
        if os.lstat(home / NOTE).st_size > LONGEST_NOTE:
            return None
        note = read_json(home / NOTE)
        names = [note["last"], *note["put"], *note["remove"]]
    except (OSError, StorageError, ValueError, KeyError, TypeError):
        return None
    plain = all(isinstance(name, str) and os.path.basename(name) == name != "" for name in names)
    return note if plain and not {".", ".."} & set(names) else None


def _can_change_places(out: Path) -> bool:
    """Report whether another folder may come in place of `out`: a folder of our own, that nobody stands in."""
    try:
        if not os.path.lexists(out):
            return True
        about, beside = os.lstat(out), os.stat(out.parent)
        return (
            os.path.isdir(out)
            and not out.is_symlink()
            and about.st_dev == beside.st_dev
            and about.st_uid == os.geteuid()
            and os.access(out.parent, os.W_OK)
            and os.access(out, os.W_OK)
            and out.resolve() not in (Path.cwd(), *Path.cwd().parents)
            and all([entry.is_file(follow_symlinks=False) for entry in os.scandir(out)])  # to its end, which closes it
        )
    except (OSError, AttributeError):  # no such ids on Windows
        return False


def _changed_places(new: Path, old: Path) -> bool:
    """Swap two folders by one rename, the new one with the old one's mode; return False where the system cannot."""
    try:
        about = os.stat(old)
        if os.stat(new).st_gid != about.st_gid:
            os.chown(new, -1, about.st_gid)
        shutil.copystat(old, new)
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    return rename(CURRENT, os.fsencode(new), CURRENT, os.fsencode(old), EXCHANGE) == 0


def _remove_abandoned(places: Collection[Path]) -> None:
    """Remove folders of killed runs: known by their names, and by locks that nobody holds."""
    for place in places:
        with suppress(OSError):
            for name in os.listdir(place):
                if name != ARRIVING and is_ours(name):
                    _remove_if_abandoned(place / name)


def _remove_if_abandoned(home: Path) -> None:
    with suppress(OSError):
        if not _is_own_folder(home):
            return
        try:
            held = os.open(home / LOCK, os.O_RDONLY | NOT_ELSEWHERE)
        except FileNotFoundError:
            home.rmdir()
            return
        try:
            if lock(held):
                _remove(home)
        finally:
            os.close(held)


def _remove(home: Path) -> None:
    """Remove a hidden folder; where its files may be those that were replaced, only what the note names."""
    files, note = home / FILES, _note(home)
    if os.path.lexists(files) and not _is_own_folder(files):
        raise NotADirectoryError(20, "not a folder of ours")
    if note is None:
        shutil.rmtree(files, ignore_errors=True)
    else:
        for name in (*note["put"], *note["remove"]):
            (files / name).unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            files.rmdir()
    for name in (NOTE, LOCK):
        (home / name).unlink(missing_ok=True)
    home.rmdir()

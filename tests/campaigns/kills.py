"""Kills while a plan takes another's place: at every step on the disk, and of the command at random moments.

After any of them the folder is the old plan or the new one, whole, when the next command has looked at it; a folder
that holds nothing but the plan is so at once. What is somebody else's stays as it is.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from oar.report.files import output_folder as arriving
from oar.report.files.output_folder import finish, is_ours, staged

from .tally import Tally, parser

STEPS = ("replace", "rename", "unlink", "rmdir", "mkdir", "fsync", "open")
KILLED = 99
OLD = {"plan.json": "old card", "moves.csv": "old moves", "report.html": "old report", "moves.parquet": "old"}
NEW = {"plan.json": "new card", "moves.csv": "new moves", "report.html": "new report", "member.html": "new page"}
OWN = {"notes.txt": "mine", ".unfinished-mine/thesis.txt": "mine", ".oar-unfinished-mine/thesis.txt": "mine"}
# Whether somebody else's files are there, whether it is the first plan, and whether the system can exchange folders.
KINDS = [(False, False, True), (False, False, False), (False, True, True), (True, False, True), (True, True, True)]


def replaced(out: Path) -> None:
    """Put the new plan into the folder, as commands do."""
    with staged(out, last="report.html", others=list(OLD), ours={*OLD, *NEW}) as folder:
        for name, text in NEW.items():
            (folder / name).write_text(text)


@contextmanager
def killed_at(step: int):
    """Have this process end, as by SIGKILL, just before its `step`-th call that changes the disk."""
    count = 0

    def counted(does):
        def done(*arguments, **options):
            nonlocal count
            count += 1
            if count == step:
                os._exit(KILLED)
            return does(*arguments, **options)

        return done

    plain = {name: getattr(os, name) for name in STEPS}
    places = arriving._changed_places
    try:
        for name, does in plain.items():
            setattr(os, name, counted(does))
        arriving._changed_places = counted(places)
        yield
    finally:
        for name, does in plain.items():
            setattr(os, name, does)
        arriving._changed_places = places


def in_a_child(act) -> int:
    """Return how a copy of this process ends that does something; 0 where it did it all."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def files_of(folder: Path) -> dict[str, str]:
    """Return what is in a folder, without what is hidden and the package's own."""
    found = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and not is_ours(inside.parts[0]):
            found[str(inside)] = path.read_text()
    return found


def written(folder: Path, files: dict[str, str]) -> None:
    """Write some files."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def at_every_step(tally: Tally, place: Path, *, own: bool, first: bool, exchange: bool) -> None:
    """Kill before each step in turn, until one run is not killed any more."""
    steps = 0
    while True:
        steps += 1
        home = place / f"{own}-{first}-{exchange}-{steps}"
        out = home / "plan"
        before = {**({} if first else OLD), **(OWN if own else {})}
        after = {**NEW, **(OWN if own else {})}
        home.mkdir()
        written(home, OWN)
        written(out, before)

        def act(out: Path = out, steps: int = steps) -> None:
            if not exchange:
                arriving._changed_places = lambda new, old: False
            with killed_at(steps):
                replaced(out)

        code = in_a_child(act)
        seen = files_of(out) if out.exists() else {}
        at_once = not own and exchange
        finish(out, {*OLD, *NEW})
        whole = files_of(out) if out.exists() else {}
        known = [before, after]
        tally.note(
            whole in known and (seen in known or not at_once) and code in (0, KILLED),
            f"killed before step {steps} (own files {own}, first {first}, exchange {exchange}): {seen}, then {whole}",
        )
        replaced(out)
        left = [name for folder in (home, out) for name in os.listdir(folder) if is_ours(name)]
        kept = {name: text for name, text in files_of(home).items() if name in OWN} == OWN
        tally.note(
            files_of(out) == after and kept and not left,
            f"after a kill before step {steps} (own files {own}, first {first}, exchange {exchange}) the next run "
            f"leaves {files_of(out)}, {left}",
        )
        if code == 0:
            return


def command(out: Path, budget: str) -> list[str]:
    """Return the command that writes a small plan."""
    data = str(out.parent / "people.csv")
    asks = ["--target", "approved", "--query", "3", "--goal", "yes", "--budget", budget, "--plain"]
    return [sys.executable, "-m", "oar", "plan", data, *asks, "--model", "nearest-centroid", "--out", str(out)]


def people(path: Path, seed: int = 0) -> None:
    """Write a few people."""
    draw = random.Random(seed)
    rows = [f"{draw.gauss(0, 1):.4f},{draw.gauss(0, 1):.4f},{draw.choice(['yes', 'no'])}" for _ in range(60)]
    path.write_text("\n".join(["income,debt,approved", *rows, ""]))


def identity(out: Path) -> dict[str, bytes]:
    """Return a folder's files as they are."""
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())} if out.exists() else {}


def at_random(tally: Tally, place: Path, draw: random.Random) -> None:
    """Kill the command itself, by every signal, at random moments while it replaces a plan."""
    home = place / "command"
    home.mkdir()
    people(home / "people.csv")
    out = home / "plan"
    began = time.monotonic()
    subprocess.run(command(out, "0.5"), check=True, capture_output=True)
    long = 1.2 * (time.monotonic() - began)
    signals = [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
    number = 0
    while tally.goes_on():
        chosen = signals[number % 4]
        number += 1
        before = identity(out)
        running = subprocess.Popen(
            command(out, f"{draw.uniform(0.2, 2):.3f}"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            # The end of a run is where files are placed, so most kills are there.
            time.sleep(long * (draw.betavariate(5, 1) if number % 3 else draw.random()))
            running.send_signal(chosen)
            code = running.wait(60)
        finally:
            running.kill()
            running.wait()
        after = identity(out)
        known = after == before or (set(after) == set(before) and after["audit.json"] != before["audit.json"])
        checked = subprocess.run(
            [sys.executable, "-m", "oar", "audit", str(out), str(home / "people.csv")], capture_output=True, text=True
        )
        tally.note(
            known and checked.returncode == 0,
            f"{chosen.name}: exit {code}, {sorted(after)}, audit: {checked.stderr[-300:]}",
        )
    subprocess.run(command(out, "0.5"), check=True, capture_output=True)
    tally.note(sorted(os.listdir(home)) == ["people.csv", "plan"], f"left behind: {os.listdir(home)}")


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign."""
    options = parser("kills", __doc__ or "").parse_args(arguments)
    minutes = 2.0 if options.minutes is None and options.number is None else options.minutes
    tally, draw = Tally("kills", minutes=minutes, number=options.number), random.Random(options.seed)
    place = Path(tempfile.mkdtemp(prefix="oar-kills-"))
    try:
        for own, first, exchange in KINDS:
            at_every_step(tally, place, own=own, first=first, exchange=exchange)
        if tally.goes_on():
            at_random(tally, place, draw)
    finally:
        shutil.rmtree(place)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())

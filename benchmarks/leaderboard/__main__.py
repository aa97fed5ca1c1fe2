"""Everyone who could solve the problem, in an environment of its own, before one referee.

Environments are made on first use in .bench-envs/, with the package index that pip is set up for.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

from benchmarks.leaderboard import page, results
from benchmarks.leaderboard.contenders import CONTENDERS
from benchmarks.leaderboard.problems import IN_ONE_FILE, Entry, NotHere, entries
from benchmarks.leaderboard.referee import Referee
from benchmarks.leaderboard.results import Problem
from benchmarks.leaderboard.running import Allowance, run
from benchmarks.leaderboard.streamed import StreamedReferee, write_clouds
from benchmarks.machine import machine
from benchmarks.tables import adult_folder

SECONDS, QUICK_SECONDS = 30.0, 6.0
QUICK = ("iris", "german", "blobs-1e4")


def main() -> None:
    """Run what was asked for."""
    options = _options()
    if options.redraw:
        page.write(*results.load(options.redraw))
        return
    signal.signal(signal.SIGTERM, _interrupted)  # so that being ended cleans up just as Ctrl-C does
    facts, began = {"machine": machine(), "command": _command()}, time.perf_counter()
    allowance = Allowance(options.seconds or (QUICK_SECONDS if options.quick else SECONDS), options.memory * 1e9)
    listed = entries(options.largest, options.adult)
    names = options.problem or (QUICK if options.quick else [entry.name for entry in listed])
    problems: list[Problem] = []
    try:
        with tempfile.TemporaryDirectory(dir=options.scratch, prefix="leaderboard-") as scratch:
            for entry in listed:
                if entry.name in names:
                    problems.append(_measured(entry, Path(scratch), allowance, options.contender))
                    _show(problems[-1])
    except KeyboardInterrupt:
        sys.exit("Interrupted: whoever ran has been ended, and nothing is left behind.")
    seconds = time.perf_counter() - began
    facts["seconds"], facts["allowed"] = seconds, allowance.seconds
    facts["load_at_the_end"] = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if options.update:
        facts, problems = results.updated(options.update, facts, problems)
        results.save(options.update, facts, problems)
    if options.json:
        results.save(options.json, facts, problems)
    if options.docs:
        page.write(facts, problems)
    print(f"{seconds:.0f} s. Ratios count, absolute times do not.")


def _measured(entry: Entry, scratch: Path, allowance: Allowance, wanted: list[str] | None) -> Problem:
    """Have one problem solved by all contenders, and judged."""
    print(f"{entry.title} …", file=sys.stderr, flush=True)
    try:
        file, referee = _stated(entry, scratch)
    except NotHere as reason:
        return Problem(entry.name, entry.title, entry.size, skipped=str(reason))
    clean = referee.judge(None).loss
    runs = []
    for contender in CONTENDERS:
        if wanted is None or any(word.lower() in contender.name.lower() for word in wanted):
            print(f"  {contender.name} …", file=sys.stderr, flush=True)
            runs.append(run(contender, entry, file, referee, allowance.of(entry)))
    shutil.rmtree(file) if file.is_dir() else file.unlink()
    return Problem(entry.name, entry.title, entry.size, clean, tuple(runs))


def _stated(entry: Entry, scratch: Path) -> tuple[Path, Referee | StreamedReferee]:
    """Write a problem to its file, or to a folder where people are many, and return that with its referee."""
    if entry.size > IN_ONE_FILE:
        folder = write_clouds(scratch / entry.name, entry.size)
        return folder, StreamedReferee(folder)
    file = scratch / f"{entry.name}.npz"
    stated = entry.make()
    stated.save(file)
    return file, Referee(stated)


def _show(problem: Problem) -> None:
    from rich.console import Console

    if problem.skipped:
        print(f"{problem.title}: skipped, {problem.skipped}")
    else:
        Console(width=None if sys.stdout.isatty() else 200).print(results.as_rich(problem))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.leaderboard", description=__doc__)
    known = [entry.name for entry in entries(True, None)]
    parser.add_argument("--quick", action="store_true", help="few seconds each, on small problems")
    parser.add_argument(
        "--seconds",
        type=float,
        help=f"for each contender on each problem, doubled from 300,000 people on (default {SECONDS:g})",
    )
    parser.add_argument("--problem", choices=known, action="append", help="just this problem (may be repeated)")
    parser.add_argument("--contender", action="append", metavar="WORD", help="just those with this word in their name")
    parser.add_argument("--largest", action="store_true", help="go on to 10⁷ and 10⁸ people, in Parquet files")
    parser.add_argument("--memory", type=float, default=_half_of_memory(), metavar="GB", help="for each contender")
    parser.add_argument("--adult", type=Path, default=adult_folder(), metavar="FOLDER", help="UCI's Adult files")
    parser.add_argument("--scratch", type=Path, metavar="FOLDER", help="where problems are written meanwhile")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything, unrounded, to FILE")
    parser.add_argument(
        "--update", type=Path, metavar="FILE", help="put these problems, and no others, into such a file"
    )
    parser.add_argument("--docs", action="store_true", help="redraw docs/leaderboard.md and its figure")
    parser.add_argument("--redraw", type=Path, metavar="FILE", help="run nothing: redraw docs from such a JSON file")
    options = parser.parse_args()
    for word in options.contender or ():
        if not any(word.lower() in contender.name.lower() for contender in CONTENDERS):
            parser.error(f"--contender: must be in one of the names {[one.name for one in CONTENDERS]}, got {word!r}")
    return options


def _half_of_memory() -> float:
    """Return half of this machine's memory in GB; 8 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2e9
    except (AttributeError, ValueError, OSError):
        return 8.0


def _command() -> str:
    """Return the command that is running; folders of this machine are left out."""
    words = ["python -m benchmarks.leaderboard"]
    given = iter(sys.argv[1:])
    for word in given:
        if word in ("--adult", "--scratch", "--json", "--update"):
            words.append(f"{word} …")
            next(given, None)
        else:
            words.append(word)
    return " ".join(words)


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()

"""Tampering with a plan's folder: every alteration of a file, every file that goes or comes, is named by the audit.

Journals that somebody made up (`journals`) have no command change what it may not.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from typer.testing import CliRunner

from oar.cli import app

from .journals import JOURNALS, Journal, finished, read_only
from .kills import people
from .tally import Tally, parser

ASKS = ["--target", "approved", "--query", "3", "--goal", "yes", "--budget", "0.5", "--plain"]
PLANS = {
    "moves": [*ASKS, "--model", "nearest-centroid"],
    "labels and leavers": [*ASKS, "--relabel", "2", "--withhold", "2", "--model", "softmax"],
}


def made(place: Path, kind: str) -> Path:
    """Write a plan, and return its folder."""
    people(place / "people.csv")
    out = place / "plan"
    said = CliRunner().invoke(app, ["plan", str(place / "people.csv"), *PLANS[kind], "--out", str(out)])
    assert said.exit_code == 0, said.output
    return out


def audited(folder: Path, data: Path) -> tuple[int, str]:
    """Return how the audit ends, and what it says."""
    said = CliRunner().invoke(app, ["audit", str(folder), str(data)])
    failed = said.exception is not None and not isinstance(said.exception, SystemExit)
    return (-1 if failed else said.exit_code), said.output + (repr(said.exception) if failed else "")


def flipped(path: Path, draw: random.Random) -> None:
    content = bytearray(path.read_bytes())
    place = draw.randrange(len(content))
    content[place] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def cut(path: Path, draw: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: draw.randrange(len(content))])


def longer(path: Path, draw: random.Random) -> None:
    path.write_bytes(path.read_bytes() + draw.choice([b"\n", b" ", b"0", b"x"]))


def lines_gone(path: Path, draw: random.Random) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    start = draw.randrange(len(lines))
    del lines[start : start + draw.randint(1, 100)]
    path.write_bytes(b"".join(lines))


def line_twice(path: Path, draw: random.Random) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines.insert(draw.randrange(len(lines)), draw.choice(lines))
    path.write_bytes(b"".join(lines))


def gone(path: Path, draw: random.Random) -> None:
    path.unlink()


def renamed(path: Path, draw: random.Random) -> None:
    path.rename(path.with_name(f"old-{path.name}"))


def added(path: Path, draw: random.Random) -> None:
    shutil.copy(path, path.with_name(f"{draw.randrange(1000)}-{path.name}"))


def a_folder(path: Path, draw: random.Random) -> None:
    path.unlink()
    path.mkdir()


def another_number(path: Path, draw: random.Random) -> None:
    """Change one digit, as who wants to stay within the limits would."""
    content = bytearray(path.read_bytes())
    digits = [place for place, byte in enumerate(content) if 0x30 <= byte <= 0x38]
    if digits:
        content[draw.choice(digits)] += 1
    path.write_bytes(content)


WAYS: tuple[Callable[[Path, random.Random], None], ...] = (
    flipped,
    cut,
    longer,
    lines_gone,
    line_twice,
    gone,
    renamed,
    added,
    a_folder,
    another_number,
)


def attack(tally: Tally, plan: Path, data: Path, draw: random.Random) -> None:
    """Alter a copy of a plan in one way, and see whether the audit names the file and ends with 1."""
    names = sorted(os.listdir(plan))
    name, way = draw.choice(names), draw.choice(WAYS)
    with tempfile.TemporaryDirectory(prefix="oar-tampering-") as place:
        copy = Path(place) / "plan"
        shutil.copytree(plan, copy)
        before = {each: (copy / each).read_bytes() for each in names}
        way(copy / name, draw)
        same = sorted(os.listdir(copy)) == names and all(
            (copy / each).is_file() and (copy / each).read_bytes() == before[each] for each in names
        )
        code, said = audited(copy, data)
    tally.note(
        code == (0 if same else 1) and (same or name in said), f"{way.__name__} of {name}: exit {code}, {said[-300:]}"
    )


def with_journal(tally: Tally, plan: Path, data: Path, journal: Journal, draw: random.Random) -> None:
    """Put a journal that somebody made up into a copy of a plan, and have commands read it, and write there."""

    def commands(copy: Path) -> Iterator[str]:
        settled = journal.__name__ == "unfinished_elsewhere"  # which is no part of the plan, and holds up nobody
        asks = [["audit", str(copy), str(data)], ["respond", str(copy / "plan.json"), str(data)]]
        asks.append(["audit", str(copy / "plan.json"), str(data), "--target", "approved", "--query", "3"])
        for ask in asks:
            said = CliRunner().invoke(app, ask)
            failed = said.exception is not None and not isinstance(said.exception, SystemExit)
            told = (
                said.output.startswith("oar: ") and said.output.count("\n") == 1 and "files of two runs" in said.output
            )
            yield (
                "" if not failed and (settled or (said.exit_code == 1 and told)) else f"{ask[0]}: {said.output[-300:]}"
            )

    for name, attacked in (("read", lambda at: read_only(at, plan, journal, commands)),
                           ("written to", lambda at: finished(at, plan, journal, draw))):  # fmt: skip
        with tempfile.TemporaryDirectory(prefix="oar-tampering-") as place:
            wrong = attacked(Path(place))
        tally.note(wrong is None, f"{journal.__name__}, {name}: {wrong}")


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign."""
    options = parser("tampering", __doc__ or "").parse_args(arguments)
    minutes = 2.0 if options.minutes is None and options.number is None else options.minutes
    tally, draw = Tally("tampering", minutes=minutes, number=options.number), random.Random(options.seed)
    place = Path(tempfile.mkdtemp(prefix="oar-tampering-"))
    try:
        plans = []
        for number, kind in enumerate(PLANS):
            home = place / str(number)
            home.mkdir()
            plan, data = made(home, kind), home / "people.csv"
            code, said = audited(plan, data)
            tally.note(code == 0 and "NOT" not in said, f"{kind}, as it was delivered: exit {code}, {said}")
            plans.append((plan, data))
        for journal in JOURNALS:
            with_journal(tally, *plans[0], journal, draw)
        while tally.goes_on():
            attack(tally, *draw.choice(plans), draw)
    finally:
        shutil.rmtree(place)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())

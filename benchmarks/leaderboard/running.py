"""One contender on one problem: a process of its own with limits on time and memory, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environments import RUNNERS, NoEnvironment, environment, last_line
from benchmarks.leaderboard.contenders import Contender
from benchmarks.leaderboard.problems import Entry
from benchmarks.leaderboard.referee import Referee, Verdict
from benchmarks.leaderboard.streamed import StreamedReferee

START_UP = 60.0  # seconds for imports, reading, writing and OAR's audit, beside the time that is allowed
A_MILLION_MORE = 3.0  # further seconds of that for each million people
LOOK_EVERY = 0.1  # seconds
MANY = 300_000  # people: from here on there is twice the time, and fewer moments are kept and judged
FEW_MOMENTS, MOMENTS = 3, 8


@dataclass(frozen=True)
class Moment:
    """Where a contender was at some time: seconds and passes so far, and what the referee says of its moves."""

    seconds: float
    passes: float
    verdict: Verdict


@dataclass(frozen=True)
class Run:
    """What came of one contender on one problem.

    Attributes:
        moments: from the first to the answer; none where there was nothing to judge.
        peak: the most memory that its process held, in bytes; None where the system does not say.
        ended: why there was no more to come; "" where its time was over.
        skipped: why it did not run, or failed; "" where it ran.
        facts: what it says of itself.
        versions: of what it ran with.
    """

    contender: str
    problem: str
    moments: list[Moment] = field(default_factory=list)
    peak: float | None = None
    ended: str = ""
    skipped: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Allowance:
    """How much a contender may take: seconds, and bytes of memory."""

    seconds: float
    memory: float

    def of(self, entry: Entry) -> Allowance:
        """Return what it is for a problem: many people have twice the time."""
        return replace(self, seconds=2 * self.seconds) if entry.size >= MANY else self


def run(
    contender: Contender, entry: Entry, problem: Path, referee: Referee | StreamedReferee, allowance: Allowance
) -> Run:
    """Run a contender on a problem's file, and have its moments judged."""
    reason = _reason_against(contender, entry, problem, allowance)
    if reason:
        return Run(contender.name, entry.name, skipped=reason)
    try:
        python = _python(contender)
    except NoEnvironment as error:
        return Run(contender.name, entry.name, skipped=str(error))
    with tempfile.TemporaryDirectory(dir=problem.parent) as name:
        folder = Path(name)
        spacing = 1.6 if entry.size >= MANY else 1.2
        task = {"problem": str(problem), "seconds": allowance.seconds, "spacing": spacing}
        (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")
        command = [python, str(RUNNERS / contender.runner), str(folder), *contender.told]
        besides = START_UP + A_MILLION_MORE * entry.size / 1e6
        trouble, peak = _watched(command, folder, allowance, besides, _surroundings(contender))
        return _judged(contender, entry, folder, referee, trouble, peak)


def _reason_against(contender: Contender, entry: Entry, problem: Path, allowance: Allowance) -> str:
    """Return why a contender is not even tried; "" if it is."""
    if contender.only is not None and entry.name not in contender.only:
        return f"not tried: {contender.cannot}"
    if contender.needs(entry) > allowance.memory and not contender.streams:
        return f"not tried: needs about {contender.needs(entry) / 1e9:.0f} GB"
    if problem.suffix != ".npz" and not contender.streams:
        return f"not tried: reads arrays only, and would need about {contender.needs(entry) / 1e9:.0f} GB"
    return ""


def _python(contender: Contender) -> str:
    if contender.environment is None:
        return sys.executable
    return str(environment(contender.environment, contender.pins_only))


def _surroundings(contender: Contender) -> dict[str, str]:
    """Return environment variables: no path leads out of a peer's environment, and ours leads to this very OAR."""
    found = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if contender.environment is None:
        import oar

        found["PYTHONPATH"] = str(Path(oar.__file__).resolve().parents[1])
    return found


def _watched(
    command: list[str], folder: Path, allowance: Allowance, besides: float, surroundings: dict[str, str]
) -> tuple[str, float | None]:
    """Run a command to its end or its limits; return what went wrong, and the most memory that was seen.

    It gets a group of its own, so that whatever it starts ends with it: at a limit, and when we are interrupted.
    """
    peak, until = None, time.monotonic() + allowance.seconds + besides
    with open(folder / "stderr", "w+", encoding="utf-8") as complaints:
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
            cwd=folder,
            env=surroundings,
            start_new_session=True,
        )
        trouble = ""
        try:
            while process.poll() is None:
                held, most = _resident(process.pid)
                peak = max(peak or 0.0, most) if most else peak
                if held > allowance.memory:
                    trouble = f"stopped: held more than {allowance.memory / 1e9:.2g} GB"
                    break
                if time.monotonic() > until:
                    trouble = "time"
                    break
                time.sleep(LOOK_EVERY)
        finally:
            _end(process)
        if not trouble and process.returncode:
            complaints.seek(0)
            trouble = f"failed: {last_line(complaints.read())}"
    return trouble, peak


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that we started, and whatever it started in turn."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _resident(pid: int) -> tuple[float, float]:
    """Return how much a process holds, and the most it ever held; zeros where the system does not say."""
    found = {"VmRSS": 0.0, "VmHWM": 0.0}
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in found:
                found[name] = int(rest.split()[0]) * 1024.0
    return found["VmRSS"], found["VmHWM"]


def _judged(
    contender: Contender,
    entry: Entry,
    folder: Path,
    referee: Referee | StreamedReferee,
    trouble: str,
    peak: float | None,
) -> Run:
    """Have what a contender left behind judged."""
    started, ended = (_read(folder / f"{name}.json") for name in ("started", "ended"))
    lines = _read_lines(folder / "journal.jsonl")
    why, moments = ended.pop("ended", ""), []
    for line in chosen(lines, FEW_MOMENTS if entry.size >= MANY else MOMENTS):
        file = folder / line["file"]
        verdict = referee.judge(file) if isinstance(referee, StreamedReferee) else referee.judge(np.load(file))
        moments.append(Moment(line["seconds"], line["passes"], verdict))
    peaks = [most for most in (peak, *(line["peak"] for line in lines)) if most]
    failed = trouble if trouble != "time" else ""
    return Run(
        contender.name,
        entry.name,
        moments,
        max(peaks, default=None),
        why or failed,
        "" if moments else failed or why or "nothing was finished in its time",
        ended,
        started.get("versions", {}),
    )


def chosen(lines: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Return at most so many of a journal's lines, from the first to the last."""
    places = np.unique(np.linspace(0, len(lines) - 1, min(most, len(lines))).round().astype(int)) if lines else []
    return [lines[place] for place in places]


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):  # it was ended before, or while, it wrote this
        return {}


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the journal's whole lines; a contender that is ended may leave half a one."""
    if not path.exists():
        return []
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        with suppress(json.JSONDecodeError):
            lines.append(json.loads(line))
    return lines

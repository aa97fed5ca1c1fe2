"""The command: every campaign, or those that are named, one after another, each in a process of its own."""

from __future__ import annotations

import argparse
import ast
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from .tally import CLOSING

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MINUTES = 30.0
GRACE = 10.0  # minutes beyond its share after which a campaign counts as hanging: it may begin with an installation


@dataclass(frozen=True)
class Outcome:
    """What came of one campaign."""

    name: str
    tried: int | None
    failed: int | None
    seconds: float
    code: int

    @property
    def held(self) -> bool:
        """Whether it ended as a campaign does that found nothing; one that tried nothing has shown nothing."""
        return self.code == 0 and self.failed == 0 and bool(self.tried)


def campaigns(folder: Path = HERE) -> list[str]:
    """Return the names of all modules of the folder that define `main`, without importing them."""
    names = []
    for path in sorted(folder.glob("*.py")):
        if not path.name.startswith(("_", "test_")):
            body = ast.parse(path.read_text(encoding="utf-8")).body
            if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in body):
                names.append(path.stem)
    return names


def run(name: str, *, seed: int, minutes: float, package: str = "tests.campaigns", folder: Path = ROOT) -> Outcome:
    """Run one campaign in a process, repeat what it prints, and read its closing line."""
    command = [sys.executable, "-m", f"{package}.{name}", "--seed", str(seed), "--minutes", f"{minutes:.3g}"]
    began = time.monotonic()
    running = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, start_new_session=True)
    hanging = threading.Timer(60 * (minutes + GRACE), os.killpg, (running.pid, signal.SIGKILL))
    hanging.start()
    said = ""
    assert running.stdout is not None
    try:
        for line in running.stdout:
            print(line, end="", flush=True)
            said += line
        running.wait()
    except BaseException:
        os.killpg(running.pid, signal.SIGTERM)
        running.wait()
        raise
    finally:
        hanging.cancel()
        running.stdout.close()
    closing = [found for found in CLOSING.finditer(said) if found["name"].replace("-", "_") == name]
    tried, failed = (int(closing[-1]["tried"]), int(closing[-1]["failed"])) if closing else (None, None)
    return Outcome(name, tried, failed, time.monotonic() - began, running.returncode)


def table(outcomes: list[Outcome]) -> str:
    """Return the counts as lines of text; a campaign that ended without its closing line says so."""
    lines = [f"{'campaign':<16}{'tried':>9}{'failed':>9}{'seconds':>10}"]
    for outcome in outcomes:
        tried, failed = ("?" if count is None else count for count in (outcome.tried, outcome.failed))
        told = "" if outcome.held or outcome.failed else f"  ended with code {outcome.code}"
        lines.append(f"{outcome.name:<16}{tried:>9}{failed:>9}{outcome.seconds:>10.0f}{told}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for and return 1 if anything failed."""
    known = campaigns()
    parsing = argparse.ArgumentParser(prog="python -m tests.campaigns", description=__doc__)
    parsing.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(known)}; all of them by default")
    parsing.add_argument("--seed", type=int, default=0, help="where the draws begin")
    parsing.add_argument("--minutes", type=float, default=MINUTES, help="how long in all (default %(default)g)")
    asked = parsing.parse_args(arguments)
    if unknown := sorted(set(asked.names) - set(known)):
        parsing.error(f"no campaign {', '.join(unknown)}; there are {', '.join(known)}")
    names = asked.names or known
    outcomes: list[Outcome] = []
    until = time.monotonic() + 60 * asked.minutes
    for number, name in enumerate(names):  # what one leaves of its share is the others'
        share = max((until - time.monotonic()) / 60, 0.1 * asked.minutes) / (len(names) - number)
        print(f"== {name}, {share:.1f} minutes", flush=True)
        outcomes.append(run(name, seed=asked.seed, minutes=share))
    print(table(outcomes))
    return 0 if outcomes and all(outcome.held for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())

"""What all campaigns share: their arguments, their time, and the count of what was tried and what failed."""

from __future__ import annotations

import argparse
import re
import sys
import time

CLOSING = re.compile(r"^(?P<name>[\w-]+): tried (?P<tried>\d+), failed (?P<failed>\d+)\s*$", re.MULTILINE)


def parser(name: str, what: str) -> argparse.ArgumentParser:
    """Return a parser of the arguments that every campaign takes."""
    parsing = argparse.ArgumentParser(prog=f"python -m tests.campaigns.{name}", description=what)
    parsing.add_argument("--seed", type=int, default=0, help="where the draw begins")
    parsing.add_argument("--minutes", type=float, default=None, help="how long to go on")
    parsing.add_argument("--number", type=int, default=None, help="how many cases to try at most")
    return parsing


class Tally:
    """Counts of a campaign: `while tally.goes_on(): …; tally.note(held, "what was tried")`; `return tally.close()`."""

    def __init__(self, name: str, *, minutes: float | None = None, number: int | None = None) -> None:
        self.name = name
        self.tried = 0
        self.failures: list[str] = []
        self._number = number
        self._until = None if minutes is None else time.monotonic() + 60 * minutes

    def goes_on(self) -> bool:
        """Return whether there is time, and number, for another case."""
        if self._number is not None and self.tried >= self._number:
            return False
        return self._until is None or time.monotonic() < self._until

    def note(self, held: bool, what: str = "") -> bool:
        """Count a case; one that did not hold is told at once."""
        self.tried += 1
        if not held:
            self.failures.append(what)
            print(f"{self.name}: FAILED {what}", flush=True)
        return held

    def close(self) -> int:
        """Print the closing line, from which the driver reads the counts, and return the exit code."""
        sys.stderr.flush()
        print(f"{self.name}: tried {self.tried}, failed {len(self.failures)}", flush=True)
        return 1 if self.failures else 0

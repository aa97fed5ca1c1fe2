"""The report of conformance checks."""

from __future__ import annotations

from dataclasses import dataclass

from oar.errors import OARError


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: what was checked.
        passed: True, False, or None where an earlier failure left nothing to check.
        detail: what was measured, or what went wrong.
        advice: what to do about it; empty if it passed.
    """

    name: str
    passed: bool | None
    detail: str
    advice: str = ""

    def __str__(self) -> str:
        """Show one line, and the advice on a second."""
        mark = {True: "passed", False: "FAILED", None: "not run"}[self.passed]
        return f"{mark:8} {self.name}: {self.detail}" + (f"\n         → {self.advice}" if self.advice else "")


@dataclass(frozen=True)
class Report:
    """All checks of one model, in the order in which they were made.

    >>> print(Report("mine", (Check("loss", False, "got nan.", "Look for logarithms of zero."),)))
    mine: 1 of 1 checks did not pass.
    FAILED   loss: got nan.
             → Look for logarithms of zero.
    """

    model: str
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that failed (not those that were not run)."""
        return tuple(check for check in self.checks if check.passed is False)

    def __str__(self) -> str:
        """Show everything."""
        wrong = sum(not check.passed for check in self.checks)
        total = len(self.checks)
        head = f"all {total} checks passed." if not wrong else f"{wrong} of {total} checks did not pass."
        return "\n".join([f"{self.model}: {head}", *map(str, self.checks)])


class ConformanceError(OARError):
    """A model that fails a check; `report` says which, and what to do."""

    def __init__(self, report: Report) -> None:
        """Keep the report and show it."""
        super().__init__(str(report))
        self.report = report

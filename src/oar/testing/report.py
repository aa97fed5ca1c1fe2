"""Conformance checks one after the other, and their report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from oar.errors import OARError

Case = TypeVar("Case")
Listed = Sequence[tuple[str, Callable[[Case], str], tuple[str, ...]]]


class Fault(Exception):
    """A promise that is not kept: what went wrong, and what to do. A check that finds none returns what it measured."""

    def __init__(self, detail: str, advice: str) -> None:
        super().__init__(detail)
        self.detail, self.advice = detail, advice


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
        wrong = sum(not check.passed for check in self.checks)
        total = len(self.checks)
        head = f"all {total} checks passed." if not wrong else f"{wrong} of {total} checks did not pass."
        return "\n".join([f"{self.model}: {head}", *map(str, self.checks)])


class ConformanceError(OARError):
    """A model that fails a check; `report` says which, and what to do."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


def compared(
    what: str, derivative: float, differences: Iterable[float], scale: float, agreement: float, advice: str
) -> str:
    """Raise unless a derivative agrees with one of some differences, relative to them or to the `scale` of terms."""
    found = math.nan
    for found in differences:
        error = abs(derivative - found) / max(abs(derivative), abs(found), scale, 1e-300)
        if error <= agreement:  # which NaN is not
            return f"agrees with finite differences to {error:.0e}."
    raise Fault(f"{what} is {derivative:.6g}, finite differences say {found:.6g}.", advice)


def usual_advice(reason: Exception) -> str:
    """Return what to do about an error: ours say so themselves."""
    ours = isinstance(reason, OARError)
    return "Change what the message names." if ours else "Its own code raised this; mend it there."


def checked(
    name: str, case: Case, checks: Listed[Case], raises: bool, advice: Callable[[Exception], str] = usual_advice
) -> Report:
    """Return the report of all checks; raise it where one failed and `raises`. `advice` is on errors of other kinds."""
    done: dict[str, Check] = {}
    for title, check, needs in checks:
        missing = [need for need in needs if not done[need].passed]
        done[title] = (
            Check(title, None, f"{missing[0]!r} must pass first.") if missing else _run(title, check, case, advice)
        )
    report = Report(name, tuple(done.values()))
    if raises and not report.passed:
        raise ConformanceError(report)
    return report


def _run(title: str, check: Callable[[Case], str], case: Case, advice: Callable[[Exception], str]) -> Check:
    try:
        return Check(title, True, check(case))
    except Fault as reason:
        return Check(title, False, reason.detail, reason.advice)
    except NotImplementedError as reason:
        return Check(title, False, str(reason) or "a method is missing.", advice(reason))
    except OARError as reason:
        return Check(title, False, str(reason), advice(reason))
    except Exception as reason:  # an author's own code can raise anything; the report must still list the rest
        return Check(title, False, f"{type(reason).__name__}: {reason}", advice(reason))

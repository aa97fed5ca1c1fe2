"""Checks one after the other: those whose needs have not passed are not run, and an author's own code may raise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from oar.errors import OARError
from oar.testing.checks import Fault
from oar.testing.report import Check, ConformanceError, Report

Case = TypeVar("Case")
Listed = Sequence[tuple[str, Callable[[Case], str], tuple[str, ...]]]


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

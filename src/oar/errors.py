"""Exceptions, one type for one mistake, and `Status`, which says how a result stands.

    DataError        a value that is wrong by itself: of another type or shape, out of range, not finite, missing; or a
                     column, class or person that the data do not have
    OptionError      a choice that is not there or does not go: a name that is not one of the known, an option that does
                     nothing or contradicts another, a question that does not apply to this problem, limits that
                     cannot be read, a package that is not installed
    NumericsError    a computation that cannot be trusted
    EstimatorError   a model of somebody else's that failed
    StorageError     a file that is missing, damaged, of another version, or cannot be written
    EngineError      workers that were lost

So the mistake decides, not the argument: `seed=-1` and `budget=-1` are both a `DataError`, `solver="exakt"` and a
signal for a model that has none are both an `OptionError`. All are an `OARError`, and the first two a `ValueError`.
Every message follows one grammar: the argument's name, what it must be, what was got, what to do.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

__all__ = [
    "DataError",
    "EngineError",
    "EstimatorError",
    "NumericsError",
    "OARError",
    "OptionError",
    "StorageError",
]


class OARError(Exception):
    """Base of every error that this package raises on purpose."""


class DataError(OARError, ValueError):
    """A value that is wrong by itself (type, shape, range, missing), or a name that the data do not have."""


class OptionError(OARError, ValueError):
    """A choice that is not known, does nothing, contradicts another one, or does not apply to this problem."""


class NumericsError(OARError, ArithmeticError):
    """A computation that cannot be trusted: a singular or indefinite Hessian, a series that diverges."""


class EstimatorError(OARError, RuntimeError):
    """Somebody else's model that failed when it was trained or asked, with what it said.

    Attributes:
        plan: the plan that had been made when the audit of it failed; None where there was none.
    """

    def __init__(self, message: str, plan: Any = None) -> None:
        super().__init__(message)
        self.plan = plan


class StorageError(OARError, OSError):
    """A file that is missing, damaged, of another version, or that cannot be written."""


class EngineError(OARError, RuntimeError):
    """Whoever does the work on people in parts was lost: a scheduler, or one worker after the other."""


class Status(StrEnum):
    """The status of a result. `status.advice` says what it means and what to do next.

    >>> Status.ACHIEVED
    <Status.ACHIEVED: 'achieved'>
    >>> Status.ACHIEVED.advice
    'A fresh refit on the moved data gives the query the goal prediction.'
    """

    advice: str

    def __new__(cls, value: str, advice: str) -> Status:
        member = str.__new__(cls, value)
        member._value_ = value
        member.advice = advice
        return member

    ACHIEVED = "achieved", "A fresh refit on the moved data gives the query the goal prediction."
    ALREADY = "already", "The query has the goal prediction without any move."
    IMPROVED = (
        "improved",
        "The goal loss fell, but the goal was not reached, and nothing proves that it cannot be: "
        "allow larger budgets, let more people act, or try another solver.",
    )
    NOT_IMPROVED = (
        "not improved",
        "The goal loss did not fall. With a zero budget or no participants nothing can move; "
        "otherwise try another solver.",
    )
    IMPOSSIBLE = (
        "impossible",
        "Proved: no moves within these limits reach the goal.",
    )
    NOT_FOUND = (
        "not found",
        "Nothing that was tried does what was asked, and nothing proves that it cannot be done: "
        "allow larger budgets, let more people act, or try another solver.",
    )
    STOPPED_EARLY = (
        "stopped early",
        "The solver ended before its certificate closed; this is the best point it saw.",
    )
    NOT_CONVERGED = (
        "not converged",
        "A refit did not come to an end, so no loss and no prediction are reported, and nothing is claimed. "
        "Give the model a larger penalty, put features on similar scales, or check that its loss has a minimum.",
    )
    REFUSED = (
        "refused",
        "The audit found moves that break a limit, so nothing is claimed. Whoever wrote the solver or action must mend "
        "it; if that is not you, please report this as a bug.",
    )

"""Arguments: what kind of value each must be, asked in one place and refused in one wording."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any, TypeGuard, TypeVar

import numpy as np

from oar.errors import DataError

Kind = TypeVar("Kind")
FLAGS = bool | np.bool_


def is_number(value: Any) -> TypeGuard[float]:
    """Report whether a value is a number, Python's or NumPy's; True and False are none.

    >>> [is_number(value) for value in (1, 0.5, True, "1", None)]
    [True, True, False, False, False]
    """
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_whole(value: Any) -> TypeGuard[int]:
    """Report whether a value is an integer, Python's or NumPy's; True and False are none.

    >>> [is_whole(value) for value in (1, 1.0, True)]
    [True, False, False]
    """
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_flag(value: Any) -> TypeGuard[bool]:
    """Report whether a value is True or False, Python's or NumPy's."""
    return isinstance(value, FLAGS)


def is_text(value: Any) -> TypeGuard[str]:
    """Report whether a value is a text with something in it.

    >>> [is_text(value) for value in ("a", "", 1)]
    [True, False, False]
    """
    return isinstance(value, str) and value != ""


def is_listing(value: Any) -> bool:
    """Report whether a value holds several others in an order: no text, and no mapping of names.

    >>> [is_listing(value) for value in ([1], (1, 2), np.ones(2), "12", {1: 2}, 1)]
    [True, True, True, False, False, False]
    """
    return np.iterable(value) and not isinstance(value, str | bytes | Mapping)


def check_whole(argument: str, value: Any, least: int = 1) -> int:
    """Return an integer; raise unless it is one, and at least `least`.

    >>> check_whole("draws", 2.5, 4)
    Traceback (most recent call last):
    oar.errors.DataError: draws: must be a whole number of at least 4, got 2.5.
    """
    if not is_whole(value) or value < least:
        raise DataError(f"{argument}: must be a whole number of at least {least}, got {value!r}.")
    return int(value)


def check_kind(argument: str, value: Any, kind: type[Kind], called: str) -> Kind:
    """Return a value of a class; raise unless it is one, with what the class is called.

    >>> check_kind("people", [1, 2], dict, "an oar.Population(…)")
    Traceback (most recent call last):
    oar.errors.DataError: people: must be an oar.Population(…), got an object of type list.
    """
    if not isinstance(value, kind):
        raise DataError(f"{argument}: must be {called}, got an object of type {type(value).__name__}.")
    return value

"""Arguments: what kind of value each must be, which names are known, what must be installed, in one wording.

Arrays that are handed in are the caller's, and those that are handed out ours: nobody writes through them.
"""

from __future__ import annotations

import difflib
import functools
import importlib.util
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError, OptionError

Kind = TypeVar("Kind")
Number = TypeVar("Number", bound=np.generic)
Made = TypeVar("Made", bound=Callable[..., Any])
NEAR = 2 / 3  # how alike a name must be to be guessed, by difflib's ratio: as "aeg" is to "age", and no less
FLAGS = (bool, np.bool_)
WHOLE = (int, np.integer)
NUMBERS = (*WHOLE, float, np.floating)


def is_number(value: Any) -> TypeGuard[float]:
    """Report whether a value is a number, Python's or NumPy's; True and False are none.

    Nor are exact fractions (`fractions.Fraction`, `decimal.Decimal`), which arrays would hold as objects: float(x) of
    one is a number.

    >>> [is_number(value) for value in (1, 0.5, True, "1", None)]
    [True, True, False, False, False]
    """
    return isinstance(value, NUMBERS) and not isinstance(value, bool)


def is_whole(value: Any) -> TypeGuard[int]:
    """Report whether a value is an integer, Python's or NumPy's; True and False are none.

    >>> [is_whole(value) for value in (1, 1.0, True)]
    [True, False, False]
    """
    return isinstance(value, WHOLE) and not isinstance(value, bool)


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


def read_only(values: NDArray[Number]) -> NDArray[Number]:
    """Return an array through which nobody can write: a view, not a copy."""
    if values.flags.writeable:
        values = values.view()
        values.flags.writeable = False
    return values


def real_numbers(values: Any) -> NDArray[np.float64]:
    """Return numbers as float64; raise a TypeError for complex ones, whose imaginary parts NumPy would drop."""
    raw = np.asarray(values)
    parts = raw.flat if raw.dtype.kind == "O" else (raw,)
    if any(np.iscomplexobj(part) for part in parts):
        raise TypeError("complex numbers")
    return np.asarray(raw, dtype=np.float64)


def check_that(holds: Any, argument: str, wanted: str, got: Any) -> None:
    """Refuse a value that is not what it must be.

    >>> check_that(1.5 <= 1, "share", "at most 1", 1.5)
    Traceback (most recent call last):
    oar.errors.DataError: share: must be at most 1, got 1.5.
    """
    if not holds:
        raise DataError(f"{argument}: must be {wanted}, got {got!r}.")


def check_whole(argument: str, value: Any, least: int = 1) -> int:
    """Return an integer; raise unless it is one, and at least `least`.

    >>> check_whole("draws", 2.5, 4)
    Traceback (most recent call last):
    oar.errors.DataError: draws: must be a whole number of at least 4, got 2.5.
    """
    check_that(is_whole(value) and value >= least, argument, f"a whole number of at least {least}", value)
    return int(value)


def check_not_negative(argument: str, value: Any) -> None:
    """Refuse anything but a finite number of at least 0.

    >>> check_not_negative("l2", "0.1")
    Traceback (most recent call last):
    oar.errors.DataError: l2: must be a number of at least 0, got '0.1'.
    """
    check_that(is_number(value) and 0 <= value < math.inf, argument, "a number of at least 0", value)


def check_seed(value: Any) -> None:
    """Refuse anything but a whole number of at least 0."""
    check_whole("seed", value, 0)


def check_flag(argument: str, value: Any) -> None:
    """Refuse anything but True or False.

    >>> check_flag("penalise_intercept", "no")
    Traceback (most recent call last):
    oar.errors.DataError: penalise_intercept: must be True or False, got 'no'.
    """
    check_that(is_flag(value), argument, "True or False", value)


def check_kind(argument: str, value: Any, kind: type[Kind], called: str) -> Kind:
    """Return a value of a class; raise unless it is one, with what the class is called.

    >>> check_kind("people", [1, 2], dict, "an oar.Population(…)")
    Traceback (most recent call last):
    oar.errors.DataError: people: must be an oar.Population(…), got an object of type list.
    """
    if not isinstance(value, kind):
        raise DataError(f"{argument}: must be {called}, got an object of type {type(value).__name__}.")
    return value


def need_jax(name: str) -> None:
    """Raise, with what to install, where JAX is not there."""
    # It is looked for, not imported: many a plan for a linear model never calls it.
    there = sys.modules["jax"] is not None if "jax" in sys.modules else importlib.util.find_spec("jax") is not None
    if not there:
        raise OptionError(f"model: {name} needs JAX, which is not installed; pip install 'oar-recourse[jax]'.")


def choose(argument: str, got: object, known: Iterable[str]) -> str:
    """Return `got` if it is one of the `known` names; otherwise raise, with the nearest name.

    >>> choose("solver", "exakt", ["exact", "paper"])
    Traceback (most recent call last):
    ...
    oar.errors.OptionError: solver: must be one of 'exact', 'paper', got 'exakt'. Did you mean 'exact'?
    """
    names = list(known)
    if isinstance(got, str) and got in names:
        return got
    listing = ", ".join(repr(name) for name in names)
    near = difflib.get_close_matches(str(got), names, n=1, cutoff=NEAR)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise OptionError(f"{argument}: must be one of {listing}, got {got!r}.{hint}")


def with_near_names(made: Made) -> Made:
    """Have a class or a function refuse arguments that it does not know, with those that it does, by an error of ours.

    >>> @with_near_names
    ... class Point:
    ...     def __init__(self, height: float = 0.0) -> None: ...
    >>> Point(hieght=1.0)
    Traceback (most recent call last):
    ...
    oar.errors.OptionError: Point: must be one of 'height', got 'hieght'. Did you mean 'height'?
    """
    called: Any = made.__init__ if isinstance(made, type) else made  # type: ignore[misc]
    name = made.__name__
    known = list(inspect.signature(called).parameters)[isinstance(made, type) :]  # less self

    @functools.wraps(called)
    def checked(*values: Any, **settings: Any) -> Any:
        for setting in settings:
            if not known:
                raise OptionError(f"{name}: takes no options, got {setting!r}; leave it out.")
            choose(name, setting, known)
        return called(*values, **settings)

    if not isinstance(made, type):
        return checked  # type: ignore[return-value]
    made.__init__ = checked  # type: ignore[misc]
    return made


def check_text(argument: str, value: object, instead: str = "correct it") -> None:
    """Refuse a text with half a character (a lone surrogate), which no file and no terminal can hold."""
    if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise DataError(f"{argument}: must be Unicode, got half a character in {value!r}; {instead}.")

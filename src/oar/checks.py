"""Arguments: what kind of value each must be, which names are known, what must be installed, in one wording.

Arrays that are handed in are the caller's, and those that are handed out ours: nobody writes through them.
"""

from __future__ import annotations

import difflib
import functools
import importlib.util
import inspect
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Set
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
LARGEST = sys.float_info.max
PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
HOUSE = {  # classes of ours that arguments are of, whatever is done with them: how one is come by
    "Population": "an oar.Population(…)",
    "Query": "an oar.Query(…)",
    "Keep": "an oar.Keep(…)",
    "Problem": "an oar.Problem(…)",
    "OnlineProblem": "an oar.OnlineProblem(…)",
    "Stream": "an oar.online.Stream, as oar.online.Stream.of_batches([…]) makes one",
    "Result": "a result, as oar.collective(problem) returns it",
    "Plan": "a plan, as result.plan is",
    "OnlinePlan": "a plan over rounds, as result.plan is for an oar.OnlineProblem(…)",
    "Card": "an oar.results.Card, as plan.card() or oar.results.Card.load(path) returns it",
    "World": "an oar.worlds.World(…)",
}
SINGLE = {"int", "float", "bool", "str", "SolverLike", "SignalLike", "Effort", "Label"}  # never arrays
PATHS = ({"FilePath"}, {"str", "Path"})
INSTEAD = {  # wanted, got: what to hand in
    ("Problem", "Result"): "hand in its problem, result.problem",
    ("OnlineProblem", "Result"): "hand in its problem, result.problem",
    ("Result", "Problem"): "hand in oar.collective(problem)",
    ("Plan", "Result"): "hand in its plan, result.plan",
    ("Problem", "Population"): "state a problem with oar.Problem(people, model, query, action)",
}


def is_number(value: Any) -> TypeGuard[float]:
    """Report whether a value is a number, Python's or NumPy's; True and False are none.

    Nor are exact fractions (`fractions.Fraction`, `decimal.Decimal`), which arrays would hold as objects: float(x) of
    one is a number.

    >>> [is_number(value) for value in (1, 0.5, True, "1", None)]
    [True, True, False, False, False]
    """
    return isinstance(value, NUMBERS) and not isinstance(value, bool) and not is_huge(value)


def is_whole(value: Any) -> TypeGuard[int]:
    """Report whether a value is an integer, Python's or NumPy's; True and False are none.

    >>> [is_whole(value) for value in (1, 1.0, True)]
    [True, False, False]
    """
    return isinstance(value, WHOLE) and not isinstance(value, bool) and not is_huge(value)


def is_huge(value: Any) -> bool:
    """Report whether a value is a whole number that no float can hold.

    >>> [is_huge(value) for value in (10**400, -(10**400), 10**300, 1e308, "1")]
    [True, True, False, False, False]
    """
    return isinstance(value, int) and value.bit_length() > sys.float_info.max_exp


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
    """Return numbers as float64; raise a TypeError where NumPy would drop something: imaginary parts, or a mask."""
    if np.ma.is_masked(values):
        raise TypeError("masked values; fill them first")
    raw = np.asarray(values)
    parts = raw.flat if raw.dtype.kind == "O" else (raw,)
    if any(np.iscomplexobj(part) for part in parts):
        raise TypeError("complex numbers")
    try:
        return np.asarray(raw, dtype=np.float64)
    except OverflowError:
        raise ValueError("whole numbers that no float can hold") from None


def check_that(holds: Any, argument: str, wanted: str, got: Any, remedy: str = "") -> None:
    """Refuse a value that is not what it must be.

    >>> check_that(1.5 <= 1, "share", "at most 1", 1.5, "1 is everyone")
    Traceback (most recent call last):
    oar.errors.DataError: share: must be at most 1, got 1.5; 1 is everyone.
    """
    if not holds:
        raise DataError(f"{argument}: must be {wanted}, got {got!r}{'; ' if remedy else ''}{remedy}.")


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


def check_number(argument: str, value: Any, above: float, below: float = math.inf) -> None:
    """Refuse anything but a finite number above `above` and below `below`.

    >>> check_number("share", 1.5, above=0, below=1)
    Traceback (most recent call last):
    oar.errors.DataError: share: must be a number above 0 and below 1, got 1.5.
    """
    bound = "" if below == math.inf else f" and below {below:g}"
    fits = is_number(value) and math.isfinite(value) and above < value < below
    check_that(fits, argument, f"a number above {above:g}{bound}", value)


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


def check_type(argument: str, value: Any, types: Set[str]) -> None:
    """Refuse a value that no parameter annotated with these names can mean.

    >>> check_type("seed", np.zeros(2), {"int"})
    Traceback (most recent call last):
    oar.errors.DataError: seed: must be a single value, got ndarray of shape (2,).
    """
    if is_huge(value):
        size = f"{value.bit_length():,} bits"
        raise DataError(f"{argument}: must not be beyond {LARGEST:.2g}, got a whole number of {size}.")
    shape: Any = getattr(value, "shape", ())
    if types <= SINGLE and shape:
        raise DataError(f"{argument}: must be a single value, got {type(value).__name__} of shape {shape}.")
    if types in PATHS:
        check_that(isinstance(value, str | os.PathLike), argument, "the path of a file or folder", value)
    if not types or not types <= HOUSE.keys():
        return
    got = [one.__name__ for one in type(value).__mro__]
    if not types & set(got):
        wanted = " or ".join(HOUSE[name] for name in sorted(types))
        instead = [INSTEAD[name, one] for name in sorted(types) for one in got if (name, one) in INSTEAD]
        advice = f"; {instead[0]}" if instead else ""
        raise DataError(f"{argument}: must be {wanted}, got an object of type {got[0]}{advice}.")


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
    """Have a class or a function refuse calls that do not fit it, by errors of ours.

    Refused are arguments that it does not know, with those that it does; arguments that are missing, with what they
    are; more of them than it takes; whole numbers that no float holds; arrays where the parameter's type is a single
    value; and objects of other types where it is one of `HOUSE`.

    >>> @with_near_names
    ... class Point:
    ...     def __init__(self, height: float = 0.0) -> None: ...
    >>> Point(hieght=1.0)
    Traceback (most recent call last):
    ...
    oar.errors.OptionError: Point: must be one of 'height', got 'hieght'. Did you mean 'height'?
    """
    called: Any = made.__init__ if isinstance(made, type) else made  # type: ignore[misc]
    gate = Gate(made, called)

    @functools.wraps(called)
    def checked(*values: Any, **settings: Any) -> Any:
        gate.check(values, settings)
        return called(*values, **settings)

    if not isinstance(made, type):
        return checked  # type: ignore[return-value]
    made.__init__ = checked  # type: ignore[misc]
    return made


class Gate:
    """The parameters of a class (those of its __init__) or a function, and what each call of it is held to."""

    def __init__(self, made: Any, called: Any) -> None:
        """Read them once, so that calls take little time."""
        parameters = inspect.signature(called).parameters
        self.name, self.documented = made.__name__, made
        self.own = own = int(next(iter(parameters), "") in ("self", "cls"))  # arguments that Python hands in
        shapes = {one.kind for one in parameters.values()}
        self.any_number = inspect.Parameter.VAR_POSITIONAL in shapes
        self.any_name = inspect.Parameter.VAR_KEYWORD in shapes
        single = {name: one for name, one in parameters.items() if one.kind in (*PLACED, *NAMED)}
        self.placed = tuple(name for name, one in single.items() if one.kind in PLACED)  # in their order, `own` too
        self.known = tuple(name for name, one in single.items() if one.kind in NAMED)[own:]
        self.needed = tuple(name for name, one in single.items() if one.default is one.empty)[own:]
        types = {name: frozenset(str(one.annotation).split(" | ")) for name, one in single.items()}
        self.may_be_none = frozenset(name for name, one in types.items() if "None" in one)
        self.types = {name: one - {"None"} for name, one in types.items()}

    def check(self, values: tuple[Any, ...], settings: Mapping[str, Any]) -> None:
        """Refuse a call with these arguments, unless it fits."""
        for setting in () if self.any_name else settings:
            if not self.known:
                raise OptionError(f"{self.name}: takes no options, got {setting!r}; leave it out.")
            choose(self.name, setting, self.known)
        if len(values) > len(self.placed) and not self.any_number:
            most, got = len(self.placed) - self.own, len(values) - self.own
            raise OptionError(f"{self.name}: must be called as {self}, got {got} arguments for {most} places.")
        given = dict(zip(self.placed, values, strict=False))
        for setting in settings:
            if setting in given:
                raise OptionError(f"{setting}: must be given once, got two values; call {self}.")
        given |= settings
        missing = [name for name in self.needed if name not in given]
        if missing:
            raise DataError(f"{', '.join(missing)}: must be given, got nothing; call {self}{self._said_of(missing)}.")
        for name, value in given.items():
            if value is not None or name not in self.may_be_none:
                check_type(name, value, self.types.get(name, frozenset()))

    def _said_of(self, missing: list[str]) -> str:
        """Say what the missing arguments are, by the docstring."""
        text = inspect.getdoc(self.documented) or ""
        ends = r"(?=[.;:]\s|\.?$(?!\n {8}))"
        found = {name: re.search(rf"^ *{name}: (.+?){ends}", text, re.MULTILINE | re.DOTALL) for name in missing}
        said = [f"{name}: {' '.join(one[1].split())}" for name, one in found.items() if one]
        return f", with {'; '.join(said)}" if said else ""

    def __str__(self) -> str:
        """Show how it is called."""
        shown = [name if name in self.needed else f"{name}=…" for name in self.known]
        return f"{self.name}({', '.join(shown)})"


def check_text(argument: str, value: object, instead: str = "correct it") -> None:
    """Refuse a text with half a character (a lone surrogate), which no file and no terminal can hold."""
    if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise DataError(f"{argument}: must be Unicode, got half a character in {value!r}; {instead}.")

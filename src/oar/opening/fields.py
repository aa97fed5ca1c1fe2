"""Fields of a document, each with its type: what is missing or of another kind is named, with what it must be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError

LARGEST = 1e100  # as in people's own tables: the squares of such numbers are numbers
SMALLEST = 1 / LARGEST  # of what something is divided by: quotients of such numbers are numbers
MOST_SHOWN = 60
NAMED: dict[type, str] = {list: "list", dict: "mapping"}


class Fields:
    """A mapping that was read from a file.

    >>> Fields({"budget": None}).number("budget", least=0)
    Traceback (most recent call last):
    oar.errors.DataError: field "budget" must be a finite number ≥ 0 (and at most 1e+100), got null
    """

    def __init__(self, content: Any, place: str = "") -> None:
        if not isinstance(content, dict):
            raise DataError(
                f"{_called(place) if place else 'it'} must be a mapping of names to values, got {said(content)}"
            )
        self._content, self._place = content, place

    def __contains__(self, name: str) -> bool:
        return name in self._content

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def get(self, name: str, otherwise: Any = None) -> Any:
        """Return what a field holds, or something else where it is not there."""
        return self._content.get(name, otherwise)

    def any(self, name: str) -> Any:
        """Return what a field holds, whatever it is; it must be there."""
        if name not in self._content:
            raise DataError(f"{_called(self._at(name))} is missing")
        return self._content[name]

    def text(self, name: str) -> str:
        """Return a text."""
        return self._of(name, str, "a text")

    def flag(self, name: str) -> bool:
        """Return true or false."""
        return self._of(name, bool, "true or false")

    def whole(self, name: str, least: int, most: int) -> int:
        """Return a whole number within bounds."""
        kind = f"a whole number from {least} to {most}"
        return self._of(name, int, kind, lambda value: least <= value <= most)

    def number(self, name: str, least: float = -LARGEST, most: float = LARGEST) -> float:
        """Return a finite number within bounds."""
        bounds = f"a finite number of at most ±{most:g}"
        if least > -LARGEST:
            bounds = f"a finite number ≥ {least:g} (and at most {most:g})"
        return float(self._checked(name, bounds, lambda value: is_number(value) and least <= value <= most))

    def perhaps(self, name: str, otherwise: float, least: float = -LARGEST) -> float:
        """Return a finite number, or another one for null."""
        return otherwise if self.any(name) is None else self.number(name, least)

    def listed(self, name: str) -> list[Any]:
        """Return a list."""
        return self._of(name, list, "a list")

    def texts(self, name: str) -> list[str]:
        """Return a list of texts."""
        return self._of(name, list, "a list of texts", lambda value: {str}.issuperset(map(type, value)))

    def vector(self, name: str, size: int) -> NDArray[np.float64]:
        """Return so many finite numbers."""
        kind = f"a list of {size:,} finite numbers"
        value = self._of(name, list, kind, lambda value: len(value) == size)
        return np.array(self._checked(name, kind, lambda _: _numbers(value)), dtype=np.float64)

    def rows(self, name: str, number: int) -> NDArray[np.float64]:
        """Return so many rows of finite numbers, all as long as the first."""
        kind = f"{number:,} rows of finite numbers, all of one length"
        value = self._of(name, list, kind, lambda value: len(value) == number)
        self._checked(name, kind, lambda _: all(type(row) is list and len(row) == len(value[0]) for row in value))
        self._checked(name, kind, lambda _: all(_numbers(row) for row in value))
        return np.array(value, dtype=np.float64).reshape(number, -1 if number else 0)

    def inner(self, name: str) -> Fields:
        """Return a mapping within."""
        return Fields(self.any(name), self._at(name))

    def each(self, name: str) -> Iterator[Fields]:
        """Walk over a list of mappings."""
        for place, content in enumerate(self.listed(name)):
            yield Fields(content, f"{self._at(name)}[{place}]")

    def _at(self, name: str) -> str:
        return f"{self._place}.{name}" if self._place else name

    def _of(self, name: str, kind: type, words: str, fits: Callable[[Any], bool] = lambda value: True) -> Any:
        """Return what a field holds, which must be just of this kind: true is no number."""
        return self._checked(name, words, lambda value: type(value) is kind and fits(value))

    def _checked(self, name: str, kind: str, known: Callable[[Any], bool]) -> Any:
        value = self.any(name)
        if not known(value):
            raise DataError(f"{_called(self._at(name))} must be {kind}, got {said(value)}")
        return value


def is_number(value: Any) -> bool:
    """Report whether a value is a finite number that is not too large to reckon with; True and False are none."""
    return type(value) in (int, float) and -LARGEST <= value <= LARGEST


def said(value: Any) -> str:
    """Return a value in a document's own words, shortened.

    >>> said(None), said([1, 2]), said("x" * 100)[-4:]
    ('null', 'a list of 2', 'xxx…')
    """
    if type(value) in NAMED:
        return f"a {NAMED[type(value)]} of {len(value):,}"
    if type(value) is int and value.bit_length() > 3 * MOST_SHOWN:
        return "a whole number of very many digits"
    word = {"None": "null", "True": "true", "False": "false"}
    text = word.get(repr(value), repr(value))
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def _numbers(values: list[Any]) -> bool:
    return all(map(is_number, values))


def _called(place: str) -> str:
    return f'field "{place}"'

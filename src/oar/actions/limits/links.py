"""Linear links between features, as people write them: "word_unique <= word_count", "change(age) >= change(education)".

A name stands for a feature's value after the move, `change(name)` for how much it changes; a name that is no Python
word is put between backticks, as in pandas. With x the values before, x + δ those after, α the factors of values and β
those of changes,

    α·(x + δ) + β·δ ≤ c        is        (α + β)·δ ≤ c − α·x.

Whoever breaks a link before any move may not break it further: then the right side counts as 0. So staying is always
allowed.
"""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oar.checks import is_huge, is_number
from oar.errors import DataError, OptionError
from oar.people.tables.encoding import LARGEST, Encoding
from oar.people.wording import shown

BACKTICKED = re.compile(r"`([^`]+)`")
ROUNDING = 1e-9  # of the terms of a link: what adding them up may miss its edge by
SMALLEST_FACTOR, LARGEST_FACTOR = 1e-30, 1e30  # of what is multiplied by people's values; squares do not overflow
_SIGNS: dict[type[ast.cmpop], tuple[int, ...]] = {ast.LtE: (1,), ast.GtE: (-1,), ast.Eq: (1, -1)}
"""What left − right is multiplied by, so that it must be ≤ 0."""
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)  # what Python's parser raises


@dataclass(frozen=True)
class LinearExpression:
    """A linear expression: factors of values and of changes, by name, and a constant."""

    values: dict[str, float] = field(default_factory=dict)
    changes: dict[str, float] = field(default_factory=dict)
    constant: float = 0.0

    def times(self, factor: float) -> LinearExpression:
        """Return it multiplied by a number."""
        return LinearExpression(
            {name: factor * value for name, value in self.values.items()},
            {name: factor * value for name, value in self.changes.items()},
            factor * self.constant,
        )

    def plus(self, other: LinearExpression) -> LinearExpression:
        """Return the sum."""
        values, changes = _added(self.values, other.values), _added(self.changes, other.changes)
        return LinearExpression(values, changes, self.constant + other.constant)

    @property
    def names(self) -> set[str]:
        """The features that it speaks of."""
        return set(self.values) | set(self.changes)

    @property
    def is_number(self) -> bool:
        """Whether it speaks of no feature."""
        return not self.names


@dataclass(frozen=True)
class Link:
    """`expression` ≤ 0, and the text that it comes from."""

    expression: LinearExpression
    text: str

    @property
    def names(self) -> set[str]:
        """The features that it speaks of."""
        return self.expression.names

    def holds(self, encoding: Encoding, before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Report in whose rows (n, d) it holds after a move, to rounding."""
        said = self.expression
        total, slack = np.full(len(after), said.constant), np.full(len(after), abs(said.constant))
        for name, factor in said.values.items():
            value = factor * after[:, encoding.places[name].start]
            total, slack = total + value, slack + np.abs(value)
        for name, factor in said.changes.items():
            place = encoding.places[name].start
            total = total + factor * (after[:, place] - before[:, place])
            slack = slack + abs(factor) * (np.abs(after[:, place]) + np.abs(before[:, place]))
        return total <= ROUNDING * slack


def parse_links(text: str) -> tuple[Link, ...]:
    """Return the links that a text states: one for ≤ or ≥, two for =, and so on along a chain.

    >>> [link] = parse_links("word_unique <= word_count + 3")
    >>> link.expression
    LinearExpression(values={'word_unique': 1.0, 'word_count': -1.0}, changes={}, constant=-3.0)
    """
    tree, names = _parsed(text)
    if not isinstance(tree, ast.Compare):
        raise OptionError(f"links: must compare with <=, >= or ==, got {shown(text)}.")
    try:
        sides = [linear(side, names, text) for side in (tree.left, *tree.comparators)]
    except RecursionError:
        raise OptionError(f"links: must be shorter, got {shown(text)}; add up its numbers.") from None
    found = []
    for left, operator, right in zip(sides, tree.ops, sides[1:], strict=False):
        difference = left.plus(right.times(-1))
        if difference.is_number:
            raise OptionError(f"links: must speak of at least one feature, got {shown(text)}.")
        _check_size(difference, text)
        signs = _SIGNS.get(type(operator), ())
        if not signs:
            raise OptionError(f"links: must compare with <=, >= or ==, got {shown(text)}; limits include their edge.")
        found += [Link(difference.times(sign), text) for sign in signs]
    return tuple(found)


def _check_size(said: LinearExpression, text: str) -> None:
    """Raise for numbers that overflow where they are multiplied by people's values, or have already."""
    for factor in (*said.values.values(), *said.changes.values()):
        if factor != 0 and not SMALLEST_FACTOR <= abs(factor) <= LARGEST_FACTOR:
            raise OptionError(
                f"links: factors must be between {SMALLEST_FACTOR:g} and {LARGEST_FACTOR:g}, got {factor:g} in "
                f"{shown(text)}; multiply both sides by a number, or measure a column in another unit."
            )
    if not abs(said.constant) <= LARGEST:
        raise OptionError(
            f"links: numbers must be at most {LARGEST:g}, as people's values are, got {said.constant:g} in "
            f"{shown(text)}; leave the link out, or measure a column in another unit."
        )


def _parsed(text: str) -> tuple[ast.expr, dict[str, str]]:
    """Return a text's syntax, and what the placeholders for backticked names stand for."""
    if not isinstance(text, str):
        raise DataError(f"links: must be text such as 'a <= b', got {shown(text)}.")
    try:
        return syntax_of(text)
    except UNREADABLE as error:
        raise OptionError(
            f"links: must be a comparison such as 'a <= b', got {shown(text)} ({why(error)}); put names with spaces "
            "between backticks."
        ) from None


def syntax_of(text: str) -> tuple[ast.expr, dict[str, str]]:
    """Return a text's syntax, and what its placeholders for backticked names stand for; raises one of UNREADABLE."""
    names: dict[str, str] = {}

    def placeholder(match: re.Match[str]) -> str:
        names[f"_name_{len(names)}_"] = match[1]
        return f"_name_{len(names) - 1}_"

    return ast.parse(BACKTICKED.sub(placeholder, text).strip(), mode="eval").body, names


def why(error: BaseException) -> str:
    """Return what Python's parser has against a text, on one line."""
    return str(getattr(error, "msg", error) or type(error).__name__).splitlines()[0]


def linear(node: ast.expr, names: dict[str, str], text: str) -> LinearExpression:
    """Return the linear expression that a piece of syntax means."""
    match node:
        case ast.Constant(value=int() | float() as value) if is_number(value) or is_huge(value):
            return LinearExpression(constant=_as_float(value))
        case ast.Name(id=name):
            return LinearExpression(values={names.get(name, name): 1.0})
        case ast.Call(func=ast.Name(id="change"), args=[ast.Name(id=name)], keywords=[]):
            return LinearExpression(changes={names.get(name, name): 1.0})
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return linear(operand, names, text).times(-1.0)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return linear(operand, names, text).times(1.0)
        case ast.BinOp():
            return _combined(node, names, text)
    raise OptionError(
        f"links: must be linear in the features, with numbers, names, change(name), +, -, * and /, got {shown(text)}."
    )


def _combined(node: ast.BinOp, names: dict[str, str], text: str) -> LinearExpression:
    left, right = linear(node.left, names, text), linear(node.right, names, text)
    match node.op:
        case ast.Add():
            return left.plus(right)
        case ast.Sub():
            return left.plus(right.times(-1))
        case ast.Mult() if left.is_number:
            return right.times(left.constant)
        case ast.Mult() if right.is_number:
            return left.times(right.constant)
        case ast.Div() if right.is_number and right.constant != 0:
            return left.times(1 / right.constant)
    raise OptionError(f"links: must be linear in the features, got {shown(text)}.")


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number of more than 308 digits
        return math.inf


def _added(left: dict[str, float], right: dict[str, float]) -> dict[str, float]:
    total = dict(left)
    for name, value in right.items():
        total[name] = total.get(name, 0.0) + value
    return {name: value for name, value in total.items() if value}

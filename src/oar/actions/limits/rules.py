"""If-then rules between columns, as people write them: "if job == 'unemployed' then income <= 1000".

A condition compares one column with a value, or names a boolean column; several are joined by `and`. The consequence is
one such comparison, or a linear link. What counts is the row after the move. A rule is kept in a few `ways`: its
consequence holds, or one of its conditions does not. Each way is convex (values within a range, some of a category's
levels, links), so solvers choose among ways, and never need anything but bounds and links. Whoever breaks a rule before
any move may go on doing so only while all of its columns stay as they are, so that staying is always allowed.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.limits.bounds import level_of
from oar.actions.limits.links import UNREADABLE, Link, parse_links, syntax_of, why
from oar.checks import check_that, choose, is_number
from oar.errors import OptionError
from oar.people.tables.encoding import LARGEST, Array, Encoding
from oar.people.tables.schema import Column, Schema
from oar.people.wording import shown

Mask = NDArray[np.bool_]
NEARLY = 1e-10  # of the values that are compared: what rounding may miss an edge by that belongs to a range
OPEN = 1e-6  # of a column's unit of cost: how far solvers stay from an edge that does not belong to a range,
COARSE = 2e-7  # and of the edge itself, because a column may be kept in float32
EXAMPLE = "\"if job == 'none' then income <= 1000\""
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_FLIPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WRITTEN = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_PARTS = re.compile(r"""`[^`]*`|'[^']*'|"[^"]*"|\bthen\b""")


@dataclass(frozen=True)
class Comparison:
    """One column compared with a value, as written: `name` `operator` `value`."""

    name: str
    operator: str
    value: Any

    @property
    def names(self) -> set[str]:
        """The column that it speaks of."""
        return {self.name}

    @property
    def opposite(self) -> Comparison:
        """The comparison that holds where this one does not."""
        return Comparison(self.name, _OPPOSITE[self.operator], self.value)


@dataclass(frozen=True)
class Range:
    """Values of one column, as coordinates: between two edges, or some of a category's levels."""

    name: str
    low: float = -np.inf  # low, high: the edges
    high: float = np.inf
    open: bool = False  # whether the edges do not belong to it
    levels: tuple[int, ...] | None = None  # of a category, positions of levels; None for all other columns
    whole: bool = False  # whether its values are whole numbers, so that they can be compared exactly

    @property
    def names(self) -> set[str]:
        """The column that it speaks of."""
        return {self.name}

    def holds(self, encoding: Encoding, before: Array, after: Array) -> Mask:
        """Report in whose rows (n, d) it holds after a move."""
        values = after[:, encoding.places[self.name]]
        if self.levels is not None:
            return np.isin(values.argmax(axis=1), self.levels)
        if self.open:
            return (values[:, 0] > self.low) & (values[:, 0] < self.high)
        was = before[:, encoding.places[self.name].start]
        slack = 0.5 if self.whole else NEARLY * (np.abs(values[:, 0]) + np.abs(was))
        return (values[:, 0] >= self.low - slack) & (values[:, 0] <= self.high + slack)


Way = tuple[Range | Link, ...]


@dataclass(frozen=True)
class IfThenRule:
    """`conditions` together imply the consequence: a comparison, or links."""

    conditions: tuple[Comparison, ...]
    consequence: Comparison | tuple[Link, ...]
    text: str

    @property
    def names(self) -> frozenset[str]:
        """The columns that it speaks of."""
        follows = self.consequence if isinstance(self.consequence, tuple) else (self.consequence,)
        return frozenset().union(*(each.names for each in (*self.conditions, *follows)))

    def within(self, schema: Schema) -> EncodedRule:
        """Check the rule against a table's columns; raise with the nearest column or level."""
        for name in sorted(self.names):
            choose(f"rules, {self.text!r}", name, schema.names)
        ways: list[Way] = []
        if isinstance(self.consequence, Comparison):
            ways += [(each,) for each in _ranges(self.consequence, schema[self.consequence.name], self.text)]
        else:
            for link in self.consequence:
                for name in sorted(link.expression.names):
                    if schema[name].kind == "category":
                        raise OptionError(
                            f"rules, {self.text!r}: {name!r} is a category, which has no value to add or compare; use "
                            f"== or != and one of its levels."
                        )
            ways.append(self.consequence)
        for each in self.conditions:
            _ranges(each, schema[each.name], self.text)  # what is written is checked, not only its opposite
            ways += [(way,) for way in _ranges(each.opposite, schema[each.name], self.text)]
        return EncodedRule(self.text, tuple(name for name in schema.names if name in self.names), tuple(ways))


@dataclass(frozen=True)
class EncodedRule:
    """A rule as coordinates know it: its text, its columns, and the ways in which it is kept."""

    text: str
    names: tuple[str, ...]
    ways: tuple[Way, ...]

    def kept(self, encoding: Encoding, before: Array, after: Array) -> Mask:
        """Report whose rows (n, d) after a move keep the rule."""
        places = [encoding.places[name] for name in self.names]
        fine = np.ones(len(after), dtype=bool)
        for place in places:  # nothing of it has changed
            fine &= (before[:, place] == after[:, place]).all(axis=1)
        for way in self.ways:
            fine |= holds(way, encoding, before, after)
        return fine


def holds(way: Way, encoding: Encoding, before: Array, after: Array) -> Mask:
    """Report in whose rows (n, d) a way holds."""
    fine = np.ones(len(after), dtype=bool)
    for each in way:
        fine &= each.holds(encoding, before, after)
    return fine


def edges(each: Range, unit: float) -> tuple[float, float]:
    """Return the edges that a solver keeps to: a little inside where they do not belong to the range.

    `unit` is what costs 1 in this column.
    """
    if not each.open:
        return each.low, each.high
    away = [OPEN * unit + COARSE * abs(edge) if np.isfinite(edge) else 0.0 for edge in (each.low, each.high)]
    return each.low + away[0], each.high - away[1]


def _ranges(said: Comparison, column: Column, text: str) -> tuple[Range, ...]:
    """Return the ranges of values, any of which makes a comparison true."""
    where = f"rules, {text!r}"
    if column.kind == "category":
        if said.operator not in ("==", "!="):
            raise OptionError(
                f"{where}: {column.name!r} is a category, whose levels have no order, got {said.operator!r}; compare "
                "with == or !=, or make it an ordinal in the schema."
            )
        chosen = level_of(column, said.value, f"{where}, {column.name}")
        levels = [place for place in range(len(column.levels)) if (place == chosen) == (said.operator == "==")]
        return (Range(column.name, levels=tuple(levels), whole=True),)
    edge = _edge(column, said.value, where)
    if column.whole and said.operator in ("==", "!=") and edge != int(edge):
        raise OptionError(f"{where}: {column.name!r} has whole values, got {said.value!r}; compare with a whole one.")
    if said.operator == "==":
        return (Range(column.name, edge, edge, whole=column.whole),)
    below, above = said.operator in ("<", "<=", "!="), said.operator in (">", ">=", "!=")
    strict = said.operator in ("<", ">", "!=")
    high, low = edge, edge
    if column.whole:  # of whole values the next one is the edge
        high, low = (np.ceil(edge) - 1, np.floor(edge) + 1) if strict else (np.floor(edge), np.ceil(edge))
    opened = strict and not column.whole
    found = [Range(column.name, high=float(high), open=opened, whole=column.whole)] if below else []
    return (*found, *([Range(column.name, low=float(low), open=opened, whole=column.whole)] if above else []))


def _edge(column: Column, value: Any, where: str) -> float:
    """Return what a column is compared with as a coordinate."""
    if column.kind == "ordinal":
        return float(level_of(column, value, f"{where}, {column.name}"))
    if column.kind == "boolean":
        if value not in (True, False):
            raise OptionError(f"{where}: {column.name!r} is a boolean, got {value!r}; compare with True or False.")
        return float(value)
    if not is_number(value) or not abs(value) <= LARGEST:
        raise OptionError(
            f"{where}: {column.name!r} is a {column.kind}, got {shown(value)}; compare with a finite number "
            f"of at most {LARGEST:g}."
        )
    return float(value)


def parse_rule(text: Any) -> IfThenRule:
    """Return what a text states.

    >>> rule = parse_rule("if job == 'none' and not owns then income <= 1000")
    >>> rule.conditions
    (Comparison(name='job', operator='==', value='none'), Comparison(name='owns', operator='==', value=False))
    >>> rule.consequence
    Comparison(name='income', operator='<=', value=1000)
    """
    check_that(isinstance(text, str), "rules", f"text such as {EXAMPLE}", text)
    then = next((found for found in _PARTS.finditer(text) if found[0] == "then"), None)
    if then is None or not text.lstrip().startswith("if "):
        raise OptionError(f"rules: must be written 'if … then …', such as {EXAMPLE}, got {text!r}.")
    said, follows = text[: then.start()].strip()[3:], text[then.end() :].strip()
    condition, names = _syntax(said, text)
    parts = condition.values if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.And) else [condition]
    conditions = tuple(each for part in parts for each in _comparisons(part, names, text, "condition"))
    consequence, names = _syntax(follows, text)
    if _is_of_one_column(consequence):
        return IfThenRule(conditions, _comparisons(consequence, names, text, "consequence")[0], text)
    try:
        return IfThenRule(conditions, parse_links(follows), text)
    except OptionError as error:
        raise OptionError(
            f"rules, {text!r}: the consequence must compare one column with a value, or be a link of columns that "
            f"includes its edge ({error})"
        ) from None


def _syntax(part: str, text: str) -> tuple[ast.expr, dict[str, str]]:
    try:
        return syntax_of(part)
    except UNREADABLE as error:
        raise OptionError(
            f"rules: must be written 'if … then …', such as {EXAMPLE}, got {shown(text)} ({why(error)} in "
            f"{shown(part.strip())}); put names with spaces between backticks, and levels between quotes."
        ) from None


def _is_of_one_column(node: ast.expr) -> bool:
    """Report whether a consequence is a boolean's name, or one column and one value; everything else is a link."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name() | ast.Compare() as inner):
            return _is_of_one_column(inner)
        case ast.Name():
            return True
        case ast.Compare(left=ast.Name(), comparators=[value]) | ast.Compare(left=value, comparators=[ast.Name()]):
            return _is_value(value)
    return False


def _is_value(node: ast.expr) -> bool:
    match node:
        case ast.Constant() | ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant()):
            return True
    return False


def _comparisons(node: ast.expr, names: dict[str, str], text: str, part: str) -> tuple[Comparison, ...]:
    """Return the comparisons that a piece of syntax means: several for a chain such as 18 <= age < 65."""
    match node:
        case ast.Name(id=name):
            return (Comparison(names.get(name, name), "==", True),)
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)):
            return (Comparison(names.get(name, name), "==", False),)
        case ast.Compare(left=first, ops=operators, comparators=others):
            sides = [first, *others]
            steps = zip(sides, operators, sides[1:], strict=False)
            found = [_comparison(left, operator, right, names) for left, operator, right in steps]
            if all(found):
                return tuple(each for each in found if each)
    raise OptionError(
        f"rules, {text!r}: the {part} must compare one column with a value (==, !=, <, <=, >, >=) or name a boolean "
        f"column{', joined by and' if part == 'condition' else ''}, got {ast.unparse(node)!r}; levels are put between "
        "quotes."
    )


def _comparison(left: ast.expr, operator: ast.cmpop, right: ast.expr, names: dict[str, str]) -> Comparison | None:
    """Return one step of a chain; None where it does not compare one column with one value."""
    written = _WRITTEN.get(type(operator), "")
    match left, right:
        case ast.Name(id=name), value if written and _is_value(value):
            return Comparison(names.get(name, name), written, ast.literal_eval(value))
        case value, ast.Name(id=name) if written and _is_value(value):
            return Comparison(names.get(name, name), _FLIPPED[written], ast.literal_eval(value))
    return None

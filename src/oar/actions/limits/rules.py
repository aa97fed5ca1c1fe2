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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.limits.links import UNREADABLE, Link, parse_links, syntax_of, why
from oar.errors import DataError, OptionError, choose
from oar.people.labels import plain
from oar.people.tables.encoding import LARGEST, Encoding
from oar.people.tables.schema import Column, Schema
from oar.people.wording import shown

Array = NDArray[np.float64]
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
    def opposite(self) -> Comparison:
        """What holds where this does not."""
        return Comparison(self.name, _OPPOSITE[self.operator], self.value)


@dataclass(frozen=True)
class Range:
    """Values of one column, as coordinates: between two edges, or some of a category's levels.

    Attributes:
        name: the column.
        low, high: the edges.
        open: whether the edges do not belong to it.
        levels: of a category, positions of levels; None for all other columns.
        whole: whether its values are whole numbers, so that they can be compared exactly.
    """

    name: str
    low: float = -np.inf
    high: float = np.inf
    open: bool = False
    levels: tuple[int, ...] | None = None
    whole: bool = False


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
        found = {each.name for each in self.conditions}
        if isinstance(self.consequence, Comparison):
            return frozenset(found | {self.consequence.name})
        return frozenset(found.union(*(link.expression.names for link in self.consequence)))

    def within(self, schema: Schema) -> EncodedRule:
        """Check the rule against a table's columns.

        Raises:
            OptionError: with the nearest column or level.
        """
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
        if isinstance(each, Link):
            fine &= _link_holds(each, encoding, before, after)
            continue
        values = after[:, encoding.places[each.name]]
        if each.levels is not None:
            fine &= np.isin(values.argmax(axis=1), each.levels)
        elif each.open:
            fine &= (values[:, 0] > each.low) & (values[:, 0] < each.high)
        else:
            was = before[:, encoding.places[each.name].start]
            slack = NEARLY * (np.abs(values[:, 0]) + np.abs(was)) if not each.whole else 0.5
            fine &= (values[:, 0] >= each.low - slack) & (values[:, 0] <= each.high + slack)
    return fine


def _link_holds(link: Link, encoding: Encoding, before: Array, after: Array) -> Mask:
    said = link.expression
    total, slack = np.full(len(after), said.constant), np.full(len(after), abs(said.constant))
    for name, factor in said.values.items():
        value = factor * after[:, encoding.places[name].start]
        total, slack = total + value, slack + np.abs(value)
    for name, factor in said.changes.items():
        place = encoding.places[name].start
        total = total + factor * (after[:, place] - before[:, place])
        slack = slack + abs(factor) * (np.abs(after[:, place]) + np.abs(before[:, place]))
    return total <= 1e-9 * slack


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
        chosen = _level(column, said.value, where)
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


def _level(column: Column, value: Any, where: str) -> int:
    value = plain(value)
    for place, level in enumerate(column.levels):
        if level == value and isinstance(level, str) == isinstance(value, str):
            return place
    choose(f"{where}, {column.name}", str(value), [str(level) for level in column.levels])
    raise OptionError(f"{where}, {column.name}: must be one of {column.levels}, got {value!r}.")


def _edge(column: Column, value: Any, where: str) -> float:
    """Return what a column is compared with as a coordinate."""
    if column.kind == "ordinal":
        return float(_level(column, value, where))
    if column.kind == "boolean":
        if value not in (True, False):
            raise OptionError(f"{where}: {column.name!r} is a boolean, got {value!r}; compare with True or False.")
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
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
    if not isinstance(text, str):
        raise DataError(f"rules: must be text such as {EXAMPLE}, got {text!r}.")
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


def parse_rules(texts: Sequence[Any]) -> tuple[IfThenRule, ...]:
    """Return what several texts state."""
    return tuple(parse_rule(text) for text in texts)


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
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node = node.operand
    if isinstance(node, ast.Name):
        return True
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return False
    sides = (node.left, node.comparators[0])
    return any(isinstance(side, ast.Name) for side in sides) and any(_is_value(side) for side in sides)


def _is_value(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        node = node.operand
    return isinstance(node, ast.Constant)


def _comparisons(node: ast.expr, names: dict[str, str], text: str, part: str) -> tuple[Comparison, ...]:
    """Return the comparisons that a piece of syntax means: several for a chain such as 18 <= age < 65."""
    wanted = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    inner = node.operand if isinstance(node, ast.UnaryOp) and wanted else node
    if isinstance(inner, ast.Name):
        return (Comparison(names.get(inner.id, inner.id), "==", not wanted),)
    found = []
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
            written = _WRITTEN.get(type(operator))
            if written is None or isinstance(left, ast.Name) == isinstance(right, ast.Name):
                break
            name, value = (left, right) if isinstance(left, ast.Name) else (right, left)
            if not (isinstance(name, ast.Name) and _is_value(value)):
                break
            turned = written if name is left else _FLIPPED[written]
            found.append(Comparison(names.get(name.id, name.id), turned, ast.literal_eval(value)))
        else:
            return tuple(found)
    raise OptionError(
        f"rules, {text!r}: the {part} must compare one column with a value (==, !=, <, <=, >, >=) or name a boolean "
        f"column{', joined by and' if part == 'condition' else ''}, got {ast.unparse(node)!r}; levels are put between "
        "quotes."
    )

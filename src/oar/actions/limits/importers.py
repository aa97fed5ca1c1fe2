"""Limits in the words of other tools: the one place where these are understood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oar.actions.limits.bounds import bound_of, column_of
from oar.actions.limits.limit import Limit, Limits
from oar.checks import check_that, choose, is_flag, is_listing, is_number
from oar.errors import DataError, OptionError
from oar.people.tables.schema import Schema
from oar.people.wording import shown


def from_dice(
    schema: Schema, features_to_vary: str | Sequence[str] = "all", permitted_range: Mapping[str, Any] | None = None
) -> Limits:
    """Return limits in DiCE's words: which features may vary, and within which range or levels."""
    names = schema.names
    vary = names if isinstance(features_to_vary, str) and features_to_vary == "all" else tuple(features_to_vary)
    for name in vary:
        column_of(schema, name, "features_to_vary")
    columns: dict[str, Limit] = {name: Limit(immutable=True) for name in names if name not in vary}
    for name, span in (permitted_range or {}).items():
        column = column_of(schema, name, "permitted_range")
        if name not in vary:
            raise OptionError(
                f"permitted_range and features_to_vary: contradict each other about {name!r}; leave it out of one."
            )
        where = f"permitted_range.{name}"
        check_that(is_listing(span), where, "a list, of levels or of two bounds", span)
        span = list(span)
        if column.kind == "category":
            columns[name] = Limit(levels=tuple(span))
            continue
        check_that(len(span) == 2, where, "the lowest and the highest value", span)
        columns[name] = Limit(lower=span[0], upper=span[1])
    limits = Limits(columns)
    limits.check(schema)
    return limits


def from_actionable_recourse(schema: Schema, actions: Mapping[str, Mapping[str, Any]]) -> Limits:
    """Return limits in actionable-recourse's words: `actionable`, `step_direction`, `lb`, `ub` and `step_size`."""
    columns = {}
    for name, words in actions.items():
        column = column_of(schema, name, "actions")
        if not isinstance(words, Mapping):
            raise DataError(f"actions.{name}: must be a mapping such as {{'actionable': False}}, got {shown(words)}.")
        for key in words:
            choose(f"actions.{name}", key, ("actionable", "step_direction", "lb", "ub", "step_size"))
        actionable, way = words.get("actionable", True), words.get("step_direction", 0)
        if not is_flag(actionable):
            raise DataError(f"actions.{name} actionable: must be True or False, got {shown(actionable)}.")
        if not is_number(way) or way not in (-1, 0, 1):
            raise OptionError(f"actions.{name} step_direction: must be -1, 0 or 1, got {shown(way)}.")
        for key in ("lb", "ub"):
            bound_of(column, words.get(key), f"actions.{name} {key}")
        columns[name] = Limit(immutable=True)
        if actionable:
            columns[name] = Limit(
                lower=words.get("lb"),
                upper=words.get("ub"),
                direction={-1: "down", 0: None, 1: "up"}[int(way)],
                step=words.get("step_size"),
            )
    limits = Limits(columns)
    limits.check(schema)
    return limits

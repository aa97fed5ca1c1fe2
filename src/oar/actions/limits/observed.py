"""Limits read off the data: nobody is sent where nobody is, without a word about limits.

| column | what its limit says |
| --- | --- |
| number, integer | stays where an appreciable share of the people is; integers stay whole, counts ≥ 0 |
| number, integer with a code for a missing value (`codes`) | the same; the code is not in the range, and stays |
| the same, of a column that stays anyway by its name | the code is named, so that who has it is not asked back |
| row numbers, dates as whole numbers (20240131, 202401), years | immutable |
| whole numbers that nearly all differ, spread evenly over a wide range | immutable: names of people, and no amounts |
| by their names (`column_names`): codes, who people are and whom they live with, time that has passed | immutable |
| by their names: what has happened (times late, bankruptcies …), bodies and health | immutable |
| flags: whatever has two values: booleans, 1 and 2, "no" and "yes" | immutable, unless limits of one's own name them |
| ordinal, category, of three levels or more | nothing: they move among the values that they have |

**Flags.** A flag says what somebody is or what has happened as often as what somebody chooses, and nothing in a table
tells which. So it stays, whatever its name is, until somebody who knows frees it with an empty [columns.NAME].

**The range.** A bound is the outermost value that has an appreciable share of the people, `TAIL`, and at least five
where there are ten times as many, at it or beyond it by no more than a usual difference: that of the middle half,
as a standard deviation of normal values. Where people are as dense as in a normal or exponential tail it leaves
some 0.5 % aside at either end. Of a tail that goes on for orders of magnitude it has the beginning: two in a hundred
who use their credit 100 to 50,000 times over are no place to send others to. Bounds are published, so they are no
one person's value: they are rounded inwards, to 1, 2 or 5 times a power of ten that is at least a tenth of a usual
difference, and ten n-ths of one (`steps`). 0, and 1 of shares, is the bound where it is less than half a step away.
Who is outside may stay there, and may not go further out.

**Steps.** Numbers that are all multiples of 0.5, 0.25, 0.2, 0.1, 0.05, 0.01, 0.001 or 0.0001, of fifty people or more,
change in steps of the largest of these, or in round ones that are multiples of it and about a hundredth of a usual
difference: 1, 1.5 and 3 rooms by halves, and amounts in cents by fives or tens, so that nobody is asked for a cent.

**What a change costs.** Where values outside the range, or codes, make most of a standard deviation (more than half), a
change by the standard deviation of the values brought within the range costs 1 instead: otherwise the whole range would
cost next to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oar.actions.limits.column_names import called_an_amount, called_years, why_still
from oar.actions.limits.limit import FREE, Limit, Limits, as_limits
from oar.actions.limits.missing_codes import UNKNOWN, codes
from oar.actions.limits.round_steps import (
    above,
    below,
    bound_step,
    change_step,
    one_two_five,
    share_of,
    usual_difference,
)
from oar.errors import DataError, OptionError
from oar.people.population import Population
from oar.people.tables.arrays import is_frame
from oar.people.tables.encoding import Array, Encoding
from oar.people.tables.identities import identities
from oar.people.tables.missing import without_missing
from oar.people.tables.schema import Column, Schema, toml_key, toml_list, toml_value
from oar.people.wording import counted, listed
from oar.tolerances import FEW_PEOPLE

TAIL = 0.005  # share of the people that is appreciable
HEADER = """\
# Limits as observed, to be edited: immutable = true, direction = "up" or "down", step, levels, cost, unit and
# missing (values that stand for a missing one) may be added.
# An empty [columns.NAME] lets a column go anywhere, and frees a flag; one that is not in this file stays within what
# was observed."""
FINEST = 0.01  # of a unit that is read off the data, however many people there are
LONG, LONG_ENOUGH = 1e8, 20  # the least of numbers of nine digits, and people, of whom fewer show nothing
YEARS, CENTURY, LEAST_YEARS = (1900, 2100), 100, 5  # years there are, and of unnamed ones how many, and people in each
EVEN_ENOUGH, WIDE, KOLMOGOROV = 200, 10, 1.36  # people; numbers there are for each; distance from evenness, at 5 %
MOST_TOLD, MOST_NAMED = 3, 12  # columns with codes, and that stay, in one line
FLAG, A_FLAG = 2, "a flag, which may be nobody's choice"  # values it has
STAYS, FREED = "stays as it is", " (take immutable out to free it)"
# Settings that a draft has, of columns that stay and of others; and what a comment of TOML must not have.
STILL_TOLD, FREE_TOLD = ("immutable", "missing"), ("lower", "upper", "step", "unit", "missing")
ONE_LINE = {number: " " for number in (*range(32), 127)}
HEAVY = 2.0  # from so many times the standard deviation within the range on, that of everyone says nothing


@dataclass(frozen=True)
class ObservedLimit:
    """A column's limit, and why it is so."""

    column: Column
    limit: Limit  # what it says; `FREE` where there is nothing to say
    why: str
    flag: bool = False  # whether it stays for no other reason than that it is one


def observed(people: Any, limits: Any = None, *, schema: Schema | None = None) -> Limits:
    """Return `Limits.observed`, of people or of a DataFrame of features."""
    own = as_limits(limits) or Limits()
    all_seen = observations(people, schema)
    table = Schema(tuple(each.column for each in all_seen))
    own.check(table)
    found = {each.column.name: each.limit for each in all_seen if each.limit != FREE}
    flags = tuple(each.column.name for each in all_seen if each.flag)
    merged = _merged(found, own, flags)
    try:
        merged.check(table)
    except (DataError, OptionError):
        # Links and rules are somebody's word, and a range that was observed gives way to them.
        named = {name for link in own.parsed for name in link.expression.names}
        named |= {name for rule in own.ruled(table) for name in rule.names}
        merged = _merged({name: limit for name, limit in found.items() if name not in named}, own, flags)
    return merged


def _merged(found: Mapping[str, Limit], own: Limits, flags: tuple[str, ...]) -> Limits:
    """Return observed limits with the columns of one's own in their place."""
    seen = tuple(name for name in found if name not in own.columns)
    kept = tuple(name for name in flags if name in seen)
    return replace(own, columns={**found, **own.columns}, as_observed=seen, flags=kept)


def observations(people: Any, schema: Schema | None = None) -> list[ObservedLimit]:
    """Return what was observed of each column, in the table's order; what was missing was not observed."""
    if isinstance(people, Population):
        if people.encoding is None:
            raise DataError(
                "people: must have a schema, got plain features, which have a budget and no limits; make them with "
                "oar.Population.from_frame(df, target=…)."
            )
        encoding, rows = people.encoding, np.asarray(people.features, dtype=np.float64)
        filled = people.imputed
    elif is_frame(people):
        schema = schema or Schema.infer(people)
        filled = people.isna().to_numpy() if tuple(people.columns) == schema.names else None
        people = without_missing(people, schema, "impute", [])
        encoding = Encoding(schema, tuple(people[name].dtype for name in schema.names if name in people))
        rows = encoding.encode(people)
    else:
        raise DataError(
            f"people: must be an oar.Population of a table or a DataFrame of features, got {type(people).__name__}."
        )
    given = np.ones((len(rows), len(encoding.schema)), dtype=bool) if filled is None else ~filled
    return [
        _observe(column, rows[given[:, at], encoding.places[column.name].start])
        for at, column in enumerate(encoding.schema)
    ]


def _observe(column: Column, values: Array) -> ObservedLimit:
    named = why_still(column)
    if column.kind not in ("number", "integer"):
        return _observe_levels(column, named)
    coded = codes(values)
    moments = "dates as whole numbers" if _dates(values) else "years" if _years(column.name, values) else None
    why = moments or named or _untouched(column.name, values)
    flag = not why and len(np.unique(values[~np.isin(values, coded)])) == FLAG
    missing = coded if why in (None, named) else ()  # what names people, or is a moment, has no codes
    known, kept = values[~np.isin(values, missing)], tuple(_typed(code, column) for code in missing) or None
    least, most = _short(known.min()), _short(known.max())
    span = f"observed: {least} to {most}{_coded(missing, len(values) - len(known))}"
    if why or flag:
        freed = f" (lower = {least} and upper = {most} in the place of immutable free it)" * flag
        told = f"{why or A_FLAG}, and {STAYS}{freed}; {span}"
        return ObservedLimit(column, Limit(immutable=True, missing=kept), told, flag)
    lower, upper = _range(known, column.whole)
    step = None if column.whole else change_step(known)
    unit = _unit(values, known, lower, upper)
    told = f"{_what(column, known.min(), known.max())}; {span}"
    if step:
        told += f"; changes are multiples of {step:g}"
    if unit:
        told += f"; a standard deviation within the limits costs 1, for that of everyone, {_short(values.std())}, is "
        told += "made by values outside of them"
    low, high = (_typed(bound, column) for bound in (lower, upper))
    return ObservedLimit(column, Limit(lower=low, upper=high, step=step, unit=unit, missing=kept), told)


def _observe_levels(column: Column, named: str | None) -> ObservedLimit:
    """Return what was observed of a column that has levels, or is a boolean, whose name may tell that it stays."""
    levels = [level for level in column.levels if str(level).strip().lower() not in UNKNOWN]
    flag = not named and (column.kind == "boolean" or len(levels) == FLAG)
    if named or flag:
        return ObservedLimit(column, Limit(immutable=True), f"{named or A_FLAG}, and {STAYS}{FREED * flag}", flag)
    return ObservedLimit(column, FREE, f"one of {counted(len(column.levels), 'level', 'levels')}")


def _coded(missing: tuple[float, ...], people: int) -> str:
    """Say what seems to stand for a missing value, if anything does."""
    if not missing:
        return ""
    have = counted(people, "person has", "people have")
    return (
        f"; {have} {' or '.join(map(_short, missing))}, which seems to stand for a missing value and stays as it is "
        "(missing = [] if it does not)"
    )


def _typed(value: float, column: Column) -> float:
    return int(value) if column.whole else value


def _untouched(name: str, values: Array) -> str | None:
    """Say why nobody can change a column: it names people or rows."""
    import pandas

    why = identities(pandas.DataFrame({name: values})).get(name)
    if why:
        return f"it {why}"
    if _long_numbers(values):
        return "long numbers of which nearly all differ: moments, or names of people"
    if _even(values) and not called_an_amount(name):
        return "numbers of which nearly all differ, none rounder than others: names of people"
    return None


def _years(name: str, values: Array) -> bool:
    """Report whether whole numbers are years, by the name too, or by filling a century or less of them evenly."""
    if (values != np.floor(values)).any() or values.min() < YEARS[0] or values.max() > YEARS[1]:
        return False
    if called_years(name):
        return True
    different, span = np.unique(values), values.max() - values.min() + 1
    filled = LEAST_YEARS <= span <= CENTURY and len(different) >= span / 2 and len(values) >= LEAST_YEARS * span
    return bool(filled and np.mean(different % 10 == 0) < 0.2)


def _even(values: Array) -> bool:
    """Report whether whole numbers are spread as those are that are handed out: evenly, over far more than there are.

    Amounts have a peak and a tail, and round values among them.
    """
    size, span = len(values), values.max() - values.min()
    if size < EVEN_ENOUGH or span < WIDE * size or (values != np.floor(values)).any():
        return False
    if len(np.unique(values)) < 0.99 * size or np.mean(values % 10 == 0) > 0.2:
        return False
    places = (np.sort(values) - values.min()) / span
    return bool(np.abs(places - np.linspace(0, 1, size)).max() < KOLMOGOROV / math.sqrt(size))


def _long_numbers(values: Array) -> bool:
    """Report whether whole numbers are moments, phone or account numbers, and no amounts, which are rounder."""
    if len(values) < LONG_ENOUGH or values.min() < LONG or (values != np.floor(values)).any():
        return False
    differ = len(np.unique(values)) >= 0.99 * len(values)
    return bool(differ and values.max() < 100 * values.min() and np.mean(values % 10 == 0) < 0.2)


def _dates(values: Array) -> bool:
    """Report whether whole numbers are dates such as 20240131, or months such as 202401, and several of them."""
    if (values != np.floor(values)).any() or not values.min() < values.max():
        return False
    if values.min() >= 190001 and values.max() <= 210012:
        return bool(((values % 100 >= 1) & (values % 100 <= 12)).all())
    if values.min() < 19000101 or values.max() > 21001231:
        return False
    months, days = values // 100 % 100, values % 100
    return bool(((months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)).all())


def _what(column: Column, least: float, most: float) -> str:
    if column.whole:
        return "whole, and not negative" if least >= 0 else "whole"
    return "a share, within 0 and 1" if least >= 0 and most <= 1 else "any amount"


def _range(values: Array, whole: bool) -> tuple[float, float]:
    """Return the bounds within which people are as dense as somewhere to be sent to should be."""
    size, ordered = len(values), np.sort(values)
    share = max(1, min(max(FEW_PEOPLE, math.ceil(TAIL * size)), size // 10))
    reach = max(usual_difference(ordered), float(whole))
    low, high = sorted((-_outermost(-ordered[::-1], reach, share), _outermost(ordered, reach, share)))
    step = bound_step(ordered, whole)
    if low == high or not step:
        return low, high
    is_share = low >= 0 and high <= 1
    lower = 0.0 if 0 <= low < step / 2 else above(low, step)
    upper = 1.0 if is_share and 1 - high < step / 2 else below(high, step)
    upper = 0.0 if -step / 2 < high <= 0 else upper
    # Of very few people, or of values that lie in two heaps, a step inwards may leave most of them outside.
    inside = [np.mean((ordered >= one) & (ordered <= other)) for one, other in ((lower, upper), (low, high))]
    return (lower, upper) if 2 * inside[0] >= inside[1] else (below(low, step), above(high, step))


def _outermost(ordered: Array, reach: float, share: int) -> float:
    """Return the largest value that so many people are at, or beyond by `reach` at most."""
    beyond = np.searchsorted(ordered, ordered + reach, side="right") - np.arange(len(ordered))
    return float(ordered[np.flatnonzero(beyond >= share)[-1]])


def _unit(values: Array, known: Array, lower: float, upper: float) -> float | None:
    """Return what costs 1 where values outside the bounds, or codes, make most of everyone's standard deviation."""
    everyones, within = float(values.std()), float(np.clip(known, lower, upper).std())
    if not 0 < HEAVY * within < everyones:
        return None
    return above(within, one_two_five(within * share_of(len(known), FINEST)))


def _short(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1e4 or value != math.floor(value) else f"{value:.0f}"


def told(limits: Limits, schema: Schema) -> str:
    """Say in one line what limits keep: those that were observed, and those of one's own.

    >>> income, owner = Column("income", "integer"), Column("owner", "boolean")
    >>> told(Limits({"income": Limit(lower=0, upper=9_000)}, as_observed=("income",)), Schema((income, owner)))
    'as observed: 1 column stays within its range (1 whole); 1 column moves among the values that it has'
    >>> told(Limits({"income": Limit(lower=0), "owner": Limit(immutable=True)}), Schema((income, owner)))
    'by limits of their own: 1 column stays within its range (1 whole), 1 column stays as it is (owner)'
    """
    seen = [name for name in limits.as_observed if name in schema.names]
    own = [name for name in limits.columns if name not in seen]
    whose = (("as observed", seen), ("by limits of their own", own))
    parts = [f"{how}: {_kept(limits, schema, names)}" for how, names in whose if names]
    free = [column for column in schema if column.name not in limits.columns]
    levels = sum(column.kind not in ("number", "integer") for column in free)
    if levels:
        among = ("column moves among the values that it has", "columns move among the values that they have")
        parts.append(counted(levels, *among))
    if len(free) > levels:
        parts.append(counted(len(free) - levels, "column has no range", "columns have no range"))
    return "; ".join(parts)


def _kept(limits: Limits, schema: Schema, names: list[str]) -> str:
    """Say what the limits of some columns keep."""
    unchosen = [name for name in names if limits.columns[name].immutable]
    flags = [name for name in unchosen if name in limits.flags]
    still = [name for name in unchosen if name not in flags]
    ranged = [name for name in names if name not in unchosen and limits.columns[name].bounds]
    whole = sum(schema[name].whole for name in ranged)
    parts = []
    if ranged:
        stays = counted(len(ranged), "column stays within its range", "columns stay within their ranges")
        parts.append(stays + (f" ({whole:,} whole)" if whole else ""))
    if still:
        stay = counted(len(still), "column stays as it is", "columns stay as they are")
        parts.append(f"{stay} ({listed(still, MOST_NAMED, str)})")
    if flags:
        stay = counted(len(flags), "flag stays as it is", "flags stay as they are")
        named = listed(flags, MOST_NAMED, str)
        parts.append(f"{stay} ({named}; an empty [columns.NAME] in a file of limits frees one)")
    coded = {name: limits.columns[name].missing for name in names if limits.columns[name].missing}
    if coded:
        first = [f"{name} {' or '.join(map(_short, each))}" for name, each in list(coded.items())[:MOST_TOLD]]
        more = f" and in {len(coded) - MOST_TOLD:,} more" if len(coded) > MOST_TOLD else ""
        parts.append(f"codes for a missing value stay as they are ({', '.join(first)}{more})")
    rest = len(names) - len(unchosen) - len(ranged)
    if rest:
        parts.append(counted(rest, "column has no range", "columns have no range"))
    return ", ".join(parts)


def drafted(people: Any, schema: Schema | None = None) -> str:
    """Return observed limits as a TOML file with a comment for each column, to be edited and read as it is."""
    blocks = [HEADER]
    for each in observations(people, schema):
        lines = [f"# {each.column.name.translate(ONE_LINE)}: {each.column.kind}, {each.why}".rstrip()]
        lines.append(f"[columns.{toml_key(each.column.name)}]")
        for name, value in each.limit.given.items():
            if name in (STILL_TOLD if each.limit.immutable else FREE_TOLD):
                lines.append(f"{name} = {toml_list(value) if name == 'missing' else toml_value(value)}")
        if each.limit == FREE and each.column.kind == "category":
            lines.append(f"levels = {toml_list(each.column.levels)}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"

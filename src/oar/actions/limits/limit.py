"""Limits of a table's columns: bounds, directions, steps, levels, links, costs; for everybody and for single people.

    Limits(
        {
            "age": Limit(immutable=True),
            "income": Limit(direction="up", upper=9_000, step=50),
            "duration": Limit(lower=6, cost=2, unit=12),          # a year costs 2
            "purpose": Limit(levels=("car", "education")),        # what may be switched to
        },
        links=["savings <= income"],
        own={"row 17": {"income": Limit(upper=3_000)}},
        rules=["if job == 'none' then income <= 1000"],
        plausible=0.95,                                           # where 95 % of the people could live
    )

or the same in a TOML file. Whoever is outside a bound or breaks a link before any move may not go further out, and
whoever breaks a rule may leave its columns as they are, so staying is always allowed. Moves are measured in cost: a
standard deviation of a number (or what `unit` says), one flip of a boolean, one switch of a category cost 1 unless
`cost` says otherwise, and the budget bounds the p-norm of these costs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.limits.bounds import bound_of, column_of, listing, said
from oar.actions.limits.links import LARGEST_FACTOR, SMALLEST_FACTOR, Link, parse_links
from oar.actions.limits.plausible import Plausible
from oar.actions.limits.rules import EncodedRule, IfThenRule, Range, parse_rule
from oar.checks import check_flag, check_that, choose, is_listing, is_number, is_whole, with_near_names
from oar.errors import DataError, OptionError
from oar.opening import naming, read_toml
from oar.people.labels import plain
from oar.people.tables.encoding import Encoding
from oar.people.tables.schema import Column, Schema, toml_key
from oar.people.wording import counted, lined_up, nearest, shown
from oar.typing import Frame, Label, LimitsLike, PlausibleLike

Said = tuple[str, Mapping[str, float], float]
BOUND_SLACK = 1e-7  # by which two bounds of a column may miss each other, as in HiGHS
"""A text, and what it states: factors α by column, and a constant c, of α·x + c ≤ 0."""
DIRECTIONS = ("up", "down")
MOST_COMPARED = 10_000  # people whose names are looked through for one that is near

if TYPE_CHECKING:
    from oar.people import Population


@with_near_names
@dataclass(frozen=True)
class Limit:
    """The limits of one column: how it may change.

    Attributes:
        immutable: whether it never changes.
        lower: the least value; of an ordinal, its lowest level.
        upper: the largest value; of an ordinal, its highest level.
        direction: "up" or "down", if it may only increase or only decrease.
        step: changes are multiples of this; whole numbers of it for integers.
        levels: of a category, those that may be switched to; None for all.
        cost: what a change by `unit` costs; of a category, what a switch costs.
        unit: a change, in the column's own units; None for a standard deviation.
        missing: codes for a missing value, such as -999: people who have one keep it.
    """

    immutable: bool = False
    lower: float | np.number | str | None = None
    upper: float | np.number | str | None = None
    direction: str | None = None
    step: float | None = None
    levels: Sequence[Label] | None = None
    cost: float = 1.0
    unit: float | None = None
    missing: Any = None

    def __post_init__(self) -> None:
        check_flag("immutable", self.immutable)
        given = self.given
        if "direction" in given:
            choose("direction", self.direction, DIRECTIONS)
        for name in ("step", "cost", "unit"):
            value = given.get(name, 1.0)
            if not (is_number(value) and SMALLEST_FACTOR <= value <= LARGEST_FACTOR):
                raise DataError(
                    f"{name}: must be a finite number > 0, from {SMALLEST_FACTOR:g} to {LARGEST_FACTOR:g}, got "
                    f"{shown(value)}."
                )
        for name, what in (("levels", "levels"), ("missing", "values, such as [-999]")):
            listed = given.get(name, ())
            check_that(is_listing(listed), name, f"a list of {what}", listed)
            if name in given:
                object.__setattr__(self, name, tuple(plain(each) for each in listed))
        # NumPy's numbers become Python's, which are told as users write them.
        object.__setattr__(self, "lower", plain(self.lower))
        object.__setattr__(self, "upper", plain(self.upper))
        others = [name for name in ("direction", "step", "levels") if name in given]
        if self.immutable and others:
            raise OptionError(
                f"immutable and {others[0]}: contradict each other, because what is immutable does not move; "
                "leave one out."
            )

    @property
    def given(self) -> dict[str, Any]:
        """The settings that say something, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def __str__(self) -> str:
        """Say it in words.

        >>> print(Limit(direction="up", upper=9_000, cost=2, unit=100))
        only up; at most 9000; a change by 100 costs 2
        """
        given = self.given
        words = ["immutable"] if self.immutable else []
        words += [text.format(given[name]) for name, text in _IN_WORDS.items() if name in given]
        if "levels" in given:
            words.append(f"may become {', '.join(map(str, given['levels'])) or 'nothing else'}")
        if self.missing:
            words.append(f"stays where it is {' or '.join(map(str, self.missing))}")
        if self.cost != 1.0 or "unit" in given:
            words.append(f"a change{f' by {self.unit:g}' if 'unit' in given else ''} costs {self.cost:g}")
        return "; ".join(words) or "free"

    @property
    def span(self) -> tuple[float, float]:
        """The bounds as coordinates, once they have been checked; infinite where there is none."""
        given = {name: float(value) for name, value, _ in self.bounds}
        return given.get("lower", -np.inf), given.get("upper", np.inf)

    def span_of(self, column: Column) -> tuple[float, float]:
        """Return the least and the largest coordinate of a column: within these bounds, and as its kind has it."""
        return max(column.span[0], self.span[0]), min(column.span[1], self.span[1])

    def allows(self, level: Label) -> bool:
        """Report whether a category may be switched to a level."""
        return self.levels is None or level in self.levels

    @property
    def bounds(self) -> tuple[tuple[str, Any, float], ...]:
        """The bounds that there are: name, value, and sign, with which more than the value is outside."""
        both = ("lower", self.lower, -1.0), ("upper", self.upper, 1.0)
        return tuple(one for one in both if one[1] is not None)

    @staticmethod
    def of(value: Any, column: str) -> Limit:
        """Read a limit, or a mapping of its settings as a TOML file gives it."""
        match value:
            case Limit():
                return value
            case Mapping():
                known = [item.name for item in dataclasses.fields(Limit)]
                for key in value:
                    choose(f"limits.{column}", key, known)
                return Limit(**value)
        raise DataError(f"limits.{column}: must be an oar.Limit(…) or a table of its settings, got {value!r}.")

    def within(self, column: Column) -> Limit:
        """Check this limit against the column's type; return it with bounds as coordinates."""
        where = f"limits.{column.name}"
        for name, kinds in _FOR.items():
            if name in self.given and column.kind not in kinds:
                raise OptionError(f"{where} {name}: is for {listing(kinds)} columns, and this is a {column.kind}.")
        for level in self.levels or ():
            if level not in column.levels:
                choose(f"{where} levels", level, [str(known) for known in column.levels])
                raise OptionError(f"{where} levels: must be of {column.levels}, got {level!r}.")
        for value in self.missing or ():
            bound_of(column, value, f"{where} missing")
        if self.step and column.kind == "integer" and self.step != int(self.step):
            raise DataError(f"{where} step: must be a whole number, because the column is, got {self.step}.")
        lower, upper = (bound_of(column, getattr(self, name), f"{where} {name}") for name in ("lower", "upper"))
        found = dataclasses.replace(self, lower=lower, upper=upper)
        least, most = found.span
        if least > most:
            raise OptionError(
                f"{where} lower and upper: contradict each other, {self.lower!r} is above {self.upper!r}."
            )
        return found


FREE = Limit()
"""What may be done to a column of which nothing is said."""
_IN_WORDS = {"direction": "only {}", "lower": "at least {}", "upper": "at most {}", "step": "in steps of {:g}"}
_FOR = {
    "lower": ("number", "integer", "ordinal"),
    "upper": ("number", "integer", "ordinal"),
    "direction": ("number", "integer", "boolean", "ordinal"),
    "step": ("number", "integer"),
    "levels": ("category",),
    "unit": ("number", "integer", "ordinal"),
    "missing": ("number", "integer"),
}


@with_near_names
@dataclass(frozen=True)
class Limits:
    """The limits of a table: those of everybody, and those of single people.

    Attributes:
        columns: a `Limit` for each column that has one; others may move freely.
        links: linear links between columns, such as "word_unique <= word_count" or "change(age) >= change(education)".
        own: limits of single people, by their index: limits of columns, in place of everybody's. Text also matches an
            index of the same text ("17" for 17), because all keys of a TOML file are text.
        rules: if-then rules, such as "if job == 'none' then income <= 1000".
        plausible: how close other people must be after a move: a share of the people, or `Plausible(…)`; None for no
            limit.
        as_observed: columns whose limits were observed in the data (`Limits.observed`).
        flags: those of them that stay as they are because they are flags, of which a table does not tell more.
    """

    columns: Mapping[str, Limit] = field(default_factory=dict)
    links: Any = ()
    own: Mapping[Any, Mapping[str, Limit]] = field(default_factory=dict)
    rules: Any = ()
    plausible: Any = None
    as_observed: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()

    if TYPE_CHECKING:  # what it takes; the fields are what becomes of it

        def __init__(
            self,
            columns: Mapping[str, Limit] = ...,
            links: str | Sequence[str] = (),
            own: Mapping[Any, Mapping[str, Limit]] = ...,
            rules: str | Sequence[str] = (),
            plausible: PlausibleLike = None,
            as_observed: tuple[str, ...] = (),
            flags: tuple[str, ...] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        """Read mappings as limits, and links as what they say."""
        wanted = "a mapping of columns to oar.Limit(…)"
        check_that(isinstance(self.columns, Mapping), "limits", wanted, self.columns)
        columns = {name: Limit.of(value, str(name)) for name, value in self.columns.items()}
        object.__setattr__(self, "columns", columns)
        for name, example in (("links", "'spent <= earned'"), ("rules", "'if … then …'")):
            texts = getattr(self, name)
            texts = (texts,) if isinstance(texts, str) else texts
            check_that(is_listing(texts), name, f"a list of texts {example}", texts)
            object.__setattr__(self, name, tuple(texts))
        _ = self.parsed, self.parsed_rules
        object.__setattr__(self, "plausible", Plausible.of(self.plausible))
        check_that(isinstance(self.own, Mapping), "own", "a mapping of people to their limits", self.own)
        own = {}
        for person, limits in self.own.items():
            wanted = f"a mapping of columns to limits for {person!r}"
            check_that(isinstance(limits, Mapping), "own", wanted, limits)
            own[person] = {name: Limit.of(value, str(name)) for name, value in limits.items()}
        object.__setattr__(self, "own", own)

    def __str__(self) -> str:
        """Show a table: the columns and what is said of each, then links, rules, own limits and plausibility.

        >>> print(Limits({"age": Limit(immutable=True)}, links=["savings <= income"], plausible=0.95))
        column     limit
        age        immutable
        link       savings <= income
        plausible  as near to 10 others as 95 % of the people
        """
        rows = [("column", "limit"), *((str(name), str(limit)) for name, limit in self.columns.items())]
        rows += [("link", text) for text in self.links]
        rows += [("rule", text) for text in self.rules]
        if self.own:
            rows.append(("own", f"limits of {counted(len(self.own), 'person', 'people')}"))
        if self.plausible is not None:
            near = self.plausible
            rows.append(("plausible", f"as near to {near.neighbours} others as {100 * near.share:g} % of the people"))
        return lined_up(rows) if len(rows) > 1 else "no limits but what the columns are"

    @property
    def parsed(self) -> tuple[Link, ...]:
        """The links that the texts state."""
        return tuple(link for text in self.links for link in parse_links(text))

    @property
    def parsed_rules(self) -> tuple[IfThenRule, ...]:
        """The rules that the texts state."""
        return tuple(map(parse_rule, self.rules))

    def coded(self, encoding: Encoding, rows: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which values (n, columns) of a table are codes for a missing value."""
        found = np.zeros((len(rows), len(encoding.schema)), dtype=bool)
        for name, limit in self.columns.items():
            if limit.missing:
                at, place = encoding.schema.names.index(name), encoding.places[name].start
                found[:, at] = np.isin(rows[:, place], limit.missing)
        return found

    def ruled(self, schema: Schema) -> tuple[EncodedRule, ...]:
        """Return the rules in terms of a table's coordinates."""
        return tuple(rule.within(schema) for rule in self.parsed_rules)

    def check(self, schema: Schema) -> Limits:
        """Check everything against a table's columns; return it with bounds as coordinates.

        Raises:
            OptionError: naming the limit, or the two that contradict each other, with the nearest column.
        """
        columns = {name: limit.within(column_of(schema, name, "limits")) for name, limit in self.columns.items()}
        own = {
            person: {name: limit.within(column_of(schema, name, f"own.{person}")) for name, limit in limits.items()}
            for person, limits in self.own.items()
        }
        for link in self.parsed:
            for name in sorted(link.expression.names):
                column = column_of(schema, name, "links")
                if column.kind == "category":
                    raise OptionError(
                        f"links: {name!r} is a category, which has no value to compare; got {link.text!r}."
                    )
            if not link.expression.values and link.expression.constant > 0:
                raise OptionError(
                    f"links: must let people stay as they are, got {link.text!r}, which nobody keeps who does; plans "
                    "never oblige anybody to move, so leave it out."
                )
        checked = dataclasses.replace(self, columns=columns, own=own)
        checked._check_pairs(schema)
        checked._check_rules(schema)
        checked._check_own(schema)
        return checked

    def _check_own(self, schema: Schema) -> None:
        """Refuse own costs and steps (one ball and one grid for all), and own bounds that contradict a link.

        A link that the narrowest of people's own bounds can keep, all of them can.
        """
        tightest: dict[tuple[str, str], tuple[float, Any]] = {}
        for person, limits in self.own.items():
            for name, limit in limits.items():
                everybodys = self.columns.get(name, FREE)
                for setting in ("cost", "unit", "step", "missing"):
                    if getattr(limit, setting) not in (getattr(FREE, setting), getattr(everybodys, setting)):
                        raise OptionError(
                            f"own.{person}.{name} {setting}: is the same for everybody; set it in limits, or give "
                            f"{person!r} a budget of its own."
                        )
                for setting, bound, sign in limit.bounds:
                    here = sign * bound, person
                    tightest[name, setting] = min(tightest.get((name, setting), here), here, key=lambda one: one[0])
        pairs: list[tuple[Said, Said]] = []
        for (name, setting), (bound, person) in tightest.items():
            sign = -1.0 if setting == "lower" else 1.0
            text = f"own.{person}.{name} {setting} = {said(schema[name], sign * bound)}"
            pairs += [((text, {name: sign}, -bound), link) for link in self._linked if name in link[1]]
        _refuse_contradictions(schema, pairs)

    def naming(self, index: Any, size: int) -> Limits:
        """Return these limits with those of single people by values of the index; None stands for positions.

        Keys of a TOML file are text: one that is in no index matches the only person whose index has that text.

        Raises:
            DataError: where a name matches nobody, or several people.
        """
        if not self.own:
            return self
        import pandas

        index = pandas.RangeIndex(size) if index is None else index
        text = any(isinstance(person, str) and person not in index for person in self.own)
        texts = index.map(str) if text else index[:0]
        own: dict[Any, Mapping[str, Limit]] = {}
        for person, limits in self.own.items():
            name = index[_position(person, index, texts)]
            if name in own:
                raise DataError(
                    f"own: must name everybody once, got {shown(person)} too for {shown(name)}; leave one out."
                )
            own[name] = limits
        return dataclasses.replace(self, own=own)

    def _check_rules(self, schema: Schema) -> None:
        """Refuse a rule whose consequence a bound, or the levels that may be switched to, never let come true."""
        for rule, ruled in zip(self.parsed_rules, self.ruled(schema), strict=True):
            if isinstance(rule.consequence, tuple):
                links = [(rule.text, one.expression.values, one.expression.constant) for one in rule.consequence]
                bounds = self._bounds(schema)
                _refuse_contradictions(schema, [(bound, link) for link in links if link[1] for bound in bounds])
                continue
            name = rule.consequence.name
            limit = self.columns.get(name, FREE)
            ways = [way[0] for way in ruled.ways if isinstance(way[0], Range) and way[0].name == name]
            ways = ways[: 2 if rule.consequence.operator == "!=" and ways[0].levels is None else 1]
            for setting, bound, sign in limit.bounds:
                if all(way.low > bound if sign > 0 else way.high < bound for way in ways):
                    raise _contradiction(f"{name} {setting} = {said(schema[name], bound)}", rule.text)

    @property
    def _linked(self) -> list[Said]:
        """The links as statements of values."""
        return [(link.text, link.expression.values, link.expression.constant) for link in self.parsed]

    def _bounds(self, schema: Schema) -> list[Said]:
        """Return the columns' bounds as statements."""
        return [
            (f"{name} {setting} = {said(schema[name], bound)}", {name: sign}, -sign * float(bound))
            for name, limit in self.columns.items()
            for setting, bound, sign in limit.bounds
        ]

    def _check_pairs(self, schema: Schema) -> None:
        """Refuse two limits that no value satisfies together; links of changes alone are always satisfied by none."""
        all_said = [*(each for each in self._linked if each[1]), *self._bounds(schema)]
        pairs = [(before, each) for place, each in enumerate(all_said) for before in all_said[:place]]
        _refuse_contradictions(schema, [(one, other) for one, other in pairs if one[0] != other[0]])

    @staticmethod
    def observed(people: Population | Frame, limits: LimitsLike = None, *, schema: Schema | None = None) -> Limits:
        """Return the limits observed in the data: nobody moves to values that nobody has.

        Numbers stay in the range of an appreciable share of the people: a bound has 0.5 % of them (at least five, of
        fifty or more) at it or just beyond it. Integers stay integers, and counts do not become negative. Codes for a
        missing value, such as -999, belong to no range, and people who have one keep it. Row numbers, dates written as
        whole numbers and columns called age, sex, gender, race and the like are immutable. So are flags, which have two
        values: a table does not tell whether what they say can be chosen, and an empty `Limit()` of your own frees one.
        Where values outside the range account for most of a standard deviation, a change by the standard deviation
        within it costs 1. People outside the range may stay, and may not move further out.

        Args:
            people: people of a table, or a DataFrame of features.
            limits: your own limits; their columns replace the observed ones.
            schema: the types of the columns of a DataFrame; None to infer them.
        """
        from oar.actions.limits.observed import observed

        return observed(people, limits, schema=schema)

    @staticmethod
    def load(path: str | Path) -> Limits:
        """Read limits from a TOML file with `[columns.NAME]`, `[own.PERSON.NAME]`, `links`, `rules` and `plausible`."""
        content = read_toml(path, "limits", "a TOML file with [columns.NAME] tables")
        with naming(path):
            return _of_tables(content)


def _refuse_contradictions(schema: Schema, pairs: list[tuple[Said, Said]]) -> None:
    """Refuse two statements that no values of a table's columns satisfy together."""
    columns = {column.name: column for column in schema}
    for one, other in pairs:
        if not _both_possible(other, one, columns):
            raise _contradiction(one[0], other[0])


def _both_possible(one: Said, other: Said, columns: Mapping[str, Column]) -> bool:
    """Report whether some values satisfy both statements: by a programme if they share one of several columns."""
    if not one[1].keys() & other[1].keys():
        return all(_least(factors, columns) + constant <= 0 for _, factors, constant in (one, other))
    if len(one[1].keys() | other[1].keys()) == 1:  # two bounds of a column, of which tables have many
        return _both_bound(columns[next(iter(one[1]))], one, other)
    from scipy.optimize import linprog

    some = [columns[name] for name in sorted({*one[1], *other[1]})]
    rows, rights = [], []
    for _, factors, constant in (one, other):
        unit = max(map(abs, factors.values())) or 1.0  # HiGHS takes 1e30 for infinity
        rows.append([factors.get(column.name, 0.0) / unit for column in some])
        rights.append(-constant / unit)
    whole = np.array([column.whole for column in some], dtype=int)  # as a list, SciPy 1.13 does not take it
    spans = [column.span for column in some]
    found = linprog(np.zeros(len(some)), A_ub=rows, b_ub=rights, bounds=spans, integrality=whole, method="highs")
    return found.status != 2


def _both_bound(column: Column, *statements: Said) -> bool:
    """Report whether some value of a column satisfies statements about it alone, up to the rounding of a programme."""
    low, high = column.span
    for _, factors, constant in statements:
        factor = factors[column.name]
        if not factor and constant > 0:
            return False
        if factor > 0:
            high = min(high, -constant / factor)
        elif factor < 0:
            low = max(low, -constant / factor)
    if column.whole:
        low, high = float(np.ceil(low - BOUND_SLACK)), float(np.floor(high + BOUND_SLACK))
    ends = [abs(end) for end in (low, high) if np.isfinite(end)]
    return bool(low <= high + BOUND_SLACK * (1 + max(ends, default=0.0)))


def _least(factors: Mapping[str, float], columns: Mapping[str, Column]) -> float:
    """Return the least α·x."""
    return sum(min(factor * end for end in columns[name].span) for name, factor in factors.items() if factor)


def _contradiction(one: str, other: str) -> OptionError:
    return OptionError(f"limits: {one!r} and {other!r} contradict each other; change one of them.")


def _of_tables(content: dict[str, Any]) -> Limits:
    """Return what the tables of a TOML file say."""
    known = ("columns", "links", "own", "rules", "plausible")
    for key, value in content.items():
        if key not in known and isinstance(value, Mapping) and not nearest(key, known):
            raise OptionError(
                f"must be one of {', '.join(map(repr, known))}, got {key!r}; what may be done to a column is said in "
                f"[columns.{toml_key(key)}]."
            )
        choose("keys", key, known)
    return Limits(**content)


def as_limits(limits: Any) -> Limits | None:
    """Read what stands for limits wherever they are asked for: limits, a mapping of columns, a TOML file, or None."""
    match limits:
        case None | Limits():
            return limits
        case str() | Path():
            return Limits.load(limits)
        case Mapping():
            return Limits(limits)
    raise DataError(
        f"limits: must be an oar.Limits(…), a mapping of columns to oar.Limit(…), or a TOML file, got {shown(limits)}."
    )


def _position(person: Any, index: Any, texts: Any) -> int:
    """Return where in the index somebody is: by value, or else by how the value reads."""
    found = next((names.get_loc(person) for names in (index, texts) if person in names), None)
    if is_whole(found):
        return int(found)
    if found is None:
        hint = nearest(person, index[:MOST_COMPARED]) or f" It begins with {', '.join(map(shown, index[:5]))}."
        raise DataError(f"own: {shown(person)} must be in the table's index, got nobody of that name.{hint}")
    places = np.arange(len(index))[found]
    if len(places) > 1:
        raise DataError(
            f"own: {shown(person)} must be one person of the table's index, got {len(places)}; make the index unique."
        )
    return int(places[0])

"""Publishable numbers: rounded to steps that one person hardly moves.

Whoever knows all values but one can try out that one: put a guess in its place, do everything again, and compare with
every number that was published. So all numbers of what was found go through `publishable`, those within sentences too:

| number | step |
| --- | --- |
| losses, lengths | `PEOPLE`/n of the number or coarser, for one person of n moves an average by some 1/n of it |
| efforts | `PEOPLE`/n of everybody's or coarser |
| probabilities, rates, accuracies | `PEOPLE`/n or coarser |
| of a group: rates, what is spent per member | the same, n is how many the group has; no rate in steps above 0.1 |
| what lies about 0, as margins and gaps do | `PEOPLE`/n of the goal loss, or of its root where it is a square |
| counts of people | fives, from fifty on tens; 0 is 0, and one person counts as five |
| what is found by a solver's last steps, as residuals are | a power of ten, rounded up |

`PEOPLE` are ten, and steps 1, 2 or 5 times a power of ten (`round_steps`). Bounds are rounded to their safe
side, also within sentences (what suffices and what is "at most" up, "at least" down), and "about" stands before other
numbers of sentences that were rounded. What is known anyway stays as it is where it is told as that: what was asked,
and how many people there are, act or do nothing. A count that happens to equal such a number is rounded like any other,
and is never more than those whom it is of. The campaign `tests.campaigns.privacy` attacks what comes out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from oar.actions.limits.round_steps import one_two_five, share_of
from oar.checks import is_number
from oar.people import Population
from oar.problem import Problem
from oar.report.plan.answer import told

FIVES, TENS, MANY = 5, 10, 50  # steps of counts, and from where on they are the larger
FEW_IN_WORDS = 10  # below that, numbers of sentences count all kinds of things
FINEST = 1e-4  # of a number, however many people there are
LEAST_NOISE, LEAST_STEPS = 1e-9, 1_000

# What is known without people's values
KEPT = ("asked", "repeat", "format", "version", "oar", "plan", "files", "rounding")
BROKEN = "Limits are broken; the command says by whom, for the organiser alone."
# How many there are of whom something is told, and what those do whose labels change or who leave.
WHO = {
    *("people", "members", "participants", "actors", "bystanders", "held_out_people", "held_out_left_out"),
    *("relabelled", "leavers"),
}
COUNTS = {"movers", "changed", "towards", "away", "people_at_most"}
# Whom counts of a row are of; the first there is
OF_WHOM = ("participants", "people", "bystanders", "actors", "members")
GIVEN = {"shares", "budgets", "defection", "draws"}
PREDICTED = {"prediction_before", "prediction"}  # labels, where they are whole
SHARES = {
    *("goal_probability_before", "goal_probability", "probability_before", "probability", "success_rate"),
    *("wanted_before", "wanted_after", "score_before", "score_after", "own", "held_out", "rate_before", "rate"),
    *("probabilities", "share"),
}
OF_A_GROUP = {"wanted_before", "wanted_after", "score_before", "score_after", "share"}
# In coarser steps a group's rate says nothing true: from 92 % to 75 % would be from 100 % to 100 %.
COARSEST_RATE = 0.1
# What is of other people than those whom the rest of a row is of, by who says how many these are.
OF_OTHERS = {"held_out": "held_out_people", "effort_per_mover": "movers"}
OF_EVERYONE = {"effort"}  # of a group too: its step is what some of everybody spend
# Numbers of what is known that are in no sentence, and which a count may equal by chance.
CHANCE = {
    *("features", "columns", "versions", "limits", "imputed", "standardised"),
    *("query", "seed", "data", "command", "layout"),
}
ABOUT_ZERO = {"margin", "gap", "bound"}
NOISE = {"tie", "residual", "steps"}
UP = {"budget_at_most", "at_most_budget", "at_most_share", "people_at_most", "gap"}
DOWN = {"bound"}
NAMES = {"group", "column", "status", "witness", "solver", "grouped_by", "score", "independence"}
# A number of a sentence: not a part of a name, a version or a date; the sign before it stays.
DIGITS = r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?"
NUMBER = re.compile(rf"(?<![\w.,'’/:#])(?<!fewer than ){DIGITS}(?![\w'’/:]|[.,-]\d)(?P<percent> ?%)?")
# What a model and a question have, whoever the people are.
SHAPE = re.compile(r" (?:parameters|columns|features|levels|classes|rounds|parts|draws|outputs|digits)\b")
# Words around a number that counts people: after it, and before it.
OF_PEOPLE = re.compile(
    r" (?:(?:eligible |useful |most useful )?(?:members?|people|persons?|movers|actors|bystanders)\b|"
    r"labels? changes?\b|loses?\b|gains?\b|go(?:es)? away|towards\b|away\b|labelled\b|"
    r"of (?:the |all )?[\d,]+ (?:eligible|members|people)|"
    r"of (?:'[^']*'|(?!the |them\b|refits\b)[^\s,;:.)]+)[,)]|\(proved\))"
)
UP_DOWN = re.compile(r"(?:\bup|\bdown|\bto yes|\bto no|:) $")
# Where it is told how many there are, of whom something is counted.
WHOLE = re.compile(r"(?:\b[Oo]f(?: the| all)?|\ball|\beach of) $")
GROUP = re.compile(r" (?:eligible |)(?:members?|people|persons?|movers|actors|bystanders)\b")
WHOLE_BEFORE = re.compile(rf"\b[Oo]f ({DIGITS}) (?:members?|people|person) [^;.]*$")
WHOLE_AFTER = re.compile(rf" of (?:the |all )?({DIGITS}) (?:eligible|members|people)")
LEVERS = re.compile(r" (?:labels? changes?|members? leaves?)\b")
# Those who ask are told one by one.
ASKING = re.compile(r" of (?:the [\d,]+ who ask|them\b|[\d,]+ quer)| who ask\b| quer(?:y|ies)\b")
# Numbers that are said to suffice, or to be needed: false if they are rounded to the other side.
SUFFICES = re.compile(r"(?:\b[Aa]t most|\b[Aa]ny [a-z' ]+ (?:above|of at least)) $")
NEEDED = re.compile(r"\b[Aa]t least $")  # where it is not of what suffices
ENOUGH = re.compile(r" members? suffices?\b")
OBSERVED = re.compile(r" \(observed: [^)]*\)")  # the least and the largest value, which are single people's
FOUND = re.compile(r"(?:loss|probability|effort)(?: is| of| to| from)? $")


def publishable(facts: Mapping[str, Any], people: int, names: Sequence[Any] = ()) -> dict[str, Any]:
    """Return facts as files that may be published have them.

    Args:
        facts: what is told, by name; parts that are known without people's values stay as they are.
        people: how many there are.
        names: texts in which numbers are no numbers, such as names of columns and their levels.

    >>> told = {"outcome": {"loss": 3.1248012744586857, "movers": 12_343}, "asked": {"budget": 0.123456}}
    >>> told["explanation"] = "The goal loss is 3.1248 with a budget of 0.123456."
    >>> found = publishable(told, 1_000)
    >>> found["outcome"], found["explanation"]
    ({'loss': 3.1, 'movers': 12340}, 'The goal loss is about 3.1 with a budget of 0.123456.')
    """
    known = {number for part in (*(facts.get(name) for name in KEPT), names, people) for number in _numbers(part)}
    known |= {number for name in NAMES for part in _under(facts, name) for number in _numbers(part)}
    counts = {float(people), *(float(part) for name in WHO for part in _under(facts, name) if _is_number(part))}
    everyone = _of_whom(facts.get("asked") or {}, people)
    loss, effort = _largest(facts, "loss_before", "loss"), _largest(facts, "effort")
    squared = any(said is False for said in _under(facts, "loss_is_log_probability"))
    rounding = Rounding(people, counts, known | counts, loss, effort, squared)
    whole = _of_whom(facts, everyone)
    return {name: part if name in KEPT else rounding.told(name, part, whole, people) for name, part in facts.items()}


def rounding_words(people: int) -> str:
    """Say how numbers are rounded.

    >>> rounding_words(1000)
    'Numbers of what was found are rounded, to about 1 % and counts of people to fives and tens, so that they do not \
tell what one of 1,000 people has. The command prints them as they are, for the organiser alone.'
    """
    return (
        f"Numbers of what was found are rounded, to about {100 * share_of(people, FINEST):.2g} % and counts of people "
        f"to fives and tens, so that they do not tell what one of {people:,} people has. The command prints them as "
        "they are, for the organiser alone."
    )


def names_of(people: Population) -> list[Any]:
    """Return names and labels, of which a number may be a part."""
    columns = () if people.schema is None else people.schema
    names: list[Any] = [*(people.names or ()), people.target, *(() if people.classes is None else people.classes)]
    return [told(each) for each in (*names, *(part for column in columns for part in (column.name, *column.levels)))]


def participants(problem: Problem) -> int:
    """Return how many may act."""
    return int((problem.allowance.everyones(problem.people.size) > 0).sum())


class Rounding:
    """The rounding of numbers for a given number of people."""

    def __init__(
        self, people: int, counts: set[float], known: set[float], loss: float, effort: float, squared: bool
    ) -> None:
        """Take counts and all numbers that are known anyway, and how large goal losses (or squares) and efforts are."""
        self._people, self._counts, self._known = people, counts, known
        self._sizes = dict.fromkeys(SHARES, 1.0) | dict.fromkeys(ABOUT_ZERO, loss) | {"effort": effort}
        if squared:  # a margin is in the units of what is predicted, and the loss in squares of them
            self._sizes["margin"] = math.sqrt(2 * loss)

    def told(self, name: str, value: Any, of: int, people: int) -> Any:
        """Return what stands under a name, rounded as this name says.

        Counts are `of` so many who may act, or of a group; averages over so many `people`, or over the group.
        """
        match value:
            case Mapping():
                own = _of_whom(value, of), min(_of_whom(value, people), people)
                sizes = {key: value.get(OF_OTHERS.get(key)) or own[1] for key in value}
                return {key: self.told(key, part, own[0], sizes[key]) for key, part in value.items()}
            case _ if name == "violations":  # which name people
                return [BROKEN] if value else []
            case list() | tuple():
                return [self.told(name, part, of, people) for part in value]
            case str() if name in NAMES:
                return value
            case str():
                said = NUMBER.sub(lambda found: self._in_sentence(found, of), OBSERVED.sub("", value))
                return said.replace(f"about {FIVES} member moves", f"about {FIVES} members move")
        return self._number(name, value, of, people) if _is_number(value) and name not in WHO else value

    def _number(self, name: str, value: float, of: int, people: int) -> float | None:
        whole = isinstance(value, int)
        if whole and name in PREDICTED | GIVEN:
            return value
        if name in GIVEN:
            return float(f"{value:.6g}")
        if not whole and value in self._known:
            return value
        if name in NOISE:
            return _power_of_ten(value)
        nearest = UP_OR_DOWN.get(name, round)
        if isinstance(value, int):
            return _count(value, nearest, of if name in COUNTS or value == of else None)
        size = max(abs(value), self._sizes.get(name, 0.0))
        step = _step(size, self._people if name in OF_EVERYONE else people)
        if name in OF_A_GROUP and people < self._people and step > COARSEST_RATE * size:
            return None
        return _to(value, step, nearest)

    def _is_told_as_known(self, text: str, found: re.Match[str], value: float) -> bool:
        """Report whether a count is told as one that is known: of all there are, of those who ask, or asked for."""
        before, end = text[: found.start()], found.end()
        if ASKING.match(text, end):
            return True
        group = LEVERS.match(text, end) or (WHOLE.search(before) and GROUP.match(text, end))
        return bool(group and value in self._counts) or (before.endswith("Chosen were ") and value in self._known)

    def _in_sentence(self, found: re.Match[str], everyone: int) -> str:
        percent = found["percent"] or ""
        token = found[0].removesuffix(percent)
        plain = token.replace(",", "")
        whole = plain.isdigit() and not percent
        value, text, before = float(plain), found.string, found.string[: found.start()]
        nearest = _to_the_safe_side(text, found)
        if whole and (OF_PEOPLE.match(text, found.end()) or UP_DOWN.search(before)):
            if self._is_told_as_known(text, found, value):
                return found[0]
            said = WHOLE_AFTER.match(text, found.end()) or WHOLE_BEFORE.search(before)
            whole_of = everyone if said is None else int(said[1].replace(",", ""))  # as it says, or all who may act
            if value in (0, whole_of):
                return found[0]
            near = float(_count(int(plain), nearest, whole_of))
        elif (value in self._known and not FOUND.search(before)) or not math.isfinite(value):
            return found[0]
        elif whole:
            thing = SHAPE.match(text, found.end()) or ASKING.match(text, found.end())
            if thing or value < FEW_IN_WORDS:
                return found[0]
            near = _to(value, max(_step(value, self._people), FIVES if value < MANY else TENS), nearest)
        else:
            size = max(value, 100.0) if percent and value <= 100 else value
            near = _to(value, _step(size, self._people), nearest)
            if near == value:
                return found[0]
        shown = f"{near:,.0f}" if near == math.floor(near) and "," in token else f"{near:.12g}"
        # What suffices may be said to be the least, too, and that is about so.
        bound = nearest is not round and not before.endswith("above ")
        about = "" if bound or before.endswith(("about ", "+", "−", "-")) else "about "
        return f"{about}{shown}{percent}"


def _count(value: int, nearest: Any = round, of: int | None = None) -> int:
    """Return a count of people in fives or tens: not 0 where there is one, nor more than those whom it is of.

    >>> _count(1), _count(74), _count(74, math.ceil), _count(3, math.floor), _count(13, of=14), _count(14, of=14)
    (5, 70, 80, 1, 14, 14)
    """
    if value == of:
        return value
    step = FIVES if value < MANY else TENS
    if nearest is math.floor:
        return max(step * math.floor(value / step), int(value > 0))
    near = step * max(nearest(value / step), int(value > 0))
    return near if of is None or of < value else min(near, of)


def _to_the_safe_side(text: str, found: re.Match[str]) -> Any:
    """Return how a number of a sentence is rounded: up if it suffices, down if it is needed."""
    before = text[: found.start()]
    if SUFFICES.search(before) or ENOUGH.match(text, found.end()):
        return math.ceil
    return math.floor if NEEDED.search(before) else round


def _of_whom(row: Mapping[str, Any], others: int) -> int:
    """Return of how many people the counts of a row are; those of a part of it, if it does not say."""
    return next((row[name] for name in OF_WHOM if isinstance(row.get(name), int)), others)


UP_OR_DOWN: dict[str, Any] = dict.fromkeys(UP, math.ceil) | dict.fromkeys(DOWN, math.floor)


def _step(size: float, people: int) -> float:
    """Return the step of a number of this size that is of so many people."""
    return one_two_five(size * share_of(people, FINEST))


def _to(value: float, step: float, nearest: Any) -> float:
    """Return a multiple of a step as it is printed, without what rounding adds to it."""
    if not step:
        return value
    found = nearest(value / step) if abs(value / step - round(value / step)) > 1e-9 else round(value / step)
    return float(f"{found * step:.12g}") + 0.0


def _power_of_ten(value: float) -> float:
    if isinstance(value, int):
        return 10 ** math.ceil(math.log10(max(value, LEAST_STEPS))) if value > 0 else value
    return float(f"1e{math.ceil(math.log10(max(value, LEAST_NOISE)) - 1e-9)}")


def _largest(facts: Any, *names: str) -> float:
    found = [abs(value) for name in names for value in _under(facts, name) if _is_number(value)]
    return float(max(found, default=0.0))


def _is_number(value: Any) -> bool:
    return is_number(value) and math.isfinite(value)


def _numbers(value: Any) -> Iterator[float]:
    """Yield the numbers of what is known, those in texts too."""
    match value:
        case Mapping():
            yield from (each for name in value if name not in CHANCE for each in _numbers([name, value[name]]))
        case list() | tuple():
            yield from (each for part in value for each in _numbers(part))
        case str():
            yield from (float(found.replace(",", "")) for found in re.findall(DIGITS, value))
        case _ if _is_number(value):
            yield float(value)


def _under(value: Any, name: str) -> Iterator[Any]:
    """Yield what stands under a name, wherever that is."""
    match value:
        case Mapping():
            yield from (value[key] for key in value if key == name)
            yield from _under(list(value.values()), name)
        case list() | tuple():
            yield from (each for part in value for each in _under(part, name))

"""What may be published, in steps that one person hardly moves.

Whoever knows all values but one can try out that one: put a guess in its place, do everything again, and compare with
every number that was published. So all numbers of what was found go through `publishable`, those within sentences too:

| number | step |
| --- | --- |
| losses, lengths | `PEOPLE`/n of the number or coarser, for one person of n moves an average by some 1/n of it |
| efforts | `PEOPLE`/n of everybody's or coarser |
| probabilities, rates, accuracies | `PEOPLE`/n or coarser |
| what lies about 0, as margins and gaps do | `PEOPLE`/n of the goal loss, or of its root where it is a square |
| counts of people | fives, from fifty on tens; 0 is 0, and one person counts as five |
| what is found by a solver's last steps, as residuals are | a power of ten, rounded up |

Steps are 1, 2 or 5 times a power of ten. Bounds are rounded to their safe side, and "about" stands before numbers of
sentences that were rounded. What is known anyway stays as it is: what was asked, and how many people there are. The
campaign `tests.campaigns.privacy` attacks what comes out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from oar.people import Population
from oar.problem import Problem
from oar.report.answer import told

PEOPLE = 10  # whose worth a step is at least
FIVES, TENS, MANY = 5, 10, 50  # steps of counts, and from where on they are the larger
FEW_IN_WORDS = 10  # below that, numbers of sentences count all kinds of things
FINEST = 1e-4  # of a number, however many people there are
COARSEST = 0.5
LEAST_NOISE, LEAST_STEPS = 1e-9, 1_000

KEPT = (
    "asked",
    "repeat",
    "format",
    "version",
    "oar",
    "plan",
    "files",
    "rounding",
)  # what is known without people's values
BROKEN = "Limits are broken; the command says by whom, for the organiser alone."
# How many there are of whom something is told, and what those do whose labels change or who leave.
WHO = {
    *("people", "members", "participants", "actors", "bystanders", "held_out_people", "held_out_left_out"),
    *("relabelled", "leavers"),
}
GIVEN = {"shares", "budgets", "defection", "draws"}
PREDICTED = {"prediction_before", "prediction"}  # labels, where they are whole
SHARES = {
    *("goal_probability_before", "goal_probability", "probability_before", "probability", "success_rate"),
    *("wanted_before", "wanted_after", "score_before", "score_after", "own", "held_out", "rate_before", "rate"),
}
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
SHAPE = re.compile(r" (?:parameters|columns|features|levels|classes|rounds|parts|draws|outputs)\b")
OF_PEOPLE = re.compile(r" (?:lose|gain|go away|towards|members|people|movers|labels)\b")
UP_DOWN = re.compile(r"(?:\bup|\bdown|\bto yes|\bto no|:) $")


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
    loss, effort = _largest(facts, "loss_before", "loss"), _largest(facts, "effort")
    squared = any(said is False for said in _under(facts, "loss_is_log_probability"))
    rounding = Rounding(people, counts, known | counts, loss, effort, squared)
    return {name: part if name in KEPT else rounding.told(name, part) for name, part in facts.items()}


def rounding_words(people: int) -> str:
    """Say how numbers are rounded.

    >>> rounding_words(1000)
    'Numbers of what was found are rounded, to about 1 % and counts of people to fives and tens, so that they do not \
tell what one of 1,000 people has. The command prints them as they are, for the organiser alone.'
    """
    return (
        f"Numbers of what was found are rounded, to about {100 * _share(people):.2g} % and counts of people to fives "
        f"and tens, so that they do not tell what one of {people:,} people has. The command prints them as they are, "
        "for the organiser alone."
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
    """How numbers are rounded where there are so many people."""

    def __init__(
        self, people: int, counts: set[float], known: set[float], loss: float, effort: float, squared: bool
    ) -> None:
        """Take counts and all numbers that are known anyway, and how large goal losses (or squares) and efforts are."""
        self._share, self._counts, self._known = _share(people), counts, known
        self._sizes = dict.fromkeys(SHARES, 1.0) | dict.fromkeys(ABOUT_ZERO, loss) | {"effort": effort}
        if squared:  # a margin is in the units of what is predicted, and the loss in squares of them
            self._sizes["margin"] = math.sqrt(2 * loss)

    def told(self, name: str, value: Any) -> Any:
        """Return what stands under a name, rounded as this name says."""
        if isinstance(value, Mapping):
            return {key: self.told(key, part) for key, part in value.items()}
        if name == "violations":  # which name people
            return [BROKEN] if value else []
        if isinstance(value, list | tuple):
            return [self.told(name, part) for part in value]
        if isinstance(value, str):
            return value if name in NAMES else NUMBER.sub(self._in_sentence, value)
        whole = isinstance(value, int)
        if not _is_number(value) or name in WHO or (whole and name in PREDICTED | GIVEN):
            return value
        if name in GIVEN:
            return float(f"{value:.6g}")
        if value in (self._counts if whole else self._known):
            return value
        if name in NOISE:
            return _power_of_ten(value)
        if whole:
            return self._count(value, name in UP)
        return _to(value, self._step(max(abs(value), self._sizes.get(name, 0.0))), UP_OR_DOWN.get(name, round))

    def _step(self, size: float) -> float:
        return _one_two_five(size * self._share)

    @staticmethod
    def _count(value: int, up: bool = False) -> int:
        step = FIVES if value < MANY else TENS
        return step * max(math.ceil(value / step) if up else round(value / step), int(value > 0))

    def _in_sentence(self, found: re.Match[str]) -> str:
        percent = found["percent"] or ""
        token = found[0].removesuffix(percent)
        plain = token.replace(",", "")
        whole = plain.isdigit() and not percent
        value, before = float(plain), found.string[: found.start()]
        if value in self._known or not math.isfinite(value) or (whole and SHAPE.match(found.string, found.end())):
            return found[0]
        size = max(value, 100.0) if percent and value <= 100 else value
        if whole:
            few = value < FEW_IN_WORDS and not (OF_PEOPLE.match(found.string, found.end()) or UP_DOWN.search(before))
            if few or not value:
                return found[0]
            near = float(self._count(int(plain)))
        else:
            near = _to(value, self._step(size), round)
            if near == value:
                return found[0]
        shown = f"{near:,.0f}" if near == math.floor(near) and "," in token else f"{near:.12g}"
        about = "" if before.endswith(("about ", "+", "−", "-")) else "about "
        return f"{about}{shown}{percent}"


UP_OR_DOWN: dict[str, Any] = dict.fromkeys(UP, math.ceil) | dict.fromkeys(DOWN, math.floor)


def _share(people: int) -> float:
    """Return which share of a number a step is, or more."""
    return min(max(PEOPLE / max(people, 1), FINEST), COARSEST)


def _one_two_five(size: float) -> float:
    """Return the least of 1, 2 or 5 times a power of ten that is not below a size; 0 for 0.

    >>> _one_two_five(0.021), _one_two_five(0.5), _one_two_five(70.0)
    (0.05, 0.5, 100.0)
    """
    if not size or not math.isfinite(size):
        return 0.0
    tens = math.floor(math.log10(size))
    return min(step for step in (float(f"{digit}e{tens}") for digit in (1, 2, 5, 10)) if step >= size * (1 - 1e-12))


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
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _numbers(value: Any) -> Iterator[float]:
    """Yield the numbers of what is known, those in texts too."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from () if name in CHANCE else (*_numbers(name), *_numbers(part))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _numbers(part)
    elif isinstance(value, str):
        yield from (float(found.replace(",", "")) for found in re.findall(DIGITS, value))
    elif _is_number(value):
        yield float(value)


def _under(value: Any, name: str) -> Iterator[Any]:
    """Yield what stands under a name, wherever that is."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            if key == name:
                yield part
            yield from _under(part, name)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _under(part, name)
